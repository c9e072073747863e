"""The sense `cluster`, on a /proc that a test makes, and a real rank that waits for another host."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from costguard.cloud.schedulers import DAEMONS
from costguard.readers.host.cluster import LAST_SECONDS, LAUNCHERS, Cluster
from costguard.readers.host.peers import SERVICES
from costguard.readers.host.sense import NOT_YET, Sight
from tests.unit.readers.host.networks import run
from tests.unit.readers.host.tree import Tree

SETTINGS = {"standalone": False, "quiet_for": 300.0, "ignore": ["feature-server"]}
ME = "root" if os.getuid() == 0 else "ann"
GPU = ("/dev/null", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
HERE, THERE = "10.77.0.1", "10.77.0.2"


def end(address: str) -> str:
    """An address with its port, as the kernel writes it."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    data = socket.inet_pton(family, host.strip("[]"))
    words = [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{int(port):04X}"


class World:
    """A machine with processes that hold GPUs and connections."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.tree = Tree(folder)
        self.sense = Cluster({**SETTINGS, **settings}, self.tree.place)
        self.rows: dict[int, list[str]] = {}

    def connect(self, pid: int, *pairs: tuple[str, str], state: str = "01", device: tuple[str, ...] = GPU) -> None:
        """The network of a process: its connections, or with no other end the ports on which it listens."""
        files, tables = list(device), {"tcp": ["head"], "tcp6": ["head"]}
        for number, (here, other) in enumerate(pairs):
            inode = pid * 100 + number
            listens = not other
            there = other or ("[::]:0" if "[" in here else "0.0.0.0:0")
            table = tables["tcp6" if "[" in here else "tcp"]
            table.append(
                f"{number:4}: {end(here)} {end(there)} {'0A' if listens else state} 0:0 0:0 0 0 0 {inode} 1 0 100 0"
            )
            files.append(f"socket:[{inode}]")
        for name, table in tables.items():
            self.tree.write(f"proc/{pid}/net/{name}", "\n".join([*table, ""]))
        self.tree.opens(pid, *files)

    def rank(self, pid: int = 300) -> None:
        self.tree.process(pid, "python3", start=self.tree.now)
        self.connect(pid, (f"{HERE}:41000", f"{THERE}:29500"))

    def step(self, times: int = 1, seconds: float = 10.0) -> Sight:
        for _ in range(times):
            sight = self.tree.look(self.sense, seconds)
        return sight


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_rank_that_waits_for_others_counts_at_the_second_look(world: World) -> None:
    """It moves no byte and uses no processor."""
    assert world.step() == Sight((), "", "no scheduler's node, and no job of several hosts")
    world.rank()
    assert not world.step().active
    (one,) = world.step().active
    assert (one.who, one.what, one.user) == (f"python3 of {ME}", "was connected to other hosts of a job", ME)
    assert one.lets_go == "5 min without such a connection"
    later = world.step(200).active[0]
    assert (later.since, later.last) == (one.since, world.tree.now)


def test_its_end_lets_go(world: World) -> None:
    """Connections that are closed; new ones within the while are the same job."""
    world.rank()
    since = world.step(2).active[0].since
    world.connect(300)
    assert world.step(20).active
    world.connect(300, (f"{HERE}:41001", f"{THERE}:29500"))
    assert world.step(70).active[0].since == since
    world.connect(300)
    assert not world.step(32).active


def test_connections_that_stay_are_listed_rarely_and_lost_ones_at_once(world: World) -> None:
    """To list them takes milliseconds; whether one is still open is seen by its descriptor."""
    world.rank()
    world.step(60)
    listed = world.sense._round
    for _ in range(360):
        assert world.step().active
    assert 360 * 10.0 / LAST_SECONDS - 1 <= world.sense._round - listed <= 360 * 10.0 / LAST_SECONDS + 1
    listed = world.sense._round
    world.connect(300)
    world.step()
    assert world.sense._round == listed + 1, "one is gone"
    world.connect(300, (f"{HERE}:42000", f"{THERE}:29500"))
    world.step(7)
    since = world.step().active[0].since
    assert since < world.tree.now - 3600.0, "made anew, it is the same job"


def test_a_connection_that_hangs_half_closed_lets_go(world: World) -> None:
    """The other side has ended; the process has not noticed. Its socket stays open."""
    world.rank()
    assert world.step(2).active
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), state="08")
    assert not world.step(round((LAST_SECONDS + 400) / 10)).active


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("127.0.0.1:41000", "127.0.0.1:29500"),
        ("127.0.0.1:41000", "127.8.0.1:29500"),
        ("[::1]:41000", "[::1]:29500"),
        ("[fd00::1]:41000", "[::1]:29500"),
        ("[::ffff:127.0.0.1]:41000", "[::ffff:127.0.0.1]:29500"),
        (f"{HERE}:41000", f"{HERE}:29500"),
        (f"{HERE}:41000", "34.1.2.3:443"),
        (f"{HERE}:41000", f"{THERE}:2049"),
        (f"{HERE}:41000", f"{THERE}:5432"),
        (f"{HERE}:990", f"{THERE}:988"),
        ("172.17.0.2:41000", "172.17.0.3:29500"),
        ("[::ffff:172.17.0.1]:41000", "[::ffff:172.17.0.2]:29500"),
    ],
)
def test_what_is_no_job_of_several_hosts(world: World, here: str, there: str) -> None:
    """The machine itself, its own containers, and the services that a job on one host uses too."""
    world.tree.write(
        "proc/1/net/route", "Iface\tDestination\ndocker0\t000011AC\t00000000\t1\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    world.rank()
    world.connect(300, (here, there))
    assert world.step(20) == Sight((), "", "no scheduler's node, and no job of several hosts")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (f"{HERE}:29500", f"{THERE}:55000"),
        ("[fd00::1]:41000", "[fd00::2]:29500"),
        (f"[::ffff:{HERE}]:41000", f"[::ffff:{THERE}]:29500"),
        (f"{HERE}:51234", f"{THERE}:43210"),
        (f"{HERE}:41000", "52.1.2.3:29500"),
    ],
)
def test_what_is_one(world: World, here: str, there: str) -> None:
    """Either side of a store, IPv6, the rings of NCCL, hosts with public addresses."""
    world.rank()
    world.connect(300, (here, there), *([(here, "")] if ":29500" in here else []))
    assert world.step(2).active


@pytest.mark.parametrize(("missing", "seen"), [("tcp6", True), ("tcp", False)])
def test_a_kernel_without_ipv6_has_one_table(world: World, missing: str, seen: bool) -> None:
    """Without the other one nothing is known."""
    world.rank()
    (world.tree.proc / f"300/net/{missing}").unlink()
    assert bool(world.step(2).active) is seen


def test_whoever_asks_a_server_makes_it_no_rank(world: World) -> None:
    """An inference server behind a load balancer, on one of the usual ports."""
    world.rank()
    world.connect(300, (f"{HERE}:8000", ""), (f"{HERE}:8000", f"{THERE}:55000"))
    assert 8000 in SERVICES
    assert not world.step(20).active


def test_a_server_or_monitor_that_is_asked_is_no_rank(world: World) -> None:
    """Whatever its port: it makes no connections itself. A monitor that is known by its name may."""
    pairs = ((f"{HERE}:9835", ""), (f"{HERE}:9835", f"{THERE}:55000"))
    world.tree.process(300, "python3", start=world.tree.now)
    world.connect(300, *pairs)
    world.tree.process(301, "nvtop", start=world.tree.now)
    world.connect(301, *pairs, (f"{HERE}:41000", f"{THERE}:29500"))
    assert not world.step(20).active
    world.connect(300, *pairs, (f"{HERE}:41000", f"{THERE}:43210"))
    assert world.step(200).active


def test_a_launcher_that_is_asked_is_of_a_job(world: World) -> None:
    """It waits for the other hosts on a port that somebody chose."""
    world.tree.process(300, "torchrun", start=world.tree.now)
    world.connect(300, (f"{HERE}:9835", ""), (f"{HERE}:9835", f"{THERE}:55000"), device=())
    assert world.step(3).active


def test_the_owner_names_what_is_no_job(world: World) -> None:
    """A program with a GPU that asks another host's server on a port of its own."""
    world.tree.process(300, "feature-server", start=world.tree.now)
    world.connect(300, (f"{HERE}:41000", f"{THERE}:4711"))
    assert not world.step(20).active


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_launchers_count_before_a_gpu_is_open(world: World, name: str) -> None:
    """They wait for the other hosts first."""
    world.tree.process(300, name[:15], start=world.tree.now)
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), device=())
    assert [one.who for one in world.step(3).active] == [f"{name[:15]} of {ME}"]


