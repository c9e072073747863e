"""The sense `traffic`, on counters that a test makes, and on real ones."""

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.readers.host.processes import Process
from costguard.readers.host.rates import BUCKET, BUCKETS_NEEDED, Counter, Level
from costguard.readers.host.sense import NOT_YET, Moment, Sight
from costguard.readers.host.traffic import Traffic
from costguard.readers.host.upkeep import PROGRAMS, Upkeep
from tests.unit.readers.host.networks import run
from tests.unit.readers.host.tree import Tree

KB, MB = 1000, 1_000_000
SETTINGS = {"network": 100_000.0, "disk": 250_000.0, "quiet_for": 300.0, "ignore": ["restic"]}
PAGE = os.sysconf("SC_PAGE_SIZE")


class World:
    """A machine whose counters a test moves."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.sense = Traffic(SETTINGS, self.tree.place)
        self.net: dict[str, list[float]] = {"lo": [0, 0], "eth0": [5e9, 1e9]}
        self.disk = {"pgpgin": 0.0, "pgpgout": 0.0, "nr_dirtied": 0.0}
        self.saving = False  # whether the pre-stop hook works
        self.busy = "eth0"  # which moves what `step` says
        self.device("eth0")
        self.save()

    def device(self, name: str, master: str = "") -> None:
        folder = self.tree.sys / "class/net" / name
        (folder / "device").mkdir(parents=True)
        if master:
            (folder / "master").symlink_to(f"../{master}")

    def save(self) -> None:
        rows = [
            f"{name:>6}: {round(rx)} 9 0 0 0 0 0 0 {round(tx)} 9 0 0 0 0 0 0" for name, (rx, tx) in self.net.items()
        ]
        self.tree.write("proc/1/net/dev", "\n".join(["Inter-|", " face |", *rows, ""]))
        rows = [f"{name} {round(value)}" for name, value in self.disk.items()]
        self.tree.write("proc/vmstat", "\n".join(["nr_free_pages 1", *rows, "swap_ra 0", ""]))

    def step(self, seconds: float = 10.0, **rates: float) -> Sight:
        """Let time pass in which so many bytes a second move: rx, tx, read, written, dirtied."""
        self.net[self.busy][0] += rates.get("rx", 0.0) * seconds
        self.net[self.busy][1] += rates.get("tx", 0.0) * seconds
        self.disk["pgpgin"] += rates.get("read", 0.0) * seconds / 1024
        self.disk["pgpgout"] += rates.get("written", 0.0) * seconds / 1024
        self.disk["nr_dirtied"] += rates.get("dirtied", 0.0) * seconds / PAGE
        self.save()
        return self.tree.look(self.sense, seconds, saving=self.saving)

    def run(self, seconds: float, **rates: float) -> Sight:
        for _ in range(round(seconds / 10.0)):
            sight = self.step(**rates)
        return sight


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    assert world.step().unknown == NOT_YET
    assert world.step() == Sight((), "", "network and disks are quiet")
    return world


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({"rx": MB}, "the network received more than 100 kB/s"),
        ({"tx": MB}, "the network sent more than 100 kB/s"),
        ({"read": MB}, "the disks read more than 250 kB/s"),
        ({"written": MB}, "the disks wrote more than 250 kB/s"),
        ({"dirtied": MB}, "the disks wrote more than 250 kB/s"),
    ],
)
def test_a_megabyte_a_second_counts_at_the_second_look(world: World, rates: dict[str, float], words: str) -> None:
    """One look may see the tail of something else."""
    began = world.tree.now
    assert not world.step(**rates).active
    (one,) = world.step(**rates).active
    assert f"{one.who} {one.what}" == words
    assert (one.since, one.last) == (began + 10.0, world.tree.now)
    assert one.lets_go.startswith("5 min below ")
    again = world.step(**rates).active[0]
    assert again._replace(last=one.last) == one


def test_an_interface_that_comes_after_a_rest_counts(world: World) -> None:
    """While nothing moves nobody looks at the others' names; one whose name ends like another's is not taken for it."""
    world.net = {"veth0": [0, 0], **world.net}
    assert not world.run(600).active
    world.busy = "veth0"
    assert not world.run(60, rx=MB).active, "what containers move passes the device, too"
    world.net["eth1"] = [7e9, 0]
    world.device("eth1")
    world.busy = "eth1"
    assert world.run(30, rx=MB).active


def test_a_download_after_hours_of_rest_counts_at_the_second_look(world: World) -> None:
    """And who moves it is known, and since when."""
    assert not world.run(10_000, rx=9 * KB, written=9 * KB).active
    began = world.tree.now
    assert not world.step(rx=MB).active
    (one,) = world.step(rx=MB).active
    assert (one.who, one.since, one.last) == ("the network", began + 10.0, world.tree.now)


def test_its_end_lets_go(world: World) -> None:
    """A pause does not: a download fetches one file after the other."""
    world.run(60, rx=MB)
    assert world.run(280).active
    world.run(20, rx=MB)
    assert world.run(290).active
    assert not world.run(20).active


def test_a_pause_does_not_begin_it_anew(world: World) -> None:
    """People see since when the machine is kept up."""
    since = world.run(60, rx=MB).active[0].since
    world.run(100)
    assert world.run(60, rx=MB).active[0].since == since


def test_a_burst_is_no_work(world: World) -> None:
    """However much it is: an agent of the monitoring that sends once a minute, a health check, one page."""
    for _ in range(10):
        assert not world.step(rx=50 * MB, tx=3 * MB, written=90 * MB).active
        assert not world.run(50).active


def test_a_counter_that_begins_anew_is_no_traffic(world: World) -> None:
    """A card is reset, an interface made again: the next two looks know nothing, and what goes on is seen after them."""
    world.net["eth0"] = [0.0, 0.0]
    for _ in range(3):
        assert not world.step().active
    world.run(30, rx=MB)
    world.net["eth0"] = [0.0, 0.0]
    assert world.step(rx=MB).active


def test_a_long_pause_of_the_machine_is_no_rate(world: World) -> None:
    """After a sleep nobody knows when the bytes moved."""
    world.step(seconds=10.0, rx=MB)
    assert not world.step(seconds=3600.0, rx=MB).active
    assert not world.step().active


def test_each_byte_counts_once(world: World) -> None:
    """What a container receives passes a bridge and a pair too; loopback is no network."""
    world.net |= {"docker0": [0, 0], "veth12ab": [0, 0], "wg0": [0, 0]}
    for name in ("docker0", "veth12ab", "wg0", "lo"):
        world.busy = name
        for _ in range(3):
            assert not world.step(rx=9 * MB, tx=9 * MB).active
    world.busy = "eth0"
    for _ in range(3):
        for name in ("docker0", "veth12ab"):
            world.net[name][0] += 600 * KB
        assert not world.step(rx=60 * KB).active


def test_members_count_and_a_device_above_them_does_not(world: World) -> None:
    """A virtual function beneath a cloud's synthetic interface: the upper one counts its bytes as well."""
    world.device("enP1", master="eth0")
    world.net["enP1"] = [0, 0]
    for _ in range(4):
        world.net["enP1"][0] += 600 * KB
        assert not world.step(rx=60 * KB).active
    for _ in range(3):
        world.net["enP1"][1] += 1.5 * MB
        sight = world.step(tx=150 * KB)
    assert [one.what for one in sight.active] == ["sent more than 100 kB/s"]


