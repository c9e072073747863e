"""Whether the daemons of a host say that a scheduler owns it, and what that holds back."""

import grp
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from costguard.actions.base import Context
from costguard.actions.reboot import Reboot
from costguard.actions.shutdown import Shutdown
from costguard.cloud import managed
from costguard.cloud.access import HostPaths
from costguard.cloud.api import CloudError, Provider, Site
from costguard.cloud.retry import LateError

STANDALONE = {"managed": "standalone"}


class Procfs:
    """A host's processes."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.process(1, "systemd", uid="0")

    def process(self, number: int, name: str, *words: str, **status: str) -> None:
        folder = self.root / str(number)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        if words:
            (folder / "cmdline").write_text("\0".join((name, *words)) + "\0")
        uid = status.pop("uid", "")
        fields = {**({"Uid": f"{uid}\t{uid}\t{uid}\t{uid}"} if uid else {}), **status}
        (folder / "status").write_text("".join(f"{field}:\t{value}\n" for field, value in fields.items()))

    def says(self, settings: Mapping[str, object] | None = None) -> list[tuple[str, str]]:
        return [(verdict, found.code) for verdict, found in managed.by_daemon(str(self.root), settings or {})]


@pytest.fixture
def host(tmp_path: Path) -> Procfs:
    return Procfs(tmp_path)


REFUSED = [("refuse", "managed_node")]


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("slurmd", "Slurm"),
        ("slurmctld", "Slurm"),
        ("raylet", "Ray"),
        ("kubelet", "Kubernetes"),
        ("k3s-agent", "Kubernetes"),
        ("nomad", "Nomad"),
        ("dstack-shim", "dstack"),
        ("condor_startd", "HTCondor"),
    ],
)
def test_a_daemon_of_a_scheduler_is_a_veto(host: Procfs, name: str, engine: str) -> None:
    """Told with who it is, with the scheduler's own power-down, and with the way out for who knows better."""
    host.process(4242, name, uid="0")
    ((verdict, found),) = managed.by_daemon(str(host.root), {})
    assert (verdict, found.code) == ("refuse", "managed_node")
    assert f"a node of {engine} ({name} runs as process 4242" in found.text
    assert managed.POWER_DOWN[engine] in found.hint
    assert 'cloud.managed = "standalone"' in found.hint
    assert host.says(STANDALONE) == [("consequences", "managed_node")]
    assert host.says({"managed": "Standalone"}) == REFUSED


def test_nothing_of_a_scheduler(host: Procfs) -> None:
    """A name that only resembles it does not count."""
    host.process(4242, "slurmd-exporter", uid="0")
    host.process(4243, "python3", "raylet", uid="0")
    assert host.says() == []
    assert managed.by_daemon("/nonexistent", {}) == []


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ({"uid": "0"}, True),
        ({"uid": "64030"}, False),
        ({"uid": "998"}, True),
        ({"uid": "1000"}, False),
        ({"uid": "1000", "Groups": "4 GID"}, True),
        ({"uid": "1000", "Gid": "GID GID GID GID"}, True),
        ({"NSpid": "4242"}, True),
        ({}, True),
    ],
    ids=[
        "root",
        "nobody special",
        "system user",
        "user",
        "may become root",
        "by his first group",
        "unknown",
        "nothing",
    ],
)
def test_an_ordinary_user_keeps_no_bill_going(host: Procfs, status: dict[str, str], counts: bool) -> None:
    """By the name of a process; whoever may become root can say so in any case, and unknown is as good as root."""
    gid = str(grp.getgrnam("root").gr_gid)
    host.process(4242, "slurmd", **{name: value.replace("GID", gid) for name, value in status.items()})
    assert host.says() == (REFUSED if counts else [("consequences", "scheduler_unproven")])


@pytest.mark.parametrize(("mode", "counts"), [(0o755, True), (0o4755, False), (0o6711, False), (0o2755, True)])
def test_a_program_that_makes_everybody_root_is_no_daemon_under_any_name(
    host: Procfs, mode: int, counts: bool, tmp_path: Path
) -> None:
    """Anybody may start sudo through a link with a daemon's name: while it asks for the password it belongs to root."""
    (program := tmp_path / "program").touch()
    program.chmod(mode)
    host.process(4242, "slurmd", uid="0")
    (host.root / "4242/exe").symlink_to(program)
    assert host.says() == (REFUSED if counts else [("consequences", "scheduler_unproven")])


