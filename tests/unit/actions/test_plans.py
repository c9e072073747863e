"""Plans are pure: facts in, verdict and findings out."""

import pytest

from costguard.actions import guest, init_rights
from costguard.actions.base import Context
from costguard.actions.command import Command, CommandFacts
from costguard.actions.end_process import EndProcess
from costguard.actions.reboot import Reboot
from costguard.actions.shutdown import Shutdown
from costguard.actions.worker import ACTIONS
from costguard.cloud.api import Consequence
from costguard.plans import PlanFinding, Verdict, worst

MAY = init_rights.InitRight(("systemctl", "poweroff"))
FACTS = guest.GuestFacts(
    action="shutdown", tool=("systemctl", "poweroff"), permission=MAY, container="", stands_for_host=False
)
SAFE = Consequence(True, True, "the bill ends")


def codes(findings: tuple[PlanFinding, ...]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("known", "verdict", "found"),
    [
        (SAFE, "go", ["bill_ends"]),
        (SAFE._replace(keeps_disks=False), "consequences", ["loses_disks"]),
        (SAFE._replace(keeps_disks=None), "consequences", ["may_terminate"]),
        (SAFE._replace(ends_bill=None), "consequences", ["bill_unknown"]),
        (SAFE._replace(ends_bill=False), "another", ["bill_goes_on"]),
        (Consequence(False, None, "both"), "another", ["bill_goes_on", "may_terminate"]),
    ],
)
def test_what_a_shutdown_does_to_the_bill(known: Consequence, verdict: Verdict, found: list[str]) -> None:
    """Unknown is never read as yes, and the gravest answer wins."""
    plan = Shutdown().plan(FACTS._replace(clouds=("X",), consequence=known))
    assert (plan.verdict, codes(plan.findings)) == (verdict, found)
    assert (plan.ends_bill, plan.keeps_disks) == (known.ends_bill, known.keeps_disks)


def test_the_owner_can_accept_a_bill_that_goes_on() -> None:
    """Then it is a consequence, still told."""
    known = SAFE._replace(ends_bill=False)
    plan = Shutdown().plan(FACTS._replace(clouds=("X",), consequence=known, accept_bill=True))
    assert (plan.verdict, codes(plan.findings)) == ("consequences", ["bill_goes_on"])


def test_two_clouds_that_claim_one_machine_make_its_bill_unknown() -> None:
    """Neither is believed."""
    plan = Shutdown().plan(FACTS._replace(clouds=("X", "Y")))
    assert (plan.verdict, codes(plan.findings), plan.ends_bill) == ("consequences", ["cloud_ambiguous"], None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"container": "there is /.dockerenv"}, "container"),
        ({"container": None}, "container_unknown"),
        ({"tool": (), "permission": init_rights.InitRight(())}, "no_init"),
        ({"permission": init_rights.InitRight((), "add a rule")}, "not_permitted"),
    ],
)
@pytest.mark.parametrize("action", [Shutdown(), Reboot()])
def test_what_refuses_a_machine_action(action: Shutdown | Reboot, change: dict[str, object], code: str) -> None:
    """A refusal has a hint, and no command that could be executed."""
    plan = action.plan(guest.GuestFacts(**{**FACTS._asdict(), **change}))
    assert (plan.verdict, plan.command, plan.may_act) == ("refuse", (), False)
    assert next(finding for finding in plan.findings if finding.code == code).hint


def test_all_refusals_are_told_at_once() -> None:
    """Nobody should have to mend one to learn of the next."""
    facts = FACTS._replace(container="mark", permission=init_rights.InitRight((), "add a rule"))
    assert codes(Shutdown().plan(facts).findings)[:2] == ["container", "not_permitted"]


@pytest.mark.parametrize("container", ["mark", None])
def test_a_container_may_stand_for_its_host(container: str | None) -> None:
    """Only when the owner says so."""
    assert Reboot().plan(FACTS._replace(container=container, stands_for_host=True)).may_act


def test_a_reboot_never_ends_the_bill_nor_loses_a_disk() -> None:
    """It always says so."""
    plan = Reboot().plan(FACTS)
    assert (plan.verdict, codes(plan.findings)) == ("consequences", ["bill_goes_on"])
    assert (plan.ends_bill, plan.keeps_disks, plan.command) == (False, True, MAY.command)


@pytest.mark.parametrize(
    ("facts", "code"), [(CommandFacts((), ""), "command_missing"), (CommandFacts(("x", "y"), ""), "command_not_found")]
)
def test_a_command_that_cannot_run_is_found_at_the_plan(facts: CommandFacts, code: str) -> None:
    """Not when it is needed."""
    plan = Command().plan(facts)
    assert (plan.verdict, codes(plan.findings)) == ("refuse", [code])
    assert ("'x'" in plan.findings[0].text) is bool(facts.argv), "the program is named"


def test_end_process_is_always_possible_and_stops_no_bill() -> None:
    """The guard does it; a worker that is asked refuses."""
    plan, job = EndProcess().plan(None), Context("end_process", "live")
    assert (plan.verdict, plan.ends_bill, plan.keeps_disks) == ("go", False, True)
    assert codes(plan.findings) == ["bill_goes_on"]
    assert EndProcess().execute(plan, job).status == "refused"
    assert EndProcess().confirm(job, None).status == "failed"


def test_every_action_of_the_configuration_has_a_plan() -> None:
    """And is found under its own name."""
    assert sorted(ACTIONS) == [
        "command",
        "end_process",
        "end_task",
        "hibernate",
        "reboot",
        "shutdown",
        "stop",
        "terminate",
    ]
    assert all(name == action.name for name, action in ACTIONS.items())


def test_the_gravest_verdict_wins() -> None:
    """In the order go, consequences, another, refuse."""
    assert worst("consequences", "refuse", "another") == "refuse"
    assert worst("go", "consequences") == "consequences"
    assert worst() == "go"