@pytest.mark.parametrize("cards", [1, 2, 3])
@pytest.mark.parametrize("kind", ["rx", "tx"])
def test_every_card_counts(tmp_path: Path, cards: int, kind: str) -> None:
    """The last one alone; all of them together, each below the threshold; and one that is plugged in later."""
    world = World(tmp_path)
    names = [f"eth{number}" for number in range(cards)]
    for name in names:
        world.device(name) if name != "eth0" else None
        world.net[name] = [7e9, 3e9]
    world.save()
    world.step()
    world.step()
    world.busy = names[-1]
    assert not world.step(**{kind: 130.0 * KB}).active
    assert [one.who for one in world.step(**{kind: 130.0 * KB}).active] == ["the network"]
    assert not world.run(400).active
    for looks in range(1, 4):
        for name in names:
            world.net[name][kind == "tx"] += 10.0 * 120 * KB / cards
        assert bool(world.step().active) is (looks >= 2)
    assert not world.run(400).active
    for _ in range(3):
        for name in names:
            world.net[name][kind == "tx"] += 10.0 * 80 * KB / cards
        assert not world.step().active
    world.net["eth9"] = [9e9, 9e9]
    world.device("eth9")
    world.busy = "eth9"
    world.step()
    world.step(**{kind: 130.0 * KB})
    assert world.step(**{kind: 130.0 * KB}).active


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("kind", ["rx", "tx", "read", "written", "dirtied"])
@pytest.mark.parametrize("second", [True, False])
def test_a_burst_that_lies_in_two_looks_is_known_by_its_parts(
    tmp_path: Path, cards: int, kind: str, second: bool
) -> None:
    """Read once more half-way, whatever moves: the later half was quiet, so that it is over; or it was not."""
    world = World(tmp_path)
    if cards == 2:
        world.device("eth1")
        world.net["eth1"] = [7e9, 3e9]
        world.busy = "eth1"
        world.save()
    world.step()
    world.step()
    assert world.sense.wakes == float("inf")
    assert not world.step(**{kind: 9.0 * MB}).active
    assert world.sense.wakes == world.tree.now + 5.0
    moved = {"rx": (world.net[world.busy], 0), "tx": (world.net[world.busy], 1)}
    for part in (5.0, 10.0):
        if kind in moved:
            row, place = moved[kind]
            row[place] += 0.0 if second and part == 10.0 else 5.0 * MB
        else:
            name, unit = {"read": ("pgpgin", 1024), "written": ("pgpgout", 1024), "dirtied": ("nr_dirtied", PAGE)}[kind]
            world.disk[name] += 0.0 if second and part == 10.0 else 5.0 * MB / unit
        world.save()
        if part == 5.0:
            world.sense.between(Moment(world.tree.now + part, 0.0))
            assert world.sense.wakes == float("inf")
    assert bool(world.tree.look(world.sense, 10.0).active) is not second


