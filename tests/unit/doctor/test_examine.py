"""Whether a machine is guarded: everything that must hold, and each thing that breaks it."""

import copy
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import costguard
from costguard.agent.config_checksum import checksum
from costguard.agent.loop import Loop
from costguard.agent.report import report as report_of
from costguard.config.here import Absent
from costguard.config.options import OPTIONS
from costguard.doctor.examine import DRY, AgentAnswer, Configuration, differences, examine
from costguard.doctor.finding import CheckResult, Report
from costguard.doctor.plans import FRESH_SECONDS, BootTimes, PlanShown, plan_checks
from costguard.doctor.service import look
from costguard.engine import Device, Devices, Observation, Veto, standstill
from costguard.engine.policy import Policy
from costguard.notify.delivery import LOCAL_CHANNELS
from costguard.testing.nvml import write_sysfs
from costguard.testing.simhost import Machine, Phase, SimHost, effective
from tests.engine.world import BASE, EPOCH, QUIET, World


@pytest.fixture(scope="module")
def healthy() -> dict[str, Any]:
    """The status of a live agent on a simulated machine that was seen to work."""
    config = effective(mode="live", kill_action="command")
    host = SimHost(Machine(gpus=2, script=[Phase(600, 0.9)]), until=2000.0)
    loop = Loop(host, config, host.start())
    loop.run()
    report = loop.status()
    report["agent"]["now"] = report["agent"]["ticked"] = time.time()
    report["agent"]["reader"] = "answers"  # as it did until the loop ended
    return report


def write_unit(path: Path, more: str = "", exec_start: str = f"{sys.executable} -m costguard run") -> None:
    """A service that is enabled, with one line exchanged or added."""
    (path.parent / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"[Service]\nRestart=on-failure\nExecStart={exec_start}\n{more}\n[Install]\nWantedBy=multi-user.target\n"
    )
    (path.parent / "graphical.target").write_text("[Unit]\nRequires=multi-user.target\n")
    (path.parent / "multi-user.target").write_text("[Unit]\n")
    for link, target in (("default.target", "graphical.target"), (f"multi-user.target.wants/{path.name}", path)):
        (path.parent / link).unlink(missing_ok=True)
        (path.parent / link).symlink_to(target)


class Bench:
    """One examination with everything in order, to be broken at one place."""

    def __init__(self, folder: Path, report: dict[str, Any]) -> None:
        self.report: dict[str, Any] | None = copy.deepcopy(report)
        sysfs = write_sysfs(folder / "sys", ["0000:01:00.0", "0000:02:00.0"])
        (folder / "proc/driver/nvidia").mkdir(parents=True)
        (folder / "proc/driver/nvidia/version").write_text("NVRM version: Kernel Module  570.148.08\n")
        (folder / "dev/pts").mkdir(parents=True)
        (folder / "dev/nvidiactl").touch()
        (folder / "dev/pts/3").touch()
        self.folder = folder
        self.unit = folder / "units/costguard.service"
        write_unit(self.unit)
        (folder / f"proc/{os.getpid()}").mkdir()
        self.cgroup = folder / f"proc/{os.getpid()}/cgroup"
        self.cgroup.write_text("0::/system.slice/costguard.service\n")
        self.started_in(3600.0)
        self.run_by(sys.executable)
        self.config: dict[str, Any] | None = effective(mode="live", kill_action="command")
        self.config["host"].update(sysfs=str(sysfs), procfs=str(folder / "proc"), devfs=str(folder / "dev"))
        if self.report is not None:
            self.report["agent"]["place"]["host"] = self.config["host"]
            self.report["agent"]["digest"] = checksum(self.config)
            self.report["agent"]["version"] = costguard.__version__
        self.problems: tuple[str, ...] = ()
        self.denied = self.silent = False
        self.absent: tuple[Absent, ...] = ()
        self.after: dict[str, Any] | None = copy.deepcopy(self.config)  # what the unit would start with

    def started_in(self, seconds: float) -> None:
        """The date of the agent's start; in the future it lies after every change of a test."""
        ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) + seconds) * os.sysconf("SC_CLK_TCK"))
        (self.cgroup.parent / "stat").write_text(f"{os.getpid()} (python3) S {'0 ' * 18}{ticks} 0\n")

    def run_by(self, python: str) -> None:
        """The Python of the agent that runs."""
        (self.cgroup.parent / "cmdline").write_text(f"{python}\0-I\0-S\0start.py\0")

    def examine(self) -> Report:
        agent = AgentAnswer(
            self.report, "no costguard agent is running at /x", "start one with `costguard run`", silent=self.silent
        )
        environ = {"PATH": "/usr/bin", "SYSTEMD_UNIT_PATH": str(self.unit.parent)}
        given = Configuration(self.config, self.problems, "", absent=self.absent, denied=self.denied)
        return examine(given, agent, environ, self.as_run)

    def as_run(self, options: Sequence[str], environment: Mapping[str, str]) -> Configuration:
        """What the unit's command line stands for."""
        if self.after is None:
            return Configuration(None, ("grace: 'soon' is not a duration (/etc/x.toml)",), "")
        mode = "live" if "live" in options else self.after["policy"]["mode"]
        return Configuration({**self.after, "policy": {**self.after["policy"], "mode": mode}}, (), "")


@pytest.fixture
def bench(tmp_path: Path, healthy: dict[str, Any]) -> Bench:
    return Bench(tmp_path, healthy)


def test_a_machine_with_everything_in_order_is_guarded(bench: Bench) -> None:
    """Not one complaint that counts, and the engine's own sentence."""
    report = bench.examine()
    assert report.guarded, report.why
    assert report.why == ()
    assert bench.report is not None
    decision = {section.name: section.checks for section in report.sections}["Decision"]
    assert decision[0].text == bench.report["sentence"]
    assert [gpu["known"] for gpu in report.facts["gpus"]] == [True, True]
    assert report.facts["plans"][0]["verdict"] == "go"