@pytest.mark.parametrize("state", ["Z (zombie)", "X (dead)"])
def test_what_has_ended_is_no_daemon(host: Procfs, state: str) -> None:
    """Whoever started it may leave it there for ever."""
    host.process(4242, "slurmd", uid="0", State=state)
    assert host.says() == []


def test_a_process_that_ends_while_it_is_looked_at_is_no_daemon(host: Procfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may start and end programs of that name all the time; what cannot be read because nothing is there is not unknown."""
    host.process(4243, "slurmd")
    real = open

    def ends(path: str, *given: object, **more: object) -> object:
        if path.endswith("4243/status"):
            shutil.rmtree(host.root / "4243")
        return real(path, *given, **more)  # type: ignore[call-overload]  # whatever the module asks for

    monkeypatch.setattr("builtins.open", ends)
    assert host.says() == []


def test_a_container_is_somebodys_test_cluster(host: Procfs) -> None:
    """The host's own daemons have one number."""
    host.process(4242, "kubelet", uid="0", NSpid="4242\t17")
    assert host.says() == []


RAY = ("--gcs-address=10.0.0.5:6379", "--node_ip_address=")


@pytest.mark.parametrize(
    ("words", "parent", "counts"),
    [
        ((RAY[0], RAY[1] + "10.0.0.9"), 1, True),
        ((RAY[0], RAY[1] + "10.0.0.9"), 77, True),
        ((RAY[0], RAY[1] + "10.0.0.5"), 1, True),
        ((RAY[0], RAY[1] + "10.0.0.5"), 78, True),
        ((RAY[0], RAY[1] + "10.0.0.5"), 77, False),
    ],
    ids=["a worker", "a worker in the foreground", "a head", "a head of a session", "a program's own"],
)
def test_a_program_with_a_ray_of_its_own_is_no_cluster(
    host: Procfs, words: tuple[str, ...], parent: int, counts: bool
) -> None:
    """``ray.init()`` in a notebook starts a whole Ray on the machine, which ends with the notebook."""
    host.process(77, "python3", "train.py", uid="1000")
    host.process(78, "systemd", "--user", uid="1000")
    host.process(4242, "raylet", *words, uid="0", PPid=str(parent))
    assert host.says() == (REFUSED if counts else [])


@pytest.mark.parametrize(("words", "counts"), [(("agent", "-config=/etc/nomad.d"), True), (("status",), False)])
def test_a_client_is_no_agent(host: Procfs, words: tuple[str, ...], counts: bool) -> None:
    """One program is both."""
    host.process(4242, "nomad", *words, uid="0")
    assert host.says() == (REFUSED if counts else [])


def test_one_that_counts_speaks_for_all(host: Procfs) -> None:
    """An ordinary user's process hides nobody else's."""
    host.process(10, "raylet", uid="1000")
    host.process(11, "slurmd", uid="0")
    assert host.says() == REFUSED


@pytest.mark.parametrize("action", [Shutdown(), Reboot()], ids=["shutdown", "reboot"])
def test_guest_actions_are_held_back_too(host: Procfs, action: Shutdown | Reboot, tmp_path: Path) -> None:
    """A node that shuts itself down is as lost to its scheduler as one that its cloud stops."""
    context = Context(action.name, host=HostPaths(str(host.root), str(tmp_path / "sys"), stands_for_host=True))
    assert "managed_node" not in {found.code for found in action.plan(action.facts(context)).findings}
    host.process(4242, "slurmd", uid="0")
    plan = action.plan(action.facts(context))
    assert plan.verdict == "refuse"
    assert plan.command == ()
    assert "managed_node" in {found.code for found in plan.findings}
    owner = action.plan(action.facts(context._replace(cloud=STANDALONE)))
    assert [found.text for found in owner.findings if found.code == "managed_node" and "standalone" in found.text]
    assert not any("not touched" in found.text for found in owner.findings)


def test_a_real_process(tmp_path: Path) -> None:
    """As the kernel itself shows one."""
    program = tmp_path / "slurmd"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    child = subprocess.Popen([program, "60"])
    try:
        while Path(f"/proc/{child.pid}/comm").read_text().strip() != "slurmd":
            time.sleep(0.005)  # until the kernel has started the program
        found = [text.text for _, text in managed.by_daemon("/proc", {})]
        assert any("slurmd runs as process" in text for text in found)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("options", "sees", "says"),
    [
        ("rw,hidepid=invisible", False, [("refuse", "scheduler_unknown")]),
        ("rw,gid=4,hidepid=2", False, [("refuse", "scheduler_unknown")]),
        ("rw,hidepid=2", True, []),
        ("rw,hidepid=off", False, []),
        ("rw", False, []),
    ],
    ids=["invisible", "in numbers", "but not from root", "off", "an ordinary /proc"],
)
def test_processes_that_are_hidden_rule_nothing_out(
    host: Procfs, options: str, sees: bool, says: list[tuple[str, str]]
) -> None:
    """A node of a cluster, and an agent that may not see its daemon: unknown is not *none*, unless the owner says so."""
    row = f"22 1 0:21 / /proc rw,relatime - proc proc {options}\n"
    (host.root / "self").mkdir()
    (host.root / "self/mountinfo").write_text(row)
    if not sees:
        shutil.rmtree(host.root / "1")
    assert host.says() == says
    assert host.says(STANDALONE) == []
    host.process(7, "kubelet", "kubelet", uid="0")
    assert host.says() == REFUSED