def test_counters_that_cannot_be_read_half_way_are_told_at_the_next_look(world: World) -> None:
    """Then nothing is known of the parts, and the whole counts."""
    assert not world.step(rx=9 * MB).active
    (world.tree.proc / "1/net/dev").unlink()
    world.sense.between(Moment(world.tree.now + 5.0, 0.0))
    assert world.step(rx=9 * MB).active


@pytest.mark.parametrize(
    "names", [["eth0"], ["eth0", "lo"], ["lo", "eth0"], ["lo", "wg0", "eth0"], ["eth0", "lo", "wg0"]]
)
def test_an_interface_counts_wherever_it_stands_in_the_table(tmp_path: Path, names: list[str]) -> None:
    """Behind its head of two lines; its numbers may follow the name without a space."""
    world = World(tmp_path)
    world.net = {name: [5e15, 1e15] for name in names}
    world.save()
    table = world.tree.proc / "1/net/dev"
    world.step()
    assert world.step().unknown == ""
    world.step(rx=130.0 * KB)
    assert [one.what for one in world.step(rx=130.0 * KB).active] == ["received more than 100 kB/s"]
    for _ in range(3):
        world.net["eth0"][0] += 10.0 * 130 * KB
        world.save()
        table.write_text(table.read_text().replace(": ", ":"))
        sight = world.tree.look(world.sense)
    assert len(sight.active) == 1


def test_without_a_device_every_interface_counts_but_loopback(tmp_path: Path) -> None:
    """In a container that stands for its machine the network is one end of a pair."""
    world = World(tmp_path)
    (world.tree.sys / "class/net/eth0/device").rmdir()
    world.step()
    for _ in range(3):
        sight = world.step(rx=MB)
    assert sight.active
    world.net["lo"][0] += 1e9
    assert len(world.step(rx=MB).active) == 1


def test_without_a_device_a_bridge_and_what_belongs_to_it_count_no_more_than_loopback(tmp_path: Path) -> None:
    """What passes them passes the machine's own end of the network as well."""
    world = World(tmp_path)
    net = world.tree.sys / "class/net"
    (net / "eth0/device").rmdir()
    (net / "br0/bridge").mkdir(parents=True)
    (net / "p1").mkdir()
    (net / "p1/master").symlink_to("../br0")
    world.net |= {"br0": [0, 0], "p1": [0, 0]}
    for name in ("lo", "br0", "p1"):
        world.busy = name
        for _ in range(4):
            assert not world.step(rx=9 * MB).active
    world.busy = "eth0"
    assert [world.step(rx=MB).active != () for _ in range(3)][-1]


def ports(world: World, cards: int, counter: str) -> list[Path]:
    found = []
    for card in range(cards):
        world.tree.write(f"sys/class/infiniband/mlx5_{card}/ports/1/{counter}", "7\n")
        found.append(world.tree.sys / f"class/infiniband/mlx5_{card}/ports/1/{counter}")
    return found


