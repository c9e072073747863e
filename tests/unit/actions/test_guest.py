"""What the machine's own init system is asked, and what its answers mean."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from costguard.actions import guest, results, shutdown_behaviour
from costguard.actions.base import Context
from costguard.actions.shutdown import Shutdown
from costguard.cloud.access import HostPaths
from costguard.cloud.api import Consequence, Provider, Site
from costguard.plans import Plan, PlanFinding, Result

SHUTDOWN = Shutdown()


def context(root: Path, deadline: float = 5.0, **more: object) -> Context:
    host = HostPaths(procfs=str(root / "proc"), sysfs=str(root / "sys"))
    made = Context("shutdown", "live", attempt="b-a1", host=host, results=str(root / "results"), deadline=deadline)
    return made._replace(**more)  # type: ignore[arg-type]  # names of its fields


def tool(root: Path, name: str, script: str, first: str = "#!/bin/sh") -> str:
    """A program in the only folder of PATH."""
    (root / "bin").mkdir(exist_ok=True)
    path = root / "bin" / name
    path.write_text(f"{first}\n{script}\n")
    path.chmod(0o755)
    return str(path)


def boot(root: Path, name: str) -> None:
    (root / "proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(name)


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.parametrize(
    ("script", "status", "words", "proof"),
    [
        ("exit 0", "accepted", "was accepted by the init system", "exit code 0"),
        ("echo Access denied; exit 1", "refused", "was refused: Access denied", "exit code 1"),
        ("echo Operation inhibited by x; exit 1", "refused", "Operation inhibited by x", "exit code 1"),
        ("echo Failed to connect to bus; exit 1", "failed", "failed: Failed to connect to bus", "exit code 1"),
        ("exit 7", "failed", "failed: no output, exit code 7", "exit code 7"),
        ("exec /bin/sleep 60", "unknown", "did not answer within 0.2 s", ""),
    ],
)
def test_what_the_init_system_says_is_its_outcome(
    tmp_path: Path, script: str, status: str, words: str, proof: str
) -> None:
    """A refusal is somebody's will; a failure is technical, and the next action may be tried; silence proves nothing."""
    found = SHUTDOWN.execute(
        Plan("shutdown", "go", command=(tool(tmp_path, "systemctl", script), "poweroff")), context(tmp_path, 0.2)
    )
    assert (found.status, found.proof) == (status, proof)
    assert words in found.detail


def test_of_many_words_the_last_ones_are_told(tmp_path: Path) -> None:
    """What failed stands at the end, and a message has no room for more."""
    words = "printf '%0400d' 7; exit 1"
    found = SHUTDOWN.execute(
        Plan("shutdown", "go", command=(tool(tmp_path, "systemctl", words), "poweroff")), context(tmp_path)
    )
    assert found.detail.rpartition(": ")[2] == "0" * 299 + "7"


def test_a_tool_that_is_gone_when_it_is_needed_is_a_technical_failure(tmp_path: Path) -> None:
    """Nothing was asked for, so that the next action may be tried."""
    found = SHUTDOWN.execute(
        Plan("shutdown", "go", command=(str(tmp_path / "bin/systemctl"), "poweroff")), context(tmp_path)
    )
    assert (found.status, "could not be started: No such file" in found.detail) == ("failed", True)


@pytest.mark.parametrize(
    ("script", "first", "stops"),
    [
        ("echo stopping; exit 1", "#!/bin/sh", True),
        ("echo running", "#!/bin/sh", False),
        ("", "no program", False),
        (None, "", False),
    ],
)
def test_whether_the_machine_is_stopping(tmp_path: Path, script: str | None, first: str, stops: bool) -> None:
    """As the init system says it; one that is not there, or cannot be started, says nothing."""
    if script is not None:
        tool(tmp_path, "systemctl", script, first)
    assert guest.stopping() is stops


@pytest.mark.parametrize(
    ("systemd", "delay", "argv"),
    [
        (True, None, ("systemctl", "poweroff")),
        (True, 0, ("systemctl", "poweroff")),
        (True, 1, ("shutdown", "-h", "+1")),
        (True, 60, ("shutdown", "-h", "+1")),
        (True, 60.5, ("shutdown", "-h", "+2")),
        (False, None, ("shutdown", "-h", "now")),
        (False, 120, ("shutdown", "-h", "+2")),
    ],
)
def test_which_tool_is_used(tmp_path: Path, systemd: bool, delay: float | None, argv: tuple[str, ...]) -> None:
    """Only one of them can wait, in whole minutes and never in fewer seconds than were asked for."""
    for name in ("systemctl", "shutdown", "busctl"):
        tool(tmp_path, name, "exit 0")
    if systemd:
        (tmp_path / "proc/self/root/run/systemd/system").mkdir(parents=True)
    assert SHUTDOWN.facts(context(tmp_path, settings={"delay": delay})).tool == argv