def broken(bench: Bench, what: str) -> str:
    """Break one thing; a part of what must be said about it."""
    report, config = bench.report, bench.config
    assert report is not None
    assert config is not None
    if what == "no agent":
        bench.report = None
        return "no costguard agent is running"
    if what == "silent":
        report["agent"]["ticked"] -= 300.0
        return "hangs: it last looked 5m ago"
    if what == "unknown":
        report["gpus"][1].update(known=False, load=None, words="the GPU is lost (NVML 15, DeviceGetUtilizationRates)")
        return "GPU 1 (Simulated GPU) cannot be read"
    if what == "refused":
        report["plans"][0].update(verdict="refuse", findings=[["denied", "the right is missing", "ask root"]])
        return "command: cannot be carried out"
    if what == "no plan":
        report["plans"] = []
        return "not checked yet"
    if what == "failed":
        report["phase"] = "FAILED"
        return report["sentence"]  # type: ignore[no-any-return]  # the engine's words
    if what == "cannot":
        report.update(phase="DONE", done="cannot")
        return report["sentence"]  # type: ignore[no-any-return]  # the engine's words
    report["gpus"] = []
    return "no GPU has been read yet"


@pytest.mark.parametrize(
    "what", ["no agent", "silent", "unknown", "refused", "no plan", "failed", "cannot", "no reading"]
)
def test_each_thing_that_is_missing_makes_it_not_guarded(bench: Bench, what: str) -> None:
    """Said once, by its cause; and every complaint that counts names what to do."""
    words = broken(bench, what)
    report = bench.examine()
    assert not report.guarded
    assert [why for why in report.why if words in why] != []
    for section in report.sections:
        for number, check in enumerate(section.checks):
            if check.level == "bad":
                followed = any(later.hint for later in section.checks[number:])
                assert followed, f"nobody says what to do about: {check.text}"


def hatch(bench: Bench) -> None:
    assert bench.report is not None
    bench.report["standstill"] = status_of(vetoes=(Veto("kernel parameter", "costguard=off", hatch=True),))[
        "standstill"
    ]


def status_of(vetoes: tuple[Veto, ...] = (), **rules: Any) -> dict[str, Any]:
    """The engine's part of the status of a machine with the GPUs 0 and 1, under these rules."""
    world = World(BASE._replace(mode="live", kill_action="command", **rules), 2, checked=False)
    listed = tuple(Device(key, number, f"GPU-{number}", "H100") for number, key in enumerate(world.keys[:2]))
    world.send(Devices(world.now, listed))
    world.vetoes = vetoes
    world.run(600.0, QUIET, QUIET)
    seen = Observation(world.keys[:2], (QUIET, QUIET))
    return report_of(world.tick(), seen, world.policy, EPOCH)


def other_unit(bench: Bench) -> None:
    """The agent of a login, beside a service that is enabled and does not run it."""
    bench.cgroup.write_text("0::/user.slice/user-0.slice/session-3.scope\n")


def only_now(bench: Bench) -> None:
    bench.cgroup.write_text("0::/system.slice/run-u7.service\n")


def script(bench: Bench, head: str) -> str:
    """A program of the name costguard."""
    path = bench.folder / "elsewhere/costguard"
    path.parent.mkdir()
    path.write_text(head)
    path.chmod(0o755)
    return str(path)


def environment_file(bench: Bench) -> None:
    """One of a pattern, which says something else."""
    drop_in(bench, f"EnvironmentFile=-{bench.folder}/e*")
    (bench.folder / "e1").write_text("COSTGUARD_MODE=dry-run\n")


def copied(bench: Bench) -> None:
    """In a folder of what is wanted links alone are heeded."""
    unlink(bench)
    (bench.unit.parent / "multi-user.target.wants/costguard.service").write_text(bench.unit.read_text())


def wanted_elsewhere(bench: Bench) -> None:
    """A line that stands in a section where systemd does not know it."""
    unlink(bench)
    (bench.unit.parent / "multi-user.target").write_text("[Unit]\n[Install]\nWants=costguard.service\n")


def common_drop_in(bench: Bench) -> None:
    """Of all units whose names begin alike."""
    units = bench.unit.parent
    write_unit(units / "costguard-gpu.service")
    bench.cgroup.write_text("0::/system.slice/costguard-gpu.service\n")
    (units / "costguard-.service.d").mkdir()
    (units / "costguard-.service.d/10.conf").write_text("[Service]\nExecStart=\nExecStart=/bin/true\n")


def unlink(bench: Bench) -> None:
    (bench.unit.parent / "multi-user.target.wants/costguard.service").unlink()


def unreached(bench: Bench) -> None:
    """Wanted by a target that no boot reaches."""
    unlink(bench)
    (bench.unit.parent / "rescue.target.wants").mkdir()
    (bench.unit.parent / "rescue.target.wants/costguard.service").symlink_to(bench.unit)


def rescued(bench: Bench) -> None:
    """As after `systemctl set-default rescue.target`."""
    default = bench.unit.parent / "default.target"
    default.unlink()
    (bench.unit.parent / "rescue.target").write_text("[Unit]\n")
    default.symlink_to("rescue.target")


def mask(bench: Bench) -> None:
    bench.unit.unlink()
    bench.unit.symlink_to("/dev/null")


def closed(options: Sequence[str], environment: Mapping[str, str]) -> Configuration:
    """A configuration that only root may read."""
    return Configuration(None, ("At '/etc/x.toml': permission denied",), "/etc/x.toml", denied=True)