@pytest.mark.parametrize(("counter", "unit"), [("counters/port_rcv_data", 4), ("hw_counters/rdma_read_bytes", 1)])
def test_infiniband_counts(tmp_path: Path, counter: str, unit: int) -> None:
    """No interface sees what passes its ports. Its data counters count four bytes."""
    world = World(tmp_path)
    files = ports(world, 2, counter)
    for _ in range(3):
        assert not world.step().active
    for _ in range(2):
        files[1].write_text(f"{int(files[1].read_text()) + 10 * MB // unit}\n")
        sight = world.step()
    assert [(one.who, one.what) for one in sight.active] == [("InfiniBand", "moved more than 100 kB/s")]


def test_infiniband_of_many_ports_is_seen(tmp_path: Path) -> None:
    """A look asks a few of them."""
    world = World(tmp_path)
    files = ports(world, 8, "counters/port_xmit_data")
    world.run(60)
    for _ in range(6):
        files[5].write_text(f"{int(files[5].read_text()) + 10 * MB}\n")
        sight = world.step()
    assert sight.active


def test_a_burst_on_many_ports_is_no_work(tmp_path: Path) -> None:
    """Each port is read at another look, so one burst is found in several of them."""
    world = World(tmp_path)
    files = ports(world, 24, "counters/port_xmit_data")
    world.run(300)
    for file in files:
        file.write_text("900000000\n")
    for _ in range(30):
        assert not world.step().active


def test_what_cannot_be_read_is_unknown(world: World) -> None:
    """And the rest is still seen."""
    (world.tree.proc / "vmstat").write_text("nothing of the kind\n")
    world.net["eth0"][0] += 10 * MB
    world.tree.write("proc/1/net/dev", (world.tree.proc / "1/net/dev").read_text())
    sight = world.tree.look(world.sense)
    assert sight.unknown == "the disks cannot be seen (an unexpected form)"
    (world.tree.proc / "1/net/dev").unlink()
    sight = world.tree.look(world.sense)
    assert "the network cannot be seen (No such file or directory)" in sight.unknown
    world.save()
    for _ in range(2):
        sight = world.step()
    assert sight.unknown == ""


def test_whoever_moves_most_is_named(world: World) -> None:
    """By what it writes: what a process receives is not counted for it."""
    world.tree.process(300, "wget", io=(0, 0))
    world.tree.process(301, "bash", io=(0, 0))
    world.step()
    for turn in (1, 2, 3):
        world.tree.process(300, "wget", io=(0, turn * 9 * MB))
        sight = world.step(rx=MB)
    (one,) = sight.active
    user = "root" if os.getuid() == 0 else "ann"
    assert (one.who, one.what, one.user) == (f"wget of {user}", "received more than 100 kB/s", user)
    assert world.run(60, rx=MB).active[0].who == one.who


def test_nobody_is_named_who_moves_little_of_it(world: World) -> None:
    """It would be asked for what another one does."""
    world.tree.process(300, "wget", io=(0, 0))
    world.step()
    for turn in (1, 2, 3):
        world.tree.process(300, "wget", io=(0, turn * MB))
        sight = world.step(rx=MB)
    assert [one.who for one in sight.active] == ["the network"]


def test_the_idle_level_is_learnt_and_bounded() -> None:
    """What always goes on holds for two hours and no longer; twice the threshold holds also for days."""
    for rate, held in ((150.0, False), (90.0, False), (210.0, True)):
        level, now = Level(100.0, 300.0), 0.0
        while now < BUCKET * (BUCKETS_NEEDED + 2):
            now += 10.0
            level.take(rate, now, now - 10.0)
        assert level.goes_on(now) is held


def test_the_idle_level_takes_two_hours() -> None:
    """A slow download that began with the agent counts until then."""
    level, now = Level(100.0, 300.0), 0.0
    while now < BUCKET * BUCKETS_NEEDED:
        now += 10.0
        level.take(150.0, now, now - 10.0)
    assert level.usual == 0.0
    assert level.goes_on(now)
    level.take(150.0, now + 10.0, now)
    assert level.usual == 100.0


def test_a_download_in_a_quiet_machine_is_never_learnt() -> None:
    """The quietest quarter of an hour of the day is what is usual."""
    level, now = Level(100.0, 300.0), 0.0
    for rate, seconds in ((5.0, 4 * 3600.0), (110.0, 18 * 3600.0)):
        end = now + seconds
        while now < end:
            now += 10.0
            going = level.take(rate, now, now - 10.0)
        assert going is (rate > 100.0)