@pytest.mark.parametrize(
    "arguments", ["/opt/bin/python\0-u\0/opt/bin/torchrun\0--nnodes=2\0", "python3\0-m\0torch.distributed.run\0x\0"]
)
def test_launchers_that_are_called_python(world: World, arguments: str) -> None:
    """By what they run; nothing of it is kept."""
    world.tree.process(300, "python3", start=world.tree.now)
    world.tree.write("proc/300/cmdline", arguments + "--token=secret\0")
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), device=())
    assert world.step(3).active
    assert "secret" not in repr(vars(world.sense))


def test_a_launcher_that_pytorch_has_renamed_still_counts(world: World) -> None:
    """It loads PyTorch before it waits for the other hosts."""
    world.tree.process(300, "torchrun", start=world.tree.now)
    world.tree.write("proc/300/cmdline", "/opt/bin/python\0/opt/bin/torchrun\0--nnodes=2\0")
    world.step()
    world.tree.process(300, "pt_main_thread", start=world.tree.now)
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), device=())
    assert world.step(30).active


def test_a_process_without_gpu_and_launcher_may_talk_to_anybody(world: World) -> None:
    """A shell's ssh, an agent, a database."""
    world.tree.process(300, "java", start=world.tree.now)
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), device=())
    assert not world.step(20).active