def set_mode(bench: Bench, mode: str) -> None:
    """Of the agent, and of what its unit would start."""
    assert bench.report is not None
    assert bench.after is not None
    bench.report["mode"] = mode
    for rules in (bench.report["policy"], bench.report["agent"]["configured"], bench.after["policy"]):
        rules["mode"] = mode


def drop_in(bench: Bench, text: str) -> None:
    folder = bench.unit.parent / "costguard.service.d"
    folder.mkdir()
    (folder / "10-local.conf").write_text(f"[Service]\n{text}\n")


def set_plan(bench: Bench, **changes: object) -> None:
    assert bench.report is not None
    bench.report["plans"][0].update(changes)


def stale(bench: Bench) -> None:
    """The machine runs for a week, and the checks of the last days failed."""
    assert bench.report is not None
    bench.report["started"] -= 7 * 86400.0
    set_plan(bench, at=bench.report["time"] - FRESH_SECONDS - 1.0)


def set_after(bench: Bench, **changes: object) -> None:
    assert bench.after is not None
    bench.after["policy"].update(changes)


def set_agent(bench: Bench, **changes: object) -> None:
    assert bench.report is not None
    bench.report["agent"].update(changes)


def started(bench: Bench) -> float:
    assert bench.report is not None
    return float(bench.report["started"])


TAKES_AWAY: dict[str, tuple[Callable[[Bench], object], str]] = {
    "the plan failed": (lambda bench: set_plan(bench, verdict="failed"), "command: could not be checked"),
    "the plan is older than the start": (
        lambda bench: set_plan(bench, at=started(bench) - 1.0), "its plan passed before the machine started",
    ),
    "no check passed for days": (
stale,
        "its plan passed 2d ago",
    ),
    "a fall-back was never planned": (
        lambda bench: (bench.report or {})["policy"].update(fallback=["shutdown"]), "shutdown: not checked yet",
    ),
    "the unit is gone": (lambda bench: bench.unit.unlink(), "no unit file that survives a boot"),
    "the unit is disabled": (unlink, "costguard.service is not enabled"),
    "the unit is wanted by what does not start": (unreached, "costguard.service is not enabled"),
    "the machine boots into another target": (
        rescued, "costguard.service is enabled, but this machine boots into rescue.target",
    ),
    "the unit is masked": (mask, "costguard.service is masked"),
    "the unit is empty": (lambda bench: bench.unit.write_text(""), "costguard.service is masked"),
    "the unit is of this boot alone": (only_now, "run-u7.service, which runs it, has no unit file"),
    "the agent is no service": (other_unit, "it does not run as a service"),
    "the agent is in a container": (
        lambda bench: bench.cgroup.write_text(f"0::/system.slice/docker-{'ab' * 32}.scope\n"),
        "whose restart policy is unknown from inside",
    ),
    "the agent is in a pod": (
        lambda bench: bench.cgroup.write_text(f"0::/kubepods.slice/cri-containerd-{'ab' * 32}.scope\n"),
        "it runs in containerd",
    ),
    "the program is gone": (
        lambda bench: write_unit(bench.unit, exec_start="/nonexistent/costguard run"), "/nonexistent/costguard does not exist",
    ),
    "the program is not where systemd looks": (
        lambda bench: write_unit(bench.unit, "Environment=PATH=/nonexistent", "/usr/bin/env costguard run"),
        "costguard is not in systemd's search path",
    ),
    "the unit starts something else": (
        lambda bench: write_unit(bench.unit, exec_start="/bin/sh -c 'costguard run'"), "its ExecStart= starts /bin/sh",
    ),
    "the unit starts another verb": (
        lambda bench: write_unit(bench.unit, exec_start=f"{sys.executable} -m costguard status"), "`costguard status`",
    ),
    "a drop-in starts something else": (
        lambda bench: drop_in(bench, "ExecStart=\nExecStart=/bin/true"), "its ExecStart= starts /bin/true",
    ),
    "its environment file is gone": (
        lambda bench: drop_in(bench, "EnvironmentFile=/nonexistent/e"), "EnvironmentFile /nonexistent/e does not exist",
    ),
    "a credential is gone": (
        lambda bench: drop_in(bench, "LoadCredential=pager:/nonexistent/50%% pager.url"), "LoadCredential= names /nonexistent/50% pager.url",
    ),
    "an encrypted credential is gone": (
        lambda bench: drop_in(bench, "LoadCredentialEncrypted=pager:/nonexistent/p"), "LoadCredentialEncrypted= names /nonexistent/p",
    ),
    "the program before it is gone": (
        lambda bench: drop_in(bench, "ExecStartPre=+/nonexistent/mount --all"), "ExecStartPre= names /nonexistent/mount",
    ),
    "the program after it is gone": (lambda bench: drop_in(bench, "ExecStartPost=nosuchprogram"), "ExecStartPost= names nosuchprogram"),
    "its folder is gone": (lambda bench: drop_in(bench, "WorkingDirectory=/nonexistent/w"), "WorkingDirectory= names /nonexistent/w"),
    "what it may write is gone": (
        lambda bench: drop_in(bench, "ReadWritePaths=-/nonexistent/a /nonexistent/b"), "ReadWritePaths= names /nonexistent/b",
    ),
    "it starts under a condition": (
        lambda bench: drop_in(bench, "[Unit]\nConditionPathExists=/dev/nvidia0"), "only where ConditionPathExists=",
    ),
    "the program is another costguard": (
        lambda bench: write_unit(bench.unit, exec_start=script(bench, "#!/bin/sh\nexit 0\n") + " run"), "not a Python program",
    ),
    "the program is the costguard of another Python": (
        lambda bench: write_unit(bench.unit, exec_start=script(bench, "#!/nonexistent/bin/python3\n") + " run"),
        "(/nonexistent/bin/python3), but the agent runs on",
    ),
    "PATH finds another costguard": (
        lambda bench: write_unit(
            bench.unit, f"Environment=PATH={Path(script(bench, '#!/bin/sh')).parent}:/usr/bin", "/usr/bin/env costguard run"
        ),
        "not a Python program",
    ),
    "another Python has that module": (lambda bench: bench.run_by("/opt/x/bin/python3"), "runs on /opt/x/bin/python3"),
    "a program is told -m": (
        lambda bench: write_unit(bench.unit, exec_start=f"{sys.executable} /x.py -m costguard run"), "its ExecStart= starts",
    ),
    "the unit was changed after the start": (
        lambda bench: bench.started_in(-3600.0), "was changed after the agent was started",
    ),
    "its environment may be any file": (environment_file, "is a pattern"),
    "a copy lies where links count": (copied, "costguard.service is not enabled"),
    "it is wanted in a wrong section": (wanted_elsewhere, "costguard.service is not enabled"),
    "a drop-in of its family starts something else": (common_drop_in, "its ExecStart= starts /bin/true"),
    "it restarts after a success": (lambda bench: drop_in(bench, "Restart=on-success"), "Restart=on-success"),
    "it restarts after signals alone": (lambda bench: drop_in(bench, "Restart=on-abnormal"), "Restart=on-abnormal"),
    "it restarts in no known way": (lambda bench: drop_in(bench, "Restart=yes"), "Restart=yes"),
    "its restart was taken back": (lambda bench: drop_in(bench, "Restart="), "has no Restart="),
    "it restarts in a wrong section": (
        lambda bench: drop_in(bench, "Restart=no\n[Unit]\nRestart=always"), "has no Restart=",
    ),
    "a failure is no reason to restart": (
        lambda bench: drop_in(bench, "RestartPreventExitStatus=2 3 SIGKILL"), "does not restart after SIGKILL",
    ),
    "a failure counts as a success": (lambda bench: drop_in(bench, "SuccessExitStatus=1"), "does not restart after 1"),
    "nobody restarts it": (lambda bench: drop_in(bench, "Restart=no"), "has no Restart="),
    "it would start with other rules": (
        lambda bench: set_after(bench, mode="dry-run"), "mode is 'live', not 'dry-run'",
    ),
    "it would start with another action": (
        lambda bench: set_after(bench, kill_action="stop"), "kill_action is 'command', not 'stop'",
    ),
    "it would start with another command": (
        lambda bench: set_agent(bench, digest="00000000"), "something other than the rules",
    ),
    "it would not start": (lambda bench: setattr(bench, "after", None), "costguard.service would not start again"),
    "the reader does not answer": (lambda bench: set_agent(bench, reader="it ended with 3"), "the GPU reader: it ended"),
    "an escape hatch is open": (hatch, "kernel parameter: costguard=off"),
    "the administrator holds it": (
        lambda bench: (bench.report or {}).update(status_of(admin_hold="keep")), "the administrator holds it: keep",
    ),
    "no GPU has that number": (
        lambda bench: (bench.report or {}).update(standstill=status_of(gpu_devices=("7",))["standstill"]), "no GPU matches 7 in gpu_devices",
    ),
    "no GPU has that name": (
        lambda bench: (bench.report or {}).update(standstill=status_of(gpu_devices=("0", "GPU-deadbeef"))["standstill"]),
        "no GPU matches GPU-deadbeef in gpu_devices",
    ),
    "the program that saves work is gone": (
        lambda bench: setattr(bench, "absent", (Absent("hooks.pre_stop", "program /x/save", saves=True),)),
        "hooks.pre_stop: there is no program /x/save on this machine",
    ),
    "its agent says nothing of what blocks it": (lambda bench: (bench.report or {}).pop("standstill"), "is an earlier version"),
}  # fmt: skip