def test_a_counter_knows_when_it_says_nothing() -> None:
    """The first time, after a reset, and when it was not read for long."""
    counter = Counter()
    assert counter.due(0.0)
    assert [counter.rate(v, t) for v, t in ((5.0, 0.0), (25.0, 10.0), (3.0, 20.0), (4.0, 30.0), (9.0, 999.0))] == [
        None, 2.0, None, 0.1, None,
    ]  # fmt: skip
    assert not counter.due(1001.0)


def test_the_system_looks_after_itself(world: World) -> None:
    """An update at night downloads and unpacks for minutes; the owner may name more programs. For an hour at most."""
    upkeep = Upkeep(["restic"], world.tree.place)
    now = 10_000.0
    world.tree.pass_by()
    assert not upkeep.runs(world.tree.processes, now)
    world.tree.process(400, "restic", start=now - 60.0)
    world.tree.pass_by()
    assert upkeep.runs(world.tree.processes, now)
    assert not upkeep.runs(world.tree.processes, now + 3600.0)
    assert all(len(name) <= 15 for name in PROGRAMS)


def test_a_network_that_is_never_seen_leaves_nothing_behind_at_each_look(world: World) -> None:
    """The process of the senses lives for months."""
    (world.tree.proc / "1/net/dev").unlink()
    for _ in range(100):
        assert "the network cannot be seen" in world.tree.look(world.sense).unknown
    assert len(world.sense._numbers) < 10


def test_a_row_without_all_its_numbers_is_no_interface(world: World) -> None:
    """Nothing counts of it, and what moves afterwards does."""
    world.run(60)
    table = world.tree.proc / "1/net/dev"
    rows = table.read_text().splitlines()
    table.write_text("\n".join([*rows[:-1], "  eth0: 5 9", ""]))
    assert world.tree.look(world.sense) == Sight((), "", "network and disks are quiet")
    world.run(30)
    assert world.run(30, rx=MB).active


def test_upkeep_is_root_s(world: World) -> None:
    """Whoever names his program so holds up nothing, and hides nothing."""
    processes, upkeep = world.tree.processes, Upkeep([], world.tree.place)
    world.tree.write("proc/700/stat", "")
    for uid in (0, 1000):
        processes._by_name["unattended-upgr"] = {700: Process(700, 1, 700, uid, "unattended-upgr", 0, 0)}
        processes.edition += 1
        assert upkeep.runs(processes, 10.0) is (uid == 0)


def test_what_begins_with_upkeep_does_not_count_and_what_was_there_goes_on(world: World) -> None:
    """A download that began before an update is not forgotten through it; one that begins meanwhile is seen after it."""
    world.tree.process(400, "restic", start=world.tree.now)
    assert not world.run(300, rx=9 * MB, written=9 * MB).active
    world.tree.ends(400)
    assert world.run(30, rx=MB).active
    world.tree.process(401, "restic", start=world.tree.now)
    assert world.run(900, rx=MB).active


def harmless(minute: int, chance: random.Random, tree: Tree, numbers: "list[int]") -> dict[str, float]:
    """What an idle machine moves in one minute of its day: chatter, keep-alives, a scrape, log rotation, updates."""
    hour = minute / 60.0
    chatter = {
        "rx": 800.0 + chance.random() * 3000,
        "tx": 500.0 + chance.random() * 5000,
        "dirtied": 20 * KB * chance.random(),
    }
    if minute % 10 == 3:  # logs are shipped, a cloud's agent fetches its orders
        chatter |= {"tx": 400 * KB, "rx": 200 * KB}
    if minute % 15 == 7:
        chatter |= {"written": 2 * MB, "read": MB}
    if 6.0 <= hour < 6.2:
        chatter |= {"rx": 8 * MB, "dirtied": 30 * MB, "written": 30 * MB, "read": 5 * MB}
    if 0.0 <= hour < 0.02:
        chatter |= {"read": 20 * MB, "dirtied": 5 * MB}
    for running, name, pid in ((6.0 <= hour < 6.25, "unattended-upgr", 500), (0.0 <= hour < 0.05, "logrotate", 501)):
        if running and pid not in numbers:
            tree.process(pid, name, start=tree.now, uid=0)
            numbers.append(pid)
        elif not running and pid in numbers:
            tree.ends(pid)
            numbers.remove(pid)
    return chatter


