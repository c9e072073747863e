"""The cloud action itself sends nothing that may not be sent, whoever calls it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.actions.base import Context, DryRunError
from costguard.actions.cloud import CloudAction
from costguard.actions.job import ActionAnswer
from costguard.plans import Result, Verdict
from costguard.process.wire import build, from_line, to_line
from tests.clouds.core.conftest import EXAMPLE, Rented
from tests.contract.cloud_server import Cloud

Jobs = Callable[..., Context]


@pytest.fixture
def job(rented: Rented, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return lambda **more: build(Context, rented.job("act", **more))


@pytest.mark.parametrize("mode", ["dry-run", "LIVE", ""])
def test_a_dry_run_raises_before_anything_is_sent(job: Jobs, cloud: Cloud, mode: str) -> None:
    """Also where the worker in front of it did not refuse; everything but the exact word is a dry run."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job(mode=mode)))
    assert plan.may_act
    with pytest.raises(DryRunError):
        action.execute(plan, job(mode=mode))
    assert cloud.asked == []
    assert action.execute(plan, job()).status == "accepted"
    assert len(cloud.asked) == 1


@pytest.mark.parametrize("verdict", ["refuse", "another", "failed"])
def test_a_plan_that_does_not_pass_is_not_carried_out(job: Jobs, cloud: Cloud, verdict: Verdict) -> None:
    """The session is warm, and the request would be accepted: the plan alone stands in the way."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job()))
    assert action.execute(plan._replace(verdict=verdict), job()).status == "failed"
    assert cloud.asked == []
    assert action.execute(plan._replace(verdict="consequences"), job()).status == "accepted"


def test_without_a_session_nothing_is_sent(job: Jobs, cloud: Cloud) -> None:
    """A later look that failed takes the session of an earlier one away: what it saw may have changed."""
    action = CloudAction("stop")
    plan = action.plan(action.facts(job()))
    assert CloudAction("stop").execute(plan, job()).status == "failed"
    cloud.fail["/machine"] = 503
    assert action.facts(job()).session is None
    assert action.execute(plan, job()).status == "failed"
    assert cloud.asked == []


SLOPPY = """
from costguard.plans import PlanFinding, Result
from costguard_example import Example, ExampleMachine

class Machine(ExampleMachine):
    def plan(self, verb, facts):
        return super().plan(verb, facts)._replace(findings=(PlanFinding("bill_ends", 7, None),))

    def execute(self, verb, facts, ticket):
        return super().execute(verb, facts, ticket)._replace(detail=None, proof=17, receipt={"accepted": 5.0})

    def confirm(self, verb, ticket, recorded):
        return Result("finished", 404, 18)

class Sloppy(Example):
    def open(self, site, identity):
        return Machine(site, identity.instance, "token")

PROVIDER = Sloppy()
"""


def test_an_accepted_request_is_told_whatever_the_plug_in_says_of_it(
    job: Jobs, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Foreign code may give a number for a text: the line to the guard is well-formed all the same."""
    (tmp_path / "costguard_sloppy.py").write_text(SLOPPY)
    monkeypatch.syspath_prepend(str(tmp_path))
    context = job(providers=["sloppy=costguard_sloppy"])
    action = CloudAction("stop")
    plan = action.plan(action.facts(context))
    assert _told(ActionAnswer(plan=plan)).plan == plan
    accepted = _told(ActionAnswer(outcome=action.execute(plan, context))).outcome
    assert accepted is not None
    assert (accepted.status, accepted.proof) == ("accepted", "17")
    assert accepted.receipt["request"] == "17"
    assert len(cloud.asked) == 1
    confirmed = _told(ActionAnswer(outcome=action.confirm(context, accepted))).outcome
    assert confirmed == Result("unknown", "404", "18", accepted.receipt)


def _told(answer: ActionAnswer) -> ActionAnswer:
    """What the guard reads."""
    return from_line(ActionAnswer, to_line(answer))
