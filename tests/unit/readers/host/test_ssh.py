"""The sense `ssh`, on a /proc that a test makes."""

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths, Sight
from costguard.readers.host.ssh import EDITORS, KEPT_OPEN, NO_SESSION, READS, Ssh
from tests.unit.readers.host.tree import Tree

KB, MB = 1000, 1_000_000
SETTINGS = {"session": 50_000.0, "editor": 100.0, "editor_cores": 0.3, "quiet_for": 900.0}
ME = "root" if os.getuid() == 0 else "ann"
CODE = "/srv/ann/.vscode-server/cli/servers/Stable-1/server/node"
TTY = 34816


class World:
    """A machine with sessions and editors whose counters a test moves."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.sense = Ssh(SETTINGS, self.tree.place)
        self.made: dict[int, tuple[str, dict[str, Any]]] = {}
        self.moved: dict[int, list[float]] = {}  # bytes read, bytes written, seconds of CPU
        self.make(10, "sshd")

    def make(self, pid: int, name: str, **rest: Any) -> None:
        self.made[pid] = name, rest
        self.moved.setdefault(pid, [5e6, 3e6, 40.0])
        self.save(pid)

    def save(self, pid: int) -> None:
        name, rest = self.made[pid]
        read, written, cpu = self.moved[pid]
        self.tree.process(pid, name, io=(round(read), round(written)), cpu=cpu, **rest)

    def session(self, pid: int, name: str = "sshd") -> None:
        """As OpenSSH has it: the daemon, the monitor of a connection, and the process of its user."""
        self.make(pid, name, parent=10)
        self.make(pid + 1, name, parent=pid)

    def editor(self, exe: str = CODE) -> None:
        """A server, its extension host with a language server, and the one of its terminals with a shell."""
        self.make(50, "sh")
        self.make(51, "node", parent=50, exe=exe)
        self.make(52, "node", parent=51, exe=exe)
        self.tree.write(
            "proc/52/cmdline", f"{exe}\0--dns-result-order=ipv4first\0bootstrap-fork\0--type=extensionHost\0x\0"
        )
        self.make(53, "node", parent=51, exe=exe)
        self.tree.write("proc/53/cmdline", f"{exe}\0bootstrap-fork\0--type=ptyHost\0")
        self.tree.write("proc/51/cmdline", f"{exe}\0server-main.js\0--connection-token=secret\0")
        self.make(54, "bash", parent=53, terminal=TTY)
        self.make(55, "htop", parent=54, terminal=TTY)
        self.make(56, "python3", parent=52)
        self.tree.opens(52, "/dev/null")

    @contextmanager
    def window(self) -> Iterator[Callable[[int], None]]:
        """The window's connection to the extension host, which has it from this process: what is called sends so many bytes."""
        for name in ("fd", "ns"):
            link = self.tree.proc / "52" / name
            if link.is_dir():
                self.tree.opens(52)
                link.rmdir()
            link.symlink_to(f"/proc/{os.getpid()}/{name}")
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as there,
            listener.accept()[0] as here,
        ):

            def send(count: int) -> None:
                there.sendall(bytes(count))
                while count > 0:
                    count -= len(here.recv(count))

            yield send

    def step(self, times: int = 1, seconds: float = 10.0, **rates: float) -> Sight:
        """``r52=1000.0``: process 52 reads so many bytes a second; ``w…`` writes, ``c…`` uses so many processors."""
        for _ in range(times):
            for key, rate in rates.items():
                self.moved[int(key[1:])]["rwc".index(key[0])] += rate * seconds
                self.save(int(key[1:]))
            sight = self.tree.look(self.sense, seconds)
        return sight


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("name", ["sshd", "sshd-session"])
@pytest.mark.parametrize("kind", ["r", "w"])
def test_a_session_that_moves_bytes_counts_at_the_second_look(world: World, name: str, kind: str) -> None:
    """A port forward or sftp, by its own process; who it is, and since when."""
    world.session(20, name)
    assert world.step().seen
    world.step(2)
    began = world.tree.now
    assert not world.step(**{f"{kind}21": MB}).active
    (one,) = world.step(**{f"{kind}21": MB}).active
    assert (one.who, one.what, one.user) == (f"{ME} over SSH", "moved bytes", ME)
    assert (one.since, one.last, one.lets_go) == (began + 10.0, world.tree.now, "15 min below 50 kB/s")
    assert world.step(89).active
    assert not world.step(3).active