HIDDEN: dict[str, tuple[Callable[[Bench], object], str]] = {
    "the rest of the configuration is not shown": (
        lambda bench: set_agent(bench, digest=None), "this user may not see whether",
    ),
    "the start cannot be seen": (lambda bench: (bench.cgroup.parent / "stat").unlink(), "start time is hidden"),
    "its configuration may not be read": (
        lambda bench: setattr(bench, "as_run", closed), "this user may not read what costguard.service would start with (/etc/x.toml)",
    ),
}  # fmt: skip
"""What root could see, and this user may not; part of what is said."""


@pytest.mark.parametrize("what", HIDDEN)
@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_what_this_user_may_not_see_is_neither_guarded_nor_unguarded(bench: Bench, what: str, mode: str) -> None:
    """Nobody knows by it that something is missing; root can tell."""
    set_mode(bench, mode)
    hides, words = HIDDEN[what]
    hides(bench)
    report = bench.examine()
    assert (report.verdict, report.guarded) == ("CANNOT TELL", False), report.why
    (check,) = [check for section in report.sections for check in section.checks if check.level == "unseen"]
    assert words in check.text
    assert check.hint.startswith("`sudo costguard doctor` can")
    assert report.why == ((DRY,) if mode == "dry-run" else ()) + (check.text,)


