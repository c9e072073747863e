"""A shutdown as a fall-back rests on what the cloud said of this machine while it could be asked."""

from pathlib import Path

import pytest

from costguard.actions import shutdown_behaviour
from costguard.actions.base import Context
from costguard.actions.guest import GuestFacts
from costguard.actions.init_rights import InitRight
from costguard.actions.shutdown import Shutdown
from costguard.cloud.access import HostPaths
from costguard.cloud.api import Consequence
from costguard.plans import Plan, PlanFinding

MAY = InitRight(("systemctl", "poweroff"))
FACTS = GuestFacts("shutdown", ("systemctl", "poweroff"), MAY, "", stands_for_host=False, clouds=("X",))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("boot-1\n")
    return Context("stop", results=str(tmp_path / "results"), host=HostPaths(procfs=str(tmp_path / "proc")))


def planned(code: str) -> Plan:
    return Plan("stop", "go", (PlanFinding("bill_ends", "x"), PlanFinding(code, "x")))


@pytest.mark.parametrize(("code", "said"), [("shutdown_stops", "stops"), ("shutdown_terminates", "terminates")])
def test_what_the_plan_saw_is_known_later(context: Context, code: str, said: str) -> None:
    """By another worker of the same boot."""
    assert shutdown_behaviour.known(context) == ""
    shutdown_behaviour.keep(planned(code), context)
    assert shutdown_behaviour.known(context) == said


def test_a_plan_that_saw_nothing_takes_nothing_back(context: Context) -> None:
    """A throttled look proves nothing new."""
    shutdown_behaviour.keep(planned("shutdown_stops"), context)
    shutdown_behaviour.keep(planned("throttled"), context)
    assert shutdown_behaviour.known(context) == "stops"


def test_another_boot_knows_nothing(context: Context) -> None:
    """The setting may have been changed while the machine was off."""
    shutdown_behaviour.keep(planned("shutdown_stops"), context)
    (Path(context.host.procfs) / "sys/kernel/random/boot_id").write_text("boot-2\n")
    assert shutdown_behaviour.known(context) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"boot_id":"boot-1"}', '{"boot_id":"boot-1","says":"anything"}'])
def test_a_file_that_makes_no_sense_proves_nothing(context: Context, text: str) -> None:
    """Neither does it break the plan of a shutdown."""
    Path(context.results).mkdir()
    (Path(context.results) / shutdown_behaviour.FILE).write_text(text)
    assert shutdown_behaviour.known(context) == ""


def test_a_folder_that_cannot_be_written_proves_nothing(context: Context) -> None:
    """And costs nobody the plan."""
    Path(context.results).write_text("a file")
    shutdown_behaviour.keep(planned("shutdown_stops"), context)
    assert shutdown_behaviour.known(context) == ""


@pytest.mark.parametrize(
    ("consequence", "verdict", "code"),
    [
        (Consequence(True, True, "stops"), "go", "bill_ends"),
        (Consequence(True, None, "stops or deletes", "look"), "refuse", "shutdown_unproven"),
        (Consequence(True, False, "deletes", "look"), "refuse", "shutdown_unproven"),
        (Consequence(None, True, "depends", "look"), "refuse", "shutdown_unproven"),
        (Consequence(False, True, "goes on", "look"), "another", "bill_goes_on"),
    ],
)
def test_a_fall_back_needs_proof(consequence: Consequence, verdict: str, code: str) -> None:
    """As the owner's own first action the same is a consequence, to be told."""
    facts = FACTS._replace(consequence=consequence, fallback=True)
    plan = Shutdown().plan(facts)
    assert plan.verdict == verdict
    assert code in {finding.code for finding in plan.findings}
    first = Shutdown().plan(facts._replace(fallback=False))
    assert first.verdict == {"refuse": "consequences"}.get(verdict, verdict)