def test_keep_alives_and_a_program_that_prints_do_not(world: World) -> None:
    """An open session, one that shows a monitor, and a tab of a notebook behind a forward."""
    world.session(20)
    world.session(30)
    assert not world.step(60, r21=50.0, w21=50.0, r31=9 * KB, w31=9 * KB).active
    for _ in range(20):
        assert not world.step(w31=900 * KB).active  # a page is loaded
        assert not world.step(5).active


def test_the_daemon_itself_is_no_session(world: World) -> None:
    """Nor is the monitor of a session, nor somebody's program of that name."""
    world.session(20)
    world.make(40, "sshd")
    assert not world.step(5, r10=MB, r20=MB, r40=MB).active


def test_root_s_session_is_one_process(world: World) -> None:
    """It needs no other one to give its rights up."""
    world.make(20, "sshd", parent=10)
    assert [one.what for one in world.step(5, r20=MB).active] == ["moved bytes"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
@pytest.mark.parametrize(("name", "owner"), [("dropbear", 4711), ("dropbear", 0), ("ssm-session-wor", 4711)])
def test_a_session_that_stays_root_s_is_its_user_s(world: World, name: str, owner: int) -> None:
    """Such a daemon passes the bytes on as root, and starts the user's program as that user."""
    world.make(10, "dropbear")
    world.make(20, name, parent=10)
    world.make(21, "sh", parent=20)
    os.chown(world.tree.proc / "21", owner, owner)
    (one,) = world.step(5, r20=MB).active
    assert one.who == f"{one.user} over SSH"
    assert one.user == ("uid 4711" if owner else "root")


@pytest.mark.parametrize(
    ("title", "counts"),
    [
        ("sshd: root@pts/0", True),
        ("sshd-session: root@notty", True),
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10", False),
    ],
)
def test_root_s_session_outlives_its_daemon(world: World, title: str, counts: bool) -> None:
    """A restart of the daemon, as an upgrade does it, leaves it below process 1, with its title alone to know it by."""
    world.make(40, "sshd")
    (world.tree.proc / "40" / "cmdline").write_bytes(f"{title}\0".encode())
    assert bool(world.step(5, r40=MB).active) == counts


@pytest.mark.parametrize("number", [0, READS, 2 * READS - 1])
def test_sessions_of_one_user_count_together_and_by_turns(world: World, number: int) -> None:
    """Many sessions are measured a few at a look; the busy one is seen, whichever it is."""
    for one in range(READS * 2):
        world.session(100 + 2 * one)
    sight = world.step(12, **{f"r{101 + 2 * number}": MB})
    assert [one.who for one in sight.active] == [f"{ME} over SSH"]


CROWD = range(1000, 1120)


def test_a_crowd_below_an_editor_hides_no_session(world: World) -> None:
    """Each group has its turn in each look, however many processes another one has."""
    world.editor()
    for pid in CROWD:
        world.make(pid, "python3", parent=56)
    world.session(20)
    world.step(12)
    world.step(r21=MB)
    assert [one.who for one in world.step(r21=MB).active] == [f"{ME} over SSH"]


def test_a_crowd_below_an_editor_is_seen_to_compute(world: World) -> None:
    """The workers of a notebook that loads data: each of them is read after minutes, and what all of them use is known."""
    world.editor()
    for pid in CROWD:
        world.make(pid, "python3", parent=56)
    turn = len(CROWD) // READS + 2
    assert not world.step(2 * turn).active
    busy = {f"c{pid}": 0.05 for pid in CROWD}
    assert [one.what for one in world.step(2 * turn, 10.0, **busy).active] == ["computed"]


def test_a_burst_of_a_crowd_is_no_work(world: World) -> None:
    """Each of them is read at another look, so one burst is found in many looks."""
    world.editor()
    for pid in CROWD:
        world.make(pid, "python3", parent=56)
    turn = len(CROWD) // READS + 2
    world.step(2 * turn)
    world.step(1, 10.0, **{f"c{pid}": 2.0 for pid in CROWD})
    for _ in range(2 * turn):
        assert not world.step().active


def test_an_editor_in_use_counts(world: World) -> None:
    """Its window sends every change of a file."""
    world.editor()
    world.step(3)
    world.step(r52=6 * KB)
    (one,) = world.step(r52=6 * KB).active
    assert (one.who, one.what) == (f"VS Code of {ME}", "exchanged data with its window")
    assert one.lets_go == "15 min below 100 B/s"
    assert "secret" not in repr(world.sense.__dict__)


def test_an_editor_that_is_open_does_not(world: World) -> None:
    """A heartbeat, a language server, and what runs in its terminal or was sent off from there, whose output passes the server."""
    world.editor()
    world.make(57, "python3", parent=54)
    assert not world.step(60, r52=40.0, w51=20 * KB, w53=20 * KB, c51=0.02, c52=0.03, c55=0.9, c56=0.05, c57=0.9).active


def test_an_open_window_does_not_though_the_editor_looks_for_ports(world: World) -> None:
    """It lists all connections and open files of the machine every few seconds, for whoever is there or not.

    What an extension asks of a service elsewhere is no sign of a person either: the other end of this window is its own connection.
    """
    world.editor()
    with world.window() as send:
        world.step(3)
        for _ in range(30):
            send(60 * 10)  # its heartbeat
            assert not world.step(r52=30 * KB, w52=17 * KB).active
        for _ in range(2):
            send(200 * 10)
            sight = world.step(r52=30 * KB, w52=17 * KB)
        assert [one.what for one in sight.active] == ["exchanged data with its window"]
        assert not world.step(92, r52=30 * KB).active
    world.step(3)
    assert not world.step(20, r52=30 * KB, w52=17 * KB).active, "its window has gone, and comes back perhaps"


def test_a_window_that_cannot_be_counted_holds_rather_than_not(world: World) -> None:
    """The kernel does not say what its connection moves: then whatever the process reads and writes counts, also a person's typing."""
    world.editor()
    with world.window() as send:
        world.step(3)
        send(10)
        world.step()
        (world.tree.proc / "52" / "ns").unlink()
        world.step(2, r52=6 * KB)
        assert world.step(r52=6 * KB).active


def test_what_an_editor_has_started_counts_by_its_processors(world: World) -> None:
    """The kernel of a notebook that computes; not what runs in a terminal."""
    world.editor()
    world.step(3)
    world.step(c56=0.9)
    assert [(one.who, one.what) for one in world.step(c56=0.9).active] == [(f"VS Code of {ME}", "computed")]


@pytest.mark.parametrize("part", EDITORS)
def test_editors_are_known_by_where_their_programs_lie(world: World, part: str) -> None:
    """Their names are only *node*."""
    world.editor(f"/srv/ann{part}{'' if part.endswith('/') else '-insiders/'}bin/node")
    sight = world.step(4, c51=2.0)
    assert [one.what for one in sight.active] == ["computed"]
    assert sight.active[0].who == f"{EDITORS[part]} of {ME}"


def test_what_has_ended_lets_go(world: World) -> None:
    """A session that is closed counts for its while, then no more, and nothing of it is kept."""
    world.session(20)
    assert world.step(4, r21=MB).active
    world.tree.ends(21)
    world.tree.ends(20)
    assert world.step(60).active
    sight = world.step(40)
    assert (sight.active, sight.unknown) == ((), "")
    assert sight.seen == "no SSH session that moves bytes, no editor's server"
    assert not world.sense._groups


def test_a_number_that_is_used_again_is_another_session(world: World) -> None:
    """Its counters are not compared with those of the one before."""
    world.session(20)
    world.step(4)
    world.make(21, "sshd", parent=20, start=900.0)
    world.moved[21] = [9e9, 9e9, 0.0]
    world.save(21)
    assert not world.step(3).active


def test_where_processes_are_unknown_so_are_sessions(world: World) -> None:
    """A /proc of somebody else shows other people's."""
    world.session(20)
    world.step(2)
    assert world.step().unknown == ""
    (world.tree.proc / "self").unlink()
    assert "does not show costguard's own process" in world.step().unknown


DAEMON = """
import ctypes, os, socket, sys
prctl = ctypes.CDLL(None).prctl
prctl(15, b"sshd", 0, 0, 0)
def fork():
    'A child that ends with its parent.'
    child = os.fork()
    if not child: prctl(1, 9, 0, 0, 0)
    return child
ask, answer = socket.socketpair()
near, far = socket.socketpair()
monitor = fork()
if not monitor:
    session = fork()
    if not session:  # as sshd does: it reads from one socket and writes to another one
        if not fork():  # the program at the other end
            while data := os.read(far.fileno(), 1 << 16): pass
            os._exit(0)
        far.close()
        os.write(answer.fileno(), b"%d %d" % (os.getppid(), os.getpid()))
        while os.read(answer.fileno(), 1):
            for _ in range(100): os.write(near.fileno(), bytes(20_000))
            os.write(answer.fileno(), b".")
        os._exit(0)
    answer.close(); near.close(); far.close(); ask.close()
    os.waitpid(session, 0); os._exit(0)
answer.close(); near.close(); far.close()
print(os.getpid(), os.read(ask.fileno(), 99).decode(), flush=True)
for line in sys.stdin: os.write(ask.fileno(), b"."); os.read(ask.fileno(), 1); print(flush=True)
"""


def test_real_processes_that_pass_bytes_on(tmp_path: Path) -> None:
    """The kernel's own counters of processes that are made as sshd's are: what they write to a socket is in them."""
    tree = Tree(tmp_path)
    sense = Ssh(SETTINGS, tree.place)
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        for pid in daemon.stdout.readline().split():
            (tree.proc / pid).symlink_to(f"/proc/{pid}")
        assert not any(tree.look(sense).active for _ in range(4))
        for _ in range(2):
            daemon.stdin.write("\n")
            daemon.stdin.flush()
            daemon.stdout.readline()
            sight = tree.look(sense)
    assert [one.what for one in sight.active] == ["moved bytes"]


def test_a_session_that_begins_after_a_rest_is_measured(world: World) -> None:
    """For an hour nobody was there."""
    assert world.step(360) == NO_SESSION
    world.session(20)
    world.step()
    assert [one.what for one in world.step(4, w21=100_000.0).active] == ["moved bytes"]


def test_a_crowd_below_an_editor_takes_no_files(tmp_path: Path) -> None:
    """A user may start any number of processes there; this one has a limit of open files, and without any it would see nobody."""
    program = tmp_path / ".vscode-server" / "node"
    program.parent.mkdir()
    shutil.copy("/bin/sh", program)
    crowd = f"i=0; while [ $i -lt {KEPT_OPEN + 20} ]; do sleep 100 & i=$((i+1)); done; echo; wait"
    with subprocess.Popen([program, "-c", crowd], stdout=subprocess.PIPE, start_new_session=True) as editor:
        try:
            assert editor.stdout is not None
            editor.stdout.readline()
            sense, processes = Ssh(SETTINGS, SensePaths()), Processes(SensePaths())
            processes.look(0.0)
            gc.collect()  # the files of a sense before this one are closed by now, not in the midst
            before = len(os.listdir("/proc/self/fd"))
            for look in range(1, 3 + (KEPT_OPEN + 20) // READS):
                processes.look(10.0 * look)
                sense.look(Moment(10.0 * look, 10.0 * look), processes)
                assert len(os.listdir("/proc/self/fd")) - before < KEPT_OPEN
        finally:
            os.killpg(editor.pid, signal.SIGKILL)