def test_an_environment_file_that_this_user_may_not_read_is_for_root_to_judge(healthy: dict[str, Any]) -> None:
    """It may hold the key of a channel; that says nothing against the service."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # which others can enter
        os.chmod(made, 0o755)
        bench = Bench(Path(made), healthy)
        drop_in(bench, f"EnvironmentFile={made}/keys")
        (bench.folder / "keys").write_text("COSTGUARD_GRACE=5m\n")
        (bench.folder / "keys").chmod(0o600 if user == 0 else 0)
        os.seteuid(user or 65534)
        try:
            found = look(os.getpid(), f"{made}/proc", {"SYSTEMD_UNIT_PATH": str(bench.unit.parent)})
        finally:
            os.seteuid(user)
    assert [check.level for check in found.checks] == ["unseen"]
    assert f"{made}/keys cannot be read by this user" in found.checks[0].text
    assert not found.proven


def test_a_unit_of_a_time_when_the_clock_was_wrong_is_named_with_what_helps(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is set back after an installation, as on a first boot: whatever starts in the next hour starts before the unit was changed."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 2 * 3600.0)
    (found,) = [
        check
        for check in look(os.getpid(), str(bench.folder / "proc"), {"SYSTEMD_UNIT_PATH": str(bench.unit.parent)}).checks
        if check.level == "bad"
    ]
    assert "has files with a date in the future" in found.text
    assert f"`sudo touch {bench.unit}" in found.hint


@pytest.mark.parametrize("what", HIDDEN)
def test_what_is_missing_counts_for_more_than_what_cannot_be_seen(bench: Bench, what: str) -> None:
    """That it is not guarded this user can see."""
    HIDDEN[what][0](bench)
    drop_in(bench, "Restart=no")
    report = bench.examine()
    assert report.verdict == "NOT GUARDED"
    assert "has no Restart=" in report.why[0]


def test_who_may_not_see_all_is_told_what_keeps_it_from_live_mode(bench: Bench) -> None:
    """That is in a file that everybody may read."""
    set_mode(bench, "dry-run")
    set_agent(bench, digest=None)
    whole, refuse = bench.as_run, Configuration(None, ("kill_duration: too short for live",), "")
    bench.as_run = lambda options, environment: refuse if "live" in options else whole(options, environment)  # type: ignore[method-assign]  # another answer to the same question
    report = bench.examine()
    assert report.verdict == "NOT GUARDED"
    assert "it would not start in live mode" in str(report.why)
    assert "this user may not see whether" in str(report.why)


def test_a_configuration_that_this_user_may_not_read_is_no_broken_one(bench: Bench) -> None:
    """Of a running agent it says nothing; its problems are no others' to correct."""
    bench.config, bench.denied = None, True
    report = bench.examine()
    said = {section.name: section.checks for section in report.sections}["Configuration"]
    assert [check.level for check in said] == ["unseen"]
    assert "problems" not in str(said)
    assert report.verdict == "CANNOT TELL"


ABOUT_STANDSTILLS = {
    standstill.ADMIN_HOLD: {"admin_hold": "keep"},
    standstill.HATCH: {"vetoes": (Veto("tag", "costguard=off", hatch=True),)},
    standstill.GPU_DEVICES: {"gpu_devices": ("7",)},
}


def test_all_that_the_engine_says_makes_every_stop_impossible_takes_the_verdict_away(bench: Bench) -> None:
    """Whatever its code is, and also one that doctor has never heard of."""
    assert set(ABOUT_STANDSTILLS) == set(standstill.CODES)
    assert bench.report is not None
    found = [status_of(**about)["standstill"] for about in ABOUT_STANDSTILLS.values()]  # type: ignore[arg-type]  # vetoes or rules
    assert [[cause["code"] for cause in causes] for causes in found] == [[code] for code in ABOUT_STANDSTILLS]
    for causes in [*found, [{"code": "new", "source": "x", "words": "the moon is full", "lets_go": ""}]]:
        bench.report["standstill"] = causes
        report = bench.examine()
        assert (report.verdict, len(report.why)) == ("NOT GUARDED", 1)
        assert report.why[0].startswith(causes[0]["words"])


@pytest.mark.parametrize("what", TAKES_AWAY)
@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_whatever_is_not_proven_takes_the_verdict_away(bench: Bench, what: str, mode: str) -> None:
    """Of a live agent and of a dry run alike; the reason is named, with what to do."""
    assert bench.report is not None
    assert bench.after is not None
    set_mode(bench, mode)
    breaks, words = TAKES_AWAY[what]
    breaks(bench)
    report = bench.examine()
    said = [why for why in report.why if words in why]
    if mode == "dry-run" and what == "it would start with other rules":
        assert report.verdict == "WOULD BE GUARDED", "for that is what it runs with"
        return
    assert (report.verdict, len(said)) == ("NOT GUARDED", 1), report.why
    hints = [check.hint for section in report.sections for check in section.checks if check.text == said[0]]
    assert hints != [""]


def test_a_dry_run_would_be_guarded(bench: Bench) -> None:
    """Everything is in order but the mode: no GUARDED, and no reason beside it; unless live would not start."""
    assert bench.report is not None
    assert bench.after is not None
    bench.report["mode"] = "dry-run"
    for rules in (bench.report["policy"], bench.report["agent"]["configured"], bench.after["policy"]):
        rules["mode"] = "dry-run"
    report = bench.examine()
    assert (report.verdict, report.guarded) == ("WOULD BE GUARDED", False)
    assert report.why == ("mode is dry-run: it warns and does nothing else",)
    whole, refuse = bench.as_run, Configuration(None, ("kill_duration: too short for live",), "")
    bench.as_run = lambda options, environment: refuse if "live" in options else whole(options, environment)  # type: ignore[method-assign]  # another answer to the same question
    report = bench.examine()
    assert report.verdict == "NOT GUARDED"
    assert "it would not start in live mode" in str(report.why)


@pytest.mark.parametrize("long", [False, True])
def test_a_script_of_the_same_python_is_the_same_costguard(bench: Bench, *, long: bool) -> None:
    """Through links, under another name of the interpreter, and with the first lines for paths with blanks."""
    venv = bench.folder / "my venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (venv / "bin" / name).symlink_to(sys.executable)
    (bench.folder / "venv").symlink_to(venv)
    python = venv / "bin/python3" if long else bench.folder / "venv/bin/python3"
    head = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n" if long else f"#!{python}\n"
    (bench.folder / "costguard").symlink_to(script(bench, head))
    bench.run_by(str(venv / "bin/python"))
    write_unit(bench.unit, exec_start=f"{bench.folder}/costguard run")
    report = bench.examine()
    assert report.guarded, report.why