def test_a_day_of_harmless_things(tmp_path: Path) -> None:
    """A metrics agent, keep-alives, shipped logs, log rotation and an update at night: none keeps the machine up."""
    world = World(tmp_path)
    world.sense = Traffic({**SETTINGS, "ignore": ["unattended-upgrade", "logrotate"]}, world.tree.place)
    chance, numbers, held = random.Random(7), list[int](), 0
    for minute in range(24 * 60):  # one look a minute: each burst is longer so
        rates = harmless((minute + 20 * 60) % (24 * 60), chance, world.tree, numbers)
        held += bool(world.step(seconds=60.0, **rates).active)
    assert held == 0


DOWNLOAD = """
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths
from costguard.readers.host.traffic import Traffic
def serve(line):
    while line.recv(1): line.sendall(bytes(10_000_000))
line, other = two_hosts(8080, serve)
root = sys.argv[1]
os.makedirs(root + "/1"); os.symlink(f"/proc/{os.getpid()}/net", root + "/1/net"); os.symlink("/proc/vmstat", root + "/vmstat")
sense = Traffic({"network": 100e3, "disk": 1e12, "quiet_for": 300.0, "ignore": []}, SensePaths(proc=root, sys=root))
processes, now = Processes(SensePaths(proc=root)), 1000.0
def look(moved):
    global now
    if moved:
        line.sendall(b"."); left = 10_000_000
        while left: left -= len(line.recv(min(left, 1 << 16)))
    now += 10.0
    print([one.what for one in sense.look(Moment(now, now), processes).active])
for moved in (False, False, True, True, True): look(moved)
for _ in range(31): look(False)
line.close(); os.waitpid(other, 0)
"""


def test_a_real_download(tmp_path: Path) -> None:
    """Ten megabytes between two looks come over a real pair of interfaces from another network; time alone is made."""
    told = run(DOWNLOAD, str(tmp_path / "proc"))
    assert told[:5] == ["[]", "[]", "[]", "['received more than 100 kB/s']", "['received more than 100 kB/s']"]
    assert told[-2:] == ["['received more than 100 kB/s']", "[]"]


def test_real_writes_are_seen_before_they_reach_the_disk(tmp_path: Path) -> None:
    """What is written lies in memory for half a minute; a slow writer would be seen too late on the disk."""
    tree = Tree(tmp_path)
    tree.write("proc/1/net/dev", "\n\n")
    (tree.proc / "vmstat").symlink_to("/proc/vmstat")
    sense = Traffic(SETTINGS, tree.place)
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        for _ in range(4):
            file.write(os.urandom(8 * MB))
            file.flush()
            sight = tree.look(sense)
    assert [one.what for one in sight.active if "wrote" in one.what] == ["wrote more than 250 kB/s"]


def test_what_the_pre_stop_hook_moves_is_no_activity_and_what_goes_on_after_it_is(world: World) -> None:
    """It uploads what it saves; who else uploads is seen two looks after its end."""
    world.saving = True
    assert not world.run(120.0, tx=50 * MB, written=50 * MB).active
    world.saving = False
    assert not world.step(tx=MB).active
    assert [one.what for one in world.step(tx=MB).active] == ["sent more than 100 kB/s"]


def test_what_went_on_before_the_hook_goes_on(world: World) -> None:
    """The hook hides nobody who was seen."""
    world.run(30.0, rx=MB)
    world.saving = True
    assert world.step(rx=MB).active


def watch(world: World, kind: str, moved: Callable[[float], float], seconds: float, every: float = 10.0) -> list[float]:
    """Look every so often, and in between when the sense wants to, while so many bytes have moved; when it counts."""
    begin, counted = world.tree.now, []
    before = moved(0.0)

    def until(at: float) -> None:
        nonlocal before
        after = moved(at - begin)
        if kind == "read":
            world.disk["pgpgin"] += (after - before) / 1024
        else:
            world.net["eth0"][0] += after - before
        before = after
        world.save()

    while world.tree.now < begin + seconds:
        look = world.tree.now + every
        if world.sense.wakes < look:
            until(world.sense.wakes)
            world.sense.between(Moment(world.sense.wakes, 0.0))
        until(look)
        if world.tree.look(world.sense, every).active:
            counted.append(world.tree.now - begin)
    return counted


