"""One machine with its cloud around it, on loopback."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from costguard.cloud.api import Ticket
from costguard.plans import Plan
from costguard_aws import PROVIDER
from costguard_aws.facts import Facts
from costguard_aws.machine import Ec2
from costguard_aws.testing import FakeMachine, Imds, Nature, machine

TICKET = Ticket("inc-7f3a", "inc-7f3a.1", 20.0)

Launch = Callable[..., FakeMachine]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a machine of a type and nature; one in a test."""
    with ExitStack() as stack:

        def start(kind: str = "g5g.xlarge", nature: Nature | None = None) -> FakeMachine:
            return stack.enter_context(machine(str(tmp_path), kind, nature))

        yield start


@pytest.fixture
def here(launch: Launch) -> FakeMachine:
    """A plain machine without local disks."""
    return launch()


@pytest.fixture
def imds() -> Iterator[Imds]:
    """A metadata service alone."""
    with Imds().running() as service:
        yield service


@contextmanager
def opened(here: FakeMachine, **settings: object) -> Iterator[Ec2]:
    """A session of the plug-in on this machine."""
    site = here.site(**settings)
    found = PROVIDER.open(site, PROVIDER.identify(site))
    assert isinstance(found, Ec2)
    try:
        yield found
    finally:
        found.close()


def codes(made: Plan) -> set[str]:
    """The codes of a plan."""
    return {finding.code for finding in made.findings}


def looked(here: FakeMachine, verb: str = "stop", **settings: object) -> tuple[Facts, Plan]:
    """Facts and plan of a verb on this machine."""
    with opened(here, **settings) as session:
        facts = session.facts(verb)  # type: ignore[arg-type]  # the tests spell the verbs
        return facts, session.plan(facts.verb, facts)