@pytest.mark.parametrize(
    "line",
    [
        "LoadCredential=pager",
        "LoadCredential=pager:inherited",
        "LoadCredential=pager:{folder}",
        "LoadCredential=pager:/nonexistent/p\nSetCredential=pager:json://127.0.0.1/",
        "LoadCredential=pager:/nonexistent/p\nLoadCredential=",
        "WorkingDirectory=-/nonexistent/w",
        "ExecStartPre=-/nonexistent/mount",
    ],
)
def test_what_a_unit_can_do_without_takes_nothing_away(bench: Bench, line: str) -> None:
    """A dash before it, a default beside it, or a name that systemd itself looks up."""
    drop_in(bench, line.format(folder=bench.folder))
    report = bench.examine()
    assert report.guarded, report.why


def test_a_program_that_runs_before_it_is_named_as_not_checked(bench: Bench) -> None:
    """Whether it succeeds at the next boot nobody knows."""
    drop_in(bench, "ExecStartPre=/bin/sh -c 'mount /data'")
    report = bench.examine()
    boot = {section.name: section.checks for section in report.sections}["After a boot"]
    assert report.guarded, report.why
    assert any("ExecStartPre=/bin/sh -c 'mount /data' with it, which is not checked" in check.text for check in boot)


def test_a_drop_in_and_its_environment_count(bench: Bench) -> None:
    """As systemd reads them: a later ExecStart= after an empty one, variables of lines and files, env(1)."""
    file = bench.folder / "e"
    file.write_text("# comment\nCOSTGUARD_GRACE=5m\n")
    lines = f"Environment='COSTGUARD_MODE=live' OPTS=--live\nEnvironmentFile=-/nonexistent\nEnvironmentFile={file}"
    start = f"/usr/bin/env A=b {sys.executable} -m costguard run --config ${{HOME_OF}}/x.toml $OPTS"
    drop_in(bench, f"{lines}\nEnvironment=HOME_OF=/etc\nExecStart=\nExecStart=-{start}")
    service = look(os.getpid(), str(bench.folder / "proc"), {"SYSTEMD_UNIT_PATH": str(bench.unit.parent)})
    assert service.options == ("--config", "/etc/x.toml", "--live")
    assert service.variables["COSTGUARD_GRACE"] == "5m"
    assert (service.variables["COSTGUARD_MODE"], service.variables["A"]) == ("live", "b")
    assert service.proven


@pytest.mark.parametrize(
    ("policy", "proven"), [("always", True), ("unless-stopped", True), ("no", False), ("on-failure", False)]
)
def test_a_containers_restart_policy_counts_where_it_can_be_seen(bench: Bench, policy: str, proven: bool) -> None:
    """On the host, with docker itself enabled."""
    number, docker = "ab" * 32, bench.folder / "docker"
    (docker / "containers" / number).mkdir(parents=True)
    (docker / "containers" / number / "hostconfig.json").write_text(json.dumps({"RestartPolicy": {"Name": policy}}))
    bench.cgroup.write_text(f"0::/system.slice/docker-{number}.scope\n")
    environ = {"SYSTEMD_UNIT_PATH": str(bench.unit.parent)}
    where = (os.getpid(), str(bench.folder / "proc"), environ, str(docker))
    assert not look(*where).proven, "docker is not enabled"
    write_unit(bench.unit.with_name("docker.service"))
    assert look(*where).proven is proven


def test_a_broken_file_counts_with_an_agent_too(bench: Bench) -> None:
    """A running agent goes on with the configuration that it has; it would not start again."""
    bench.config, bench.problems, bench.after = None, ("grace: 'soon' is not a duration (/etc/x.toml)",), None
    kept = bench.examine()
    assert kept.verdict == "NOT GUARDED"
    assert "costguard.service would not start again" in str(kept.why)
    assert "'soon' is not a duration" in str(kept.sections)
    bench.report = None
    assert "grace: 'soon' is not a duration" in str(bench.examine().sections)


@pytest.mark.parametrize("agents", ["stop", "command"])
def test_the_agent_is_judged_by_what_it_runs(bench: Bench, agents: str) -> None:
    """What doctor was given beside that changes no verdict, and that the two differ is told by name."""
    assert bench.report is not None
    assert bench.config is not None
    written = "command" if agents == "stop" else "stop"
    bench.config["policy"]["kill_action"] = written
    bench.report["policy"]["kill_action"] = bench.report["agent"]["configured"]["kill_action"] = agents
    set_after(bench, kill_action=agents)
    verdict = "refuse" if agents == "stop" else "go"
    bench.report["plans"][0].update(action=agents, verdict=verdict, findings=[["denied", "no right", "ask root"]])
    report = bench.examine()
    assert report.guarded is (agents == "command")
    assert [plan["action"] for plan in report.facts["plans"]] == [agents]
    sections = {section.name: section.checks for section in report.sections}
    said = f"the agent's values differ from this configuration: kill_action is '{agents}', not '{written}'"
    assert any(check.level == "warn" and check.text == said for check in sections["Configuration"])


def test_a_price_or_a_tag_is_no_difference(bench: Bench) -> None:
    """What the cloud adds to the rules is not in the file, and is no other configuration."""
    assert bench.report is not None
    bench.report["policy"].update(price_per_hour=3.2, kill_duration=7200.0)
    report = bench.examine()
    assert report.guarded, report.why
    assert "other values" not in str(report.sections)