def test_whoever_comes_first_does_not_end_the_look(host: Procfs) -> None:
    """What has ended, what runs in a container and what is no daemon hides nobody who comes after it."""
    host.process(10, "slurmd", uid="0", State="Z (zombie)")
    host.process(11, "kubelet", uid="0", NSpid="11\t2")
    host.process(12, "nomad", "status", uid="0")
    host.process(13, "bash", uid="0")
    host.process(14, "condor_startd", uid="0")
    assert host.says() == REFUSED


def test_of_several_that_are_unproven_one_is_told(host: Procfs) -> None:
    """The first, with its owner by the real number of the user."""
    for number in (10, 11):
        host.process(number, "slurmd", Uid=f"10{number}\t0\t0\t0")
    ((verdict, found),) = managed.by_daemon(str(host.root), {})
    assert (verdict, found.code) == ("consequences", "scheduler_unproven")
    assert "slurmd runs as process 10 of uid 1010," in found.text


def test_a_daemon_of_nobody_known_counts(host: Procfs) -> None:
    """And is told as that."""
    host.process(10, "slurmd")
    ((_, found),) = managed.by_daemon(str(host.root), {})
    assert "process 10 of an unknown user" in found.text


@pytest.mark.parametrize(("words", "counts"), [((), True), (("",), False), (("agent",), True)])
def test_words_that_cannot_be_read_count(host: Procfs, words: tuple[str, ...], counts: bool) -> None:
    """A client has words, and none of them is *agent*; its own name is none of them."""
    host.process(10, "nomad", *words, uid="0")
    assert host.says() == (REFUSED if counts else [])
    (host.root / "10/cmdline").write_text("agent\0status\0")
    assert host.says() == []


@pytest.mark.parametrize(("gid", "counts"), [("GID 100 100 100", True), ("100 GID GID GID", False)])
def test_the_real_group_of_a_user_counts(host: Procfs, gid: str, counts: bool) -> None:
    """As the real number of the user does."""
    admin = str(grp.getgrnam("root").gr_gid)
    host.process(4242, "slurmd", uid="1000", Gid=gid.replace("GID", admin))
    assert host.says() == (REFUSED if counts else [("consequences", "scheduler_unproven")])


class Plugin:
    """A plug-in whose cloud says something of a scheduler, or does not."""

    def __init__(self, says: object) -> None:
        self._says = says

    def scheduler(self, site: object) -> object:
        if isinstance(self._says, Exception):
            raise self._says
        return self._says


class PluginOfOthers:
    """One that was written before schedulers were asked for."""


@pytest.mark.parametrize(
    ("plugin", "found"),
    [
        (Plugin(("Slurm", "the tag x names it")), [("refuse", "managed_node")]),
        (Plugin(None), []),
        (Plugin(CloudError("unreachable", "no answer")), []),
        (Plugin(LateError("no complete answer within 4 s")), []),
        (PluginOfOthers(), []),
    ],
)
def test_a_metadata_service_that_does_not_answer_says_nothing(plugin: Provider, found: list[tuple[str, str]]) -> None:
    """A guest action is for the time when the cloud cannot be asked."""
    said = managed.by_metadata(plugin, Site({}, {}, {}))
    assert [(verdict, one.code) for verdict, one in said] == found