def bursts(each: float, size: float, lasts: float, phase: float) -> Callable[[float], float]:
    """So many bytes within so many seconds, again and again."""

    def moved(at: float) -> float:
        done, part = divmod(at + phase, each)
        return size * (done + min(1.0, part / lasts))

    return moved


@pytest.mark.parametrize("kind", ["read", "rx"])
@pytest.mark.parametrize("phase", [step * 1.7 for step in range(36)])
def test_a_burst_each_minute_is_no_work_whenever_the_looks_come(tmp_path: Path, kind: str, phase: float) -> None:
    """As of a program that a monitor starts each minute, read from a cold disk: also where it lies in two looks."""
    world = World(tmp_path)
    world.run(20)
    assert watch(world, kind, bursts(60.0, 40 * MB, 4.5, phase), 600.0) == []


@pytest.mark.parametrize("phase", [0.1, 2.5, 5.0, 7.5, 8.9])
@pytest.mark.parametrize("every", [4.0, 10.0, 15.0])
def test_what_goes_on_counts_within_two_looks_whenever_it_begins(tmp_path: Path, phase: float, every: float) -> None:
    """And in between it is read once more, no oftener."""
    world = World(tmp_path)
    world.run(20)
    begun = every * phase / 10.0
    counted = watch(world, "rx", lambda at: max(0.0, at - begun) * MB, 6 * every, every)
    assert counted[0] <= begun + 2 * every
    assert world.sense.wakes == float("inf")


@pytest.mark.parametrize("at", [100.5, 109.99])
def test_what_was_read_at_either_end_says_nothing_of_a_part(at: float) -> None:
    """The moment in between is guessed from the looks before: where they were rarer it is that of the next look, and no byte moves in no time."""
    counter = Counter()
    counter.rate(0.0, 100.0)
    counter.mark(0.0 if at < 105.0 else 10e6, at)
    assert counter.rate(10e6, 110.0) == counter.least == 1e6


def test_bursts_in_each_look_count(tmp_path: Path) -> None:
    """A download in parts, or a job that writes its results every few seconds: three looks in a row are no coincidence."""
    world = World(tmp_path)
    world.run(20)
    counted = watch(world, "rx", bursts(10.0, 20 * MB, 1.0, 7.0), 120.0)
    assert counted
    assert counted[0] <= 40.0


def test_counters_that_cannot_be_read_in_between_leave_it_at_the_looks(world: World) -> None:
    """What is not known in parts counts as before."""
    world.step(rx=MB)
    assert world.sense.wakes < world.tree.now + 10.0
    (world.tree.proc / "vmstat").unlink()
    world.sense.between(Moment(world.sense.wakes, 0.0))
    assert world.step(rx=MB).active


@pytest.mark.parametrize("fill", range(2900, 3000, 3))
def test_counters_may_stand_anywhere_in_their_table(tmp_path: Path, fill: int) -> None:
    """The first piece of it holds them nearly always; where it ends within a number, that is not taken for a smaller one."""
    tree = Tree(tmp_path)
    tree.write("proc/1/net/dev", "Inter-|\n face |\n")
    sense = Traffic(SETTINGS, tree.place)
    for pages in (123_450_000, 123_453_000, 123_456_000):  # 300 kB/s
        rows = [f"nr_{'x' * fill} 0", "nr_dirtied 0", "pgpgin 0", f"pgpgout {pages}"]
        tree.write("proc/vmstat", "\n".join(["nr_free_pages 1", *rows, ""]))
        sight = tree.look(sense, 10.0)
    assert [one.what for one in sight.active] == ["wrote more than 250 kB/s"]


LEVELS = st.lists(st.one_of(st.none(), st.floats(0.0, 400.0)), min_size=1, max_size=60)


@given(LEVELS, st.floats(0.0, 900.0))
def test_a_level_that_rests_is_as_one_that_is_taken(rates: list[float | None], step: float) -> None:
    """The quick way says and learns the same as the whole one."""
    quick, whole = Level(100.0, 300.0), Level(100.0, 300.0)
    now = 1000.0
    for rate in rates:
        began, now = now, now + step
        counts = whole.take(rate, now, began)
        if quick.rests(rate, now):
            assert not counts
        else:
            assert quick.take(rate, now, began) is counts
        assert [getattr(quick, name) for name in Level.__slots__] == [getattr(whole, name) for name in Level.__slots__]
