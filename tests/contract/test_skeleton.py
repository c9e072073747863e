"""The skeleton beside providers/README.md works as it stands: whoever copies it begins with a plug-in that keeps the contract."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from costguard.cloud.api import CloudError, Site, Ticket, Verb
from costguard.plans import Result
from costguard.testing.contract import CHECKS, Case, check_marks
from tests.contract.cloud_server import Cloud, running
from tests.contract.test_files import SAME

SKELETON = Path(__file__).parents[2] / "providers" / "skeleton"
PACKAGE = "costguard_skeleton"
DMI = {"sys_vendor": "Skeleton Cloud", "board_asset_tag": "m-42"}
TICKET = Ticket("i", "a-1", 5.0)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """On the path, as an installed one."""
    monkeypatch.syspath_prepend(str(SKELETON))
    yield importlib.import_module(PACKAGE)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


class Rented:
    """A machine of its cloud."""

    def __init__(self, package: ModuleType, cloud: Cloud, folder: Path) -> None:
        self.provider, self.cloud, self.folder = package.PROVIDER, cloud, folder
        (folder / "proc").mkdir()
        (folder / "sys/block").mkdir(parents=True)
        self.settings: dict[str, object] = dict(cloud.settings)

    def open(self) -> Any:
        """A session."""
        site = self.site()
        return self.provider.open(site, self.provider.identify(site))

    def site(self) -> Site:
        """Where it looks."""
        return Site(DMI, self.settings, {}, str(self.folder / "proc"), str(self.folder / "sys"))

    def act(self, verb: Verb = "stop", ticket: Ticket = TICKET) -> Result:
        """Plan, and carry out."""
        machine = self.open()
        outcome = machine.execute(verb, machine.facts(verb), ticket)
        assert isinstance(outcome, Result)
        return outcome


@pytest.fixture
def rented(package: ModuleType, tmp_path: Path) -> Iterator[Rented]:
    with running() as cloud:
        yield Rented(package, cloud, tmp_path)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(package: ModuleType, check: Callable[[Case], None]) -> None:
    """Before anything is changed in it."""
    check(Case(f"{package.__name__}:Skeleton", own=[DMI]))


def test_it_has_the_files_that_every_plug_in_has(package: ModuleType) -> None:
    """So that each thing is found under the same name."""
    assert package.__file__ is not None
    assert {file.stem for file in Path(package.__file__).parent.glob("*.py")} == SAME


def test_from_the_plan_to_the_proof(rented: Rented) -> None:
    """Accepted with the request's id, once; then closed, also for whoever asks with a receipt alone."""
    machine = rented.open()
    facts = machine.facts("stop")
    made = machine.plan("stop", facts)
    assert (made.verdict, made.ends_bill, made.keeps_disks) == ("go", True, True)
    outcome = machine.execute("stop", facts, TICKET)
    assert (outcome.status, outcome.proof in outcome.detail) == ("accepted", True)
    assert rented.cloud.asked == ["POST /machines/m-42/stop?attempt=a-1"]
    assert machine.confirm("stop", TICKET, outcome).status == "done"
    receipt = {"instance": "m-42", "action": "stop", "request": outcome.proof}
    assert rented.provider.verify(rented.site(), receipt).status == "done"
    assert machine.execute("stop", machine.facts("stop"), TICKET).detail.startswith("seen stopping")
    assert len(rented.cloud.asked) == 1


def test_a_lost_answer(rented: Rented) -> None:
    """Accepted where the machine shows it, unknown where it still runs; never *failed*."""
    rented.cloud.mute.add("stop")
    outcome = rented.act()
    assert (outcome.status, "the answer was lost" in outcome.detail) == ("accepted", True)
    rented.cloud.machine["status"] = "running"
    rented.cloud.mute.clear()
    rented.cloud.fail["/machines/m-42/stop"] = 0
    began = time.monotonic()
    assert rented.act(ticket=TICKET._replace(deadline=2.0)).status == "unknown"
    assert time.monotonic() - began < 4.0


@pytest.mark.parametrize(
    ("status", "expected"), [(503, "failed"), (429, "failed"), (403, "refused"), (401, "failed"), (409, "refused")]
)
def test_an_answer_that_says_no(rented: Rented, status: int, expected: str) -> None:
    """A veto is one, and what passes may be followed by another action."""
    rented.cloud.fail["/machines/m-42/stop"] = status
    assert rented.act(ticket=TICKET._replace(deadline=1.5)).status == expected


def test_what_the_plan_refuses(rented: Rented) -> None:
    """A right that is missing, a protection: nothing is sent."""
    for change, code in (({"rights": []}, "not_permitted"), ({"protected": True}, "protected")):
        before = dict(rented.cloud.machine)
        rented.cloud.machine.update(change)
        machine = rented.open()
        assert code in {finding.code for finding in machine.plan("stop", machine.facts("stop")).findings}
        assert rented.act().status == "refused"
        rented.cloud.machine.update(before)
    assert rented.cloud.asked == []


def test_a_right_of_a_young_machine_arrives_late(rented: Rented) -> None:
    """It is told, and waited for."""
    (rented.folder / "proc/uptime").write_text("60.0 1.0\n")
    rented.cloud.machine["rights"] = []
    machine = rented.open()
    made = machine.plan("stop", machine.facts("stop"))
    assert (made.verdict, made.findings[0].code) == ("consequences", "rights_may_be_late")


def test_its_own_setting_counts(rented: Rented) -> None:
    """As ``[cloud.skeleton]`` would have it."""
    rented.settings["project"] = "another"
    with pytest.raises(CloudError, match="says another"):
        rented.open()


def test_its_tags(rented: Rented) -> None:
    """Nobody else's is lost."""
    rented.cloud.tags["owner"] = "somebody"
    check_marks(rented.open(), lambda: rented.cloud.tags)
    assert rented.provider.tags(rented.site())["owner"] == "somebody"
    assert rented.provider.scheduler(rented.site()) is None
    rented.cloud.tags["ray-cluster-name"] = "c"
    assert rented.provider.scheduler(rented.site()) == ("Ray", "tag ray-cluster-name")