@pytest.mark.parametrize("fails", [True, False])
def test_a_delay_without_the_tool_that_can_wait(tmp_path: Path, fails: bool) -> None:
    """Is no reason to stop at once: nothing can do it."""
    tool(tmp_path, "systemctl", "exit 0")
    (tmp_path / "proc/self/root/run/systemd/system").mkdir(parents=True)
    found = SHUTDOWN.facts(context(tmp_path, settings={"delay": 120 if fails else 0}))
    assert bool(found.tool) is not fails
    assert ("no_init" in [finding.code for finding in guest.refusals(found)]) is fails


ACCEPTED = Result("accepted", "asked", "exit code 0")


@pytest.mark.parametrize(
    ("recorded", "later", "status", "words"),
    [
        (ACCEPTED, "boot-1", "accepted", "but the machine still runs"),
        (ACCEPTED, "boot-2", "done", "has booted again since"),
        (ACCEPTED, "", "accepted", "but the machine still runs"),
        (Result("failed", "no words"), "boot-1", "failed", "no words"),
        (None, "boot-1", "unknown", "no record"),
    ],
)
def test_what_became_of_it(tmp_path: Path, recorded: Result | None, later: str, status: str, words: str) -> None:
    """On the same boot it is at best on its way; another boot proves that the machine went down."""
    job = context(tmp_path)
    boot(tmp_path, "boot-1")
    if recorded is not None:
        assert results.begin(job).first
        assert results.finish(job, recorded) == ""
    boot(tmp_path, later)
    found = SHUTDOWN.confirm(job, recorded)
    assert (found.status, words in found.detail) == (status, True)


def test_a_record_without_a_boot_proves_no_other_one(tmp_path: Path) -> None:
    """Where the kernel's name of the boot could not be read."""
    job = context(tmp_path)
    results.begin(job)
    results.finish(job, ACCEPTED)
    boot(tmp_path, "boot-2")
    assert SHUTDOWN.confirm(job, ACCEPTED).status == "accepted"
    assert os.listdir(tmp_path / "results") == ["b-a1.json"]


AWS = {"sys_vendor": "Amazon EC2", "board_asset_tag": "i-0123456789abcdef0"}


@pytest.mark.parametrize(
    ("code", "keeps_disks"), [("shutdown_stops", True), ("shutdown_terminates", False), ("", None)]
)
def test_what_a_shutdown_does_here_is_what_the_cloud_said_before(
    tmp_path: Path, code: str, keeps_disks: bool | None
) -> None:
    """A setting of this very machine, which a plan of a cloud action has seen in this boot; else nobody knows."""
    boot(tmp_path, "boot-1")
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    for name, value in AWS.items():
        (tmp_path / "sys/class/dmi/id" / name).write_text(value + "\n")
    job = context(tmp_path, providers=("costguard_aws",))
    shutdown_behaviour.keep(Plan("stop", "go", tuple(PlanFinding(one, "") for one in [code] if one)), job)
    found = SHUTDOWN.facts(job).consequence
    assert found is not None
    assert found.keeps_disks is keeps_disks


class Rented(Provider):
    """A cloud whose metadata service knows a scheduler."""

    asked: ClassVar[list[str]] = []

    @property
    def name(self) -> str:
        return "Rented"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        return True

    def guest_shutdown(self) -> Consequence:
        return Consequence(True, True, "the bill ends")

    def scheduler(self, site: Site) -> tuple[str, str]:
        self.asked.append(site.procfs)
        return "Slurm", "a tag says so"


@pytest.mark.parametrize(
    ("metadata", "wanted", "refused"),
    [
        ("auto", "auto", True),
        ("never", "auto", False),
        ("auto", "x", True),
        ("auto", "y", False),
        ("auto", "none", False),
    ],
)
def test_the_metadata_service_is_asked_for_a_scheduler_where_it_may_be(
    tmp_path: Path, metadata: str, wanted: str, refused: bool
) -> None:
    """One plug-in knows this machine, and the owner lets it ask."""
    Rented.asked.clear()
    cloud = {"metadata": metadata, "provider": wanted}
    found = SHUTDOWN.facts(context(tmp_path, cloud=cloud, providers=(f"x={__name__}:Rented",)))
    assert ("managed_node" in [finding.code for finding in guest.refusals(found)]) is refused
    assert Rented.asked == [str(tmp_path / "proc")] * refused