def test_rules_that_differ_are_shown_as_they_are_written() -> None:
    """Seconds as durations to the last one, shares in per cent, and off as off."""
    runs = {"boot_grace": 605.0, "grace": 10.0, "unused_after": None, "kill_threshold": 0.05, "gpu_devices": ()}
    written = {
        "boot_grace": 600.0,
        "grace": 600.0,
        "unused_after": 14400.0,
        "kill_threshold": 0.1,
        "gpu_devices": ["0"],
    }
    assert differences(runs, written) == [
        "boot_grace is 605s, not 10m",
        "gpu_devices is [], not ['0']",
        "grace is 10s, not 10m",
        "kill_threshold is 5%, not 10%",
        "unused_after is off, not 4h",
    ]


def test_the_same_rules_are_no_difference(bench: Bench) -> None:
    """Also when one side came through JSON, which knows no tuples."""
    assert bench.report is not None
    bench.report = json.loads(json.dumps(bench.report))
    assert "other values" not in str(bench.examine().sections)


def test_an_agent_that_does_not_answer_is_not_described(bench: Bench) -> None:
    """What a fresh agent would do says nothing about one that hangs."""
    bench.report, bench.silent = None, True
    report = bench.examine()
    assert not report.guarded
    text = str(report.sections)
    assert "an agent that was started now" not in text
    assert "unknown while the agent does not answer" in text
    assert report.facts["plans"] == []
    assert report.facts["sentence"] == ""


def test_an_agents_gpus_are_not_asked_a_second_time(bench: Bench) -> None:
    """With an agent nothing here touches the driver: what it reads is shown, whatever the library here would say."""
    report = bench.examine()
    assert "NVML" not in str(report.sections)
    assert [gpu["label"] for gpu in report.facts["gpus"]] == ["GPU 0 (Simulated GPU)", "GPU 1 (Simulated GPU)"]