def test_a_gpu_that_is_opened_late_is_found(world: World) -> None:
    """A notebook imports its library after an hour; looked for ever more rarely."""
    world.rank()
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"), device=())
    assert not world.step(30).active
    world.connect(300, (f"{HERE}:41000", f"{THERE}:29500"))
    assert world.step(40).active


@pytest.mark.parametrize("name", sorted(DAEMONS))
def test_a_scheduler_s_daemon_makes_a_node(tmp_path: Path, name: str) -> None:
    """Root's, on the host; unless the owner says that nothing is scheduled here."""
    world = World(tmp_path)
    world.tree.process(300, name, start=500.0)
    world.tree.write("proc/300/comm", f"{name}\n")
    world.tree.write("proc/300/cmdline", f"/usr/bin/{name}\0agent\0")
    world.tree.write(
        "proc/300/status", f"Name:\t{name}\nState:\tS\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\nGroups:\t\nNSpid:\t300\n"
    )
    (one,) = world.step(2).active
    assert (one.who, one.what) == (f"{name} of {DAEMONS[name]}", "runs: this is a node")
    assert (one.since, one.last) == (500.0, world.tree.now)
    (tmp_path / "b").mkdir()
    (other := World(tmp_path / "b", standalone=True)).tree.process(300, name)
    assert not other.step(2).active


def test_anybody_may_call_a_program_slurmd(world: World) -> None:
    """An ordinary user's, or one in a container, makes no node of this machine."""
    for pid, uid, space in ((300, "4000", "300"), (301, "0", "301\t7")):
        world.tree.process(pid, "slurmd")
        world.tree.write(f"proc/{pid}/comm", "slurmd\n")
        world.tree.write(
            f"proc/{pid}/status", f"State:\tS\nUid:\t{uid}\t0\t0\t0\nGid:\t4000\nGroups:\t4000\nNSpid:\t{space}\n"
        )
    assert not world.step(3).active


def test_infiniband_that_moves_data_counts(world: World) -> None:
    """Whoever moves it, no process shows that."""
    file = "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    world.tree.write(file, "100\n")
    assert not world.step(12).active
    began = world.tree.now
    for turn in range(9):
        world.tree.write(file, f"{100 + turn * 1_000_000}\n")
        sight = world.step()
    (one,) = sight.active
    assert (one.who, one.what) == ("InfiniBand", "moved data")
    assert began <= one.since < one.last <= world.tree.now
    assert not world.step(40).active


def rails(world: World, moved: int) -> None:
    """The counters of a machine with eight GPUs: eight cards for its job, four for its storage, two counters each."""
    for card in range(12):
        for name in ("port_rcv_data", "port_xmit_data"):
            world.tree.write(f"sys/class/infiniband/mlx5_{card}/ports/1/counters/{name}", f"{100 + moved}\n")


def test_infiniband_of_a_machine_with_many_cards_counts(world: World) -> None:
    """A look reads a few counters, so each of them is read after minutes."""
    rails(world, 0)
    assert not world.step(60).active
    for turn in range(24):
        rails(world, (1 + turn) * 1_000_000)
        sight = world.tree.look(world.sense, 10.1)  # no machine looks on the dot
    assert [(one.who, one.what) for one in sight.active] == [("InfiniBand", "moved data")]


def test_a_burst_on_all_cards_is_no_job(world: World) -> None:
    """It lies in one reading of each of them, whenever that comes."""
    rails(world, 0)
    assert not world.step(60).active
    rails(world, 500_000_000)
    for _ in range(60):
        assert not world.step().active


CROWD = range(1000, 1100)


def crowd(world: World, hoard: Path) -> None:
    """Launchers, if one believes their names, each of which has very much open."""
    for pid in CROWD:
        world.tree.process(pid, "torchrun")
        (world.tree.proc / str(pid) / "fd").symlink_to(hoard)


def test_launchers_with_very_much_open_take_no_look_long(world: World, hoard: Path) -> None:
    """A user may start any number of them: they are gone through little by little, and until then there is more to know."""
    crowd(world, hoard)
    world.tree.pass_by(60.0)
    behind, longest = 0, 0.0
    for _ in range(500):  # of a slow machine; two dozen are enough for a quick one
        began = time.thread_time()
        sight = world.step()
        longest, behind = max(longest, time.thread_time() - began), behind + world.sense._behind
        assert sight.unknown == NOT_YET or not world.sense._behind
        if behind and not world.sense._behind:
            break
    assert behind > 0, "they did not fit into a look"
    assert not world.sense._behind
    assert longest < 2.0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
def test_a_crowd_hides_no_rank_of_another_user(world: World, hoard: Path) -> None:
    """Each user has his turn in each look."""
    crowd(world, hoard)
    world.step(6)
    world.rank(2000)
    os.chown(world.tree.proc / "2000", 4711, 4711)
    sight = world.step(6)
    assert "python3 of uid 4711" in [one.who for one in sight.active]


def test_unknown_processes_are_unknown(world: World) -> None:
    """A rank of another user would not be seen."""
    (world.tree.proc / "self").unlink()
    assert "does not show costguard's own process" in world.step().unknown


WAITS = """
import tempfile
from costguard.readers.host.opened import sockets_of
from costguard.readers.host.peers import to_other_hosts
line, other = two_hosts(29500, lambda line: line.recv(1))
ip("link", "set", "lo", "up")
near = socket.create_server(("10.77.0.1", 0)); own = socket.create_connection(near.getsockname())
loop = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
ends = [socket.create_connection((to, loop.getsockname()[1])) for to in ("127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "10.77.0.1")]
read = tempfile.mkdtemp()
def place(pid):
    if sys.argv[1] == "asked": return "/proc"
    os.mkdir(f"{read}/{pid}")
    for name in ("net", "fd"): os.symlink(f"/proc/{pid}/{name}", f"{read}/{pid}/{name}")
    return read
def found(pid, proc):
    own = sockets_of(proc, pid)
    return [own[inode] for inode in to_other_hosts(proc, pid) if inode in own]
mine, theirs, outside = [(pid, place(pid)) for pid in (os.getpid(), other, os.getppid())]
print(found(*mine) == [str(line.fileno())], len(found(*theirs)), found(*outside))
line.close(); os.waitpid(other, 0)
print(found(*mine))
"""


@pytest.mark.parametrize("way", ["asked", "read"])
def test_real_connections_of_another_network(way: str) -> None:
    """Found among those of the process's own network and its own sockets; not those to itself, and not the test's.

    By both ways the same: asked of the kernel, and read where it does not answer.
    """
    assert run(WAITS, way) == ["True 1 []", "[]"]


MANY = """
from costguard.readers.host import diag
import socket
door = socket.create_server(("127.0.0.1", 0)); ends = []
for _ in range(300): ends += [socket.create_connection(door.getsockname()), door.accept()[0]]
def asked(far):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, diag.PROTOCOL) as line:
        rows = [row for family in (2, 10) for row in diag.ask(line, family, diag.ESTABLISHED, diag.LISTENS, far=far)]
    inodes = {row.inode: row for row in rows}
    return [os.fstat(end.fileno()).st_ino in inodes for end in ends], inodes[os.fstat(door.fileno()).st_ino]
all_of_them, door_row = asked(False)
print(all(all_of_them), door_row.state == diag.LISTENS, door_row.port == door.getsockname()[1], door_row.uid == os.getuid())
print(any(asked(True)[0]), asked(True)[1] == door_row)
"""


def test_the_kernel_leaves_out_what_stays_on_this_machine() -> None:
    """So a machine whose processes have thousands of connections to each other costs nothing."""
    assert run(MANY) == ["True True True True", "False True"]


def test_a_table_that_is_none_hides_who_is_talked_to(world: World) -> None:
    """What cannot be understood is unknown, and no machine that talks to nobody."""
    world.rank()
    world.tree.write("proc/300/net/tcp", "head\n   0: here there 01 0:0 0:0 0 0 0 7 1 0 100 0\n")
    sight = world.step(2)
    assert sight.unknown
    assert not sight.active