def test_without_an_agent_it_says_what_one_would_decide(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of its own; a driver that cannot be loaded is an unknown GPU with advice, never an idle one."""
    bench.report = None
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    report = bench.examine()
    assert [(gpu["key"], gpu["known"]) for gpu in report.facts["gpus"]] == [
        ("0000:01:00.0", False),
        ("0000:02:00.0", False),
    ]
    assert "libnvidia-ml.so.1" in str(report.sections)
    assert "unknown is never idle" in report.facts["sentence"]


def test_nobody_to_be_warned_is_told(bench: Bench) -> None:
    """Messages that reach nobody do not end the guarding, and are no good; who sits where decides, not what is open."""
    screen, line = os.openpty()
    (bench.folder / "dev/pts/3").unlink()
    (bench.folder / "dev/pts/3").symlink_to(os.ttyname(line))
    report = bench.examine()
    assert report.guarded
    assert report.facts["reached"] is False
    assert "a warning would reach only the journal now; after 3 tries the countdown goes on" in str(report.sections)
    assert 'add "wall"' not in str(report.sections), "it is there"
    device = os.stat(line).st_rdev
    (bench.folder / "proc/50").mkdir()
    (bench.folder / "proc/50/stat").write_text(f"50 (vim) S 1 50 50 {os.major(device) << 8 | os.minor(device)} -1\n")
    reached = bench.examine()
    assert reached.facts["reached"] is True
    assert "wall: 1 terminal (pts/3) now" in str(reached.sections)
    os.close(screen)
    os.close(line)
    assert bench.config is not None
    bench.config["notify"]["local"] = ["terminal"]
    assert 'add "wall"' in str(bench.examine().sections)


@pytest.mark.parametrize("channel", LOCAL_CHANNELS)
def test_every_channel_of_the_machine_is_looked_at(bench: Bench, channel: str) -> None:
    """A channel of the machine has no addresses to test: doctor says of each whom it would reach now."""
    assert bench.config is not None
    bench.config["notify"] |= {"local": [channel], "channels": {}}
    assert f"{channel}: " in str(bench.examine().sections)


def test_what_pictures_need_is_named_where_messages_leave_the_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the library messages are text alone: good to know, no fault, and nothing for a machine without channels."""
    assert bench.config is not None
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    bench.config["notify"] |= {"local": [], "channels": {}}
    assert "matplotlib" not in str(bench.examine().sections)
    bench.config["notify"]["channels"] = {"team": {"urls": "env:TEAM", "level": "info", "kinds": []}}
    sections = str(bench.examine().sections)
    assert "level='note', text='messages have no picture: matplotlib is not installed'" in sections
    assert "pip install 'matplotlib>=" in sections


@pytest.mark.parametrize(
    ("vendor", "urls", "words"),
    [
        ("Nobody", "secret:team", "the secret team cannot be read: no cloud plug-in recognises this machine"),
        ("Amazon EC2", "secret:a:b", "'a:b' is not the name of a secret in AWS"),
        ("Amazon EC2", "secret:team", "never tested with these settings"),
    ],
)
def test_a_secret_that_no_cloud_can_have_is_named(bench: Bench, vendor: str, urls: str, words: str) -> None:
    """What is known without a question to the cloud; the rest is for a test of the channel."""
    assert bench.config is not None
    (bench.folder / "sys/class/dmi/id").mkdir(parents=True)
    (bench.folder / "sys/class/dmi/id/sys_vendor").write_text(vendor)
    (bench.folder / "sys/class/dmi/id/board_asset_tag").write_text("i-0123456789abcdef0")
    bench.config["notify"]["channels"] = {"team": {"urls": urls, "level": "info", "kinds": []}}
    bench.config["providers"] = ["aws=costguard_aws"]
    assert words in str(bench.examine().sections)


def test_rules_with_a_unit_are_written_in_it() -> None:
    """Where agent and file differ, both values are said as people write them: no field of the policy prints a bare number."""
    values = {"seconds": 7200.0, "date": 1.8e9, "share": 0.07}
    texts = {"seconds": "2h", "date": "2027-01-15T08:00:00+00:00", "share": "7%"}
    units = {option.path.rpartition(".")[2]: option.unit for option in OPTIONS.values()}
    units |= {option.path.replace(".", "_"): option.unit for option in OPTIONS.values()}
    rules = {name: unit for name in Policy._fields if (unit := units.get(name.removesuffix("_until"), "")) in values}
    assert len(rules) > 16
    for name, unit in rules.items():
        (said,) = differences({name: values[unit]}, {name: None})
        assert said == f"{name} is {texts[unit]}, not off"


def test_hints_name_only_what_exists(bench: Bench) -> None:
    """Without a unit nobody is sent to its journal or told to reload it; the unit file that is named lies there."""
    bench.cgroup.write_text("0::/user.slice/user-0.slice/session-3.scope\n")
    for path in sorted(bench.unit.parent.rglob("costguard.service")):
        path.unlink()
    assert bench.report is not None
    assert bench.config is not None
    bench.report["agent"]["troubles"] = {"state": "the disk is full"}
    bench.report["policy"]["mode"] = "dry-run"
    text = str([check.hint for section in bench.examine().sections for check in section.checks])
    assert "journalctl" not in text
    assert "systemctl reload" not in text
    assert "/etc/costguard/config.toml" not in text
    assert "`sudo costguard install`" in text


def test_a_hold_is_shown(bench: Bench) -> None:
    """Guarded, and postponed."""
    assert bench.report is not None
    bench.report["holds"] = [{"owner": "ada", "reason": "a look", "until": time.time() + 600}]
    report = bench.examine()
    assert report.guarded
    assert "held by ada until" in str(report.sections)


@pytest.mark.parametrize(
    ("verdicts", "guarded"),
    [
        (("go",), True),
        (("consequences",), True),
        (("refuse",), False),
        (("failed",), False),
        (("another",), False),
        (("another", "go"), True),
        (("go", "another"), True),
        (("refuse", "go"), False),
        (("another", "refuse"), False),
        (("failed", "go"), False),
        (("go", "failed"), False),
        (("go", "refuse"), False),
        (("go",) * 2, True),
    ],
)
def test_every_action_that_may_be_used_must_have_passed(verdicts: tuple[str, ...], guarded: bool) -> None:
    """What points to another action is passed over, as the engine does it; a refusal or a failed check proves nothing."""
    actions = ["stop", "shutdown"][: len(verdicts)]
    found = [PlanShown(action, verdict, (), "agent", 1.0) for action, verdict in zip(actions, verdicts, strict=True)]
    assert all(check.level != "bad" for check in plan_checks(found, actions, BootTimes(2.0, 0.0))) is guarded


@pytest.mark.parametrize(("mode", "level"), [("live", "bad"), ("dry-run", "warn")])
def test_a_channel_whose_addresses_are_gone_is_no_untested_one(
    bench: Bench, tmp_path: Path, mode: str, level: str
) -> None:
    """Nothing can be sent: in live mode that is wrong now, before it counts."""
    assert bench.config is not None
    assert bench.report is not None
    bench.report["policy"] = {**bench.report["policy"], "mode": mode}
    file = tmp_path / "team.urls"
    bench.config["notify"] |= {
        "local": [],
        "channels": {"team": {"urls": f"file:{file}", "level": "info", "kinds": []}},
    }
    said = str(bench.examine().sections)
    assert f"level='{level}', text='team: nothing can be sent: there is no file {file}" in said
    assert "never tested" not in said
    file.write_text("json://x\n")
    file.chmod(0o600)
    assert "never tested" in str(bench.examine().sections)


@pytest.mark.parametrize("unit", ["costguard.service", ""])
def test_an_agent_without_a_socket_of_its_owner_s_is_named(bench: Bench, unit: str) -> None:
    """It is of an older version: the machine is guarded, and who fills its queue keeps root waiting."""
    assert bench.report is not None
    bench.report["agent"]["runtime_dir"] = str(bench.folder)
    if not unit:
        bench.cgroup.write_text("0::/user.slice/user-0.slice/session-3.scope\n")

    def said() -> list[CheckResult]:
        agent = {section.name: section.checks for section in bench.examine().sections}["Agent"]
        return [check for check in agent if "root's commands waiting" in check.text]

    assert said() == []  # the folder is not in sight
    (bench.folder / "control.sock").touch()
    (found,) = said()
    assert found.level == "warn"
    assert ("systemctl restart costguard.service" in found.hint) is bool(unit)
    (bench.folder / "owner.sock").touch()
    assert said() == []


def test_an_agent_of_another_version_is_named(bench: Bench) -> None:
    """After an upgrade the old code runs on until somebody starts it again."""
    set_agent(bench, version="0.0.1")
    checks = {section.name: section.checks for section in bench.examine().sections}["Agent"]
    (found,) = [check for check in checks if "0.0.1, and this is" in check.text]
    assert (found.level, found.hint) == ("warn", "`sudo systemctl restart costguard.service` after an upgrade")


def test_without_an_agent_its_service_is_judged_and_started(bench: Bench) -> None:
    """Where a unit is installed, it starts the agent, and nobody types `costguard run`."""
    bench.report = None
    sections = {section.name: section.checks for section in bench.examine().sections}
    assert sections["After a boot"][0].text.startswith("costguard.service starts an agent at every boot")
    assert sections["Agent"][0].hint.startswith("start the service: `sudo systemctl start costguard.service`")
    unlink(bench)
    sections = {section.name: section.checks for section in bench.examine().sections}
    assert sections["After a boot"][0].text.startswith("costguard.service is not enabled")
    bench.unit.unlink()
    sections = {section.name: section.checks for section in bench.examine().sections}
    assert (sections["After a boot"], sections["Agent"][0].hint) == ((), "start one with `costguard run`")
