"""Notebooks: a stand-in that answers as a real Jupyter server does, real processes and sockets, virtual time."""

import json
import os
import select
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.readers.host.errand import Errand
from costguard.readers.host.errand_jobs import RuntimeFound, RuntimeJob
from costguard.readers.host.jupyter import ACTIVE, FOUND_AT_ONCE, SERVERS_OF_A_USER, Jupyter
from costguard.readers.host.kernel_server import FIRST_PAUSE, LONGEST_PAUSE, listed_in
from costguard.readers.host.page import Fetched, PageError
from costguard.readers.host.processes import Processes
from costguard.readers.host.runtime_file import find, folders
from costguard.readers.host.sense import NOT_YET, Moment, SensePaths, Sight
from tests.unit.readers.host.notebook_server import TOKEN
from tests.unit.readers.host.notebooks import OTHER, ROOT, Notebook
from tests.unit.readers.host.servers import WITHIN, answered, settle
from tests.unit.readers.host.tree import look_as_reader

STEP = 10.0
HOUR = 3600.0
LOOK_SECONDS = 2.0


class World:
    """A /proc that shows this test's processes alone, the sense, and its time."""

    def __init__(self, folder: Path, quiet_for: float = 0.0) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir(exist_ok=True)
        for pid in ("1", str(os.getpid())):
            (self.proc / pid).symlink_to(f"/proc/{pid}")
        (self.proc / "self").symlink_to(str(os.getpid()))
        self.place = SensePaths(proc=str(self.proc))
        self.processes = Processes(self.place)
        self.sense = Jupyter({"quiet_for": quiet_for}, self.place)
        self.now = 5000.0
        self.patience = WITHIN

    def look(self, after: float = STEP) -> Sight:
        """One look; what it has begun ends before the next one, as it does within 10 s."""
        self.now += after
        self.processes.look(self.now)
        begun = time.monotonic()
        sight = look_as_reader(self.sense, Moment(self.now, 0.0), self.processes)
        assert time.monotonic() - begun < LOOK_SECONDS
        settle(self.sense, lambda: self.sense.go_on(Moment(self.now, 0.0)), self.wait)
        answered([server._page for server in self.sense._servers.values() if server._page], self.patience)
        return sight

    def wait(self) -> float:
        """For a server as long as the test says; for a process that is on its way as long as it takes."""
        return WITHIN if any(server._errand for server in self.sense._servers.values()) else self.patience

    def looks(self, count: int) -> Sight:
        return [self.look() for _ in range(count)][-1]

    def close(self) -> None:
        for server in self.sense._servers.values():
            server.close(self.now)


Make = Callable[..., Notebook]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def start(world: World, short_path: Path) -> Iterator[Make]:
    made: list[Notebook] = []
    short_path.chmod(0o755)  # the user of the server reaches his own folder below it

    def make(env: dict[str, str] | None = None, **job: object) -> Notebook:
        made.append(Notebook(world.proc, short_path / "runtime", env, **job))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_no_kernel_runs(world: World) -> None:
    """Nothing is started, nothing asked, and nothing unknown."""
    assert world.look() == Sight(seen="no kernel runs")
    assert world.sense.filenos() == []


def test_a_busy_kernel_keeps_the_machine_up_within_two_looks(world: World, start: Make) -> None:
    """Named with its user; the end of the cell lets it go."""
    server = start()
    server.kernel("python3", "busy")
    world.look()
    (one,) = world.look().active
    owner = f"uid {OTHER}" if ROOT else one.user
    assert one.who == f"kernel python3 of {owner}'s Jupyter"
    assert (one.what, one.user, one.lets_go) == ("was busy", owner, "a look without a busy cell")
    assert one.last <= world.now
    server.say("state python3 idle")
    world.look()
    assert world.look() == Sight(seen="no kernel is busy")
    server.say("state python3 busy")
    world.look()
    assert world.look().active


@pytest.mark.parametrize(("quiet_for", "asked"), [(30.0, 12), (59.0, 12), (60.0, 4), (900.0, 4)])
def test_a_busy_kernel_is_asked_for_less_where_it_counts_long_enough(
    world: World, start: Make, quiet_for: float, asked: int
) -> None:
    """It was just seen: what it does counts for twice the time until its server is asked again."""
    world.sense = Jupyter({"quiet_for": quiet_for}, world.place)
    server = start()
    server.kernel("python3", "busy")
    assert world.looks(4).active
    moments = set()
    for _ in range(12):
        (one,) = world.look().active
        moments.add(one.last)
    assert asked - 1 <= len(moments) <= asked + 1


def test_a_cell_may_be_silent_for_hours(world: World, start: Make) -> None:
    """It is busy while its last activity ages, and since when stays what it was."""
    server = start()
    server.kernel("python3", "busy")
    first = world.looks(2).active[0]
    for _ in range(60):
        (one,) = world.look(600.0).active
        assert one == first._replace(last=one.last)
    assert one.last > first.since + 9 * HOUR


@pytest.mark.parametrize("state", ["idle", "starting", "restarting", "dead"])
def test_an_open_tab_is_no_work(world: World, start: Make, state: str) -> None:
    """A day with a connected tab: nothing keeps the machine up, and every look was known."""
    server = start()
    server.kernel("python3", state)
    world.looks(2)
    for _ in range(24):
        assert world.look(HOUR) == Sight(seen="no kernel is busy")


def test_what_lets_a_kernel_go_is_told_in_seconds_where_it_is_short(world: World, start: Make) -> None:
    """Not in thirds of a minute."""
    world.sense = Jupyter({"quiet_for": 20.0}, world.place)
    start().kernel("python3", "busy")
    assert world.looks(2).active[0].lets_go == "20 s without a busy cell"


def test_people_think_between_two_cells(tmp_path: Path, world: World, start: Make) -> None:
    """A kernel counts for ``quiet_for`` after it was last seen busy."""
    world.sense = Jupyter({"quiet_for": 600.0}, world.place)
    server = start()
    server.kernel("python3", "busy")
    first = world.looks(2).active[0]
    server.say("state python3 idle")
    world.look()
    world.looks(3)
    last = world.look(540.0).active[0]
    assert (last.who, last.since, last.lets_go) == (first.who, first.since, "10 min without a busy cell")
    assert world.look(60.0).active == ()


def test_a_server_at_work_is_asked_less(world: World, start: Make) -> None:
    """What was just seen counts for minutes; a quiet one is asked at every look."""
    world.sense = Jupyter({"quiet_for": 600.0}, world.place)
    server = start()
    server.kernel("python3", "busy")
    for _ in range(19):
        world.look()
    assert isinstance(busy := server.say("requests"), list)
    assert 5 <= len(busy) <= 7
    assert world.look().active
    server.say("state python3 idle")
    world.looks(4)
    assert isinstance(before := server.say("requests"), list)
    world.looks(10)
    assert isinstance(after := server.say("requests"), list)
    assert len(after) - len(before) == 10


def test_what_is_asked(world: World, start: Make) -> None:
    """Only the list of kernels, over one connection, so that asking counts as no use of the server."""
    server = start(base="/user/ann/")
    server.kernel()
    world.looks(4)
    requests = server.say("requests")
    assert isinstance(requests, list)
    assert len(requests) >= 3
    assert {request.partition("\r\n")[0] for request in requests} == {
        "GET /user/ann/api/kernels?no_track_activity=1 HTTP/1.1"
    }


def test_the_token_shows_nowhere(world: World, start: Make) -> None:
    """Not in a sight, not in words of trouble, not in the text of any object on the way."""
    server = start()
    server.kernel("python3", "busy")
    seen = [world.look(), world.look()]
    (asked,) = world.sense._servers.values()
    assert asked._endpoint is not None
    assert TOKEN in asked._endpoint.header
    texts = [repr(asked._endpoint), repr(asked._page), repr(seen)]
    server.say("mode 403")
    seen = [world.look(), world.look()]
    assert "refuses the token of its runtime file" in seen[-1].unknown
    assert TOKEN not in "".join([*texts, repr(seen), repr(asked)])


@pytest.mark.parametrize(
    ("mode", "words", "looks"),
    [
        ("403", "refuses the token of its runtime file", 2),
        ("302", "answers its list of kernels with status 302", 2),
        ("silent", "does not answer", 5),
        ("huge", "sends more than 64 kB", 2),
        ("stranger", "answers with something other than a list of kernels", 2),
    ],
)
def test_a_server_that_cannot_be_asked_is_unknown(world: World, start: Make, mode: str, words: str, looks: int) -> None:
    """Told with its user, never idle; it is asked more and more rarely, and again when it answers."""
    server = start()
    server.kernel()
    world.looks(3)
    server.say(f"mode {mode}")
    world.patience = 0.02 if mode == "silent" else WITHIN
    sight = world.looks(looks)
    assert words in sight.unknown
    assert "Jupyter" in sight.unknown
    assert sight.active == ()
    assert isinstance(before := server.say("requests"), list)
    for _ in range(60):
        assert words in world.look().unknown
    assert isinstance(after := server.say("requests"), list)
    assert 1 <= len(after) - len(before) <= 8
    server.say("mode list")
    world.look(300.0)
    assert world.looks(2) == Sight(seen="no kernel is busy")


def test_a_state_that_nobody_knows_is_unknown(world: World, start: Make) -> None:
    """Another version may have other words: none of them is idle."""
    server = start()
    server.kernel("python3", "computing")
    assert "does not say whether a kernel is busy" in world.looks(2).unknown


@pytest.mark.parametrize("name", ["\x1b[31m" + "x" * 200, "R\u202eevil", "python3 of root's Jupyter, not"])
def test_names_of_kernels_are_harmless(name: str) -> None:
    """A user may call his kernel anything: it is cut, and has no words about somebody else."""
    models = [{"id": "1", "name": name, "execution_state": "busy"}]
    (found,) = listed_in(Fetched(200, json.dumps(models).encode(), 1.0)).busy
    assert found.isascii()
    assert found.isprintable()
    assert " " not in found
    assert len(found) <= 32


@pytest.mark.parametrize(
    "body",
    [
        "{}", "5", "null", '"busy"', "[5]", "[[]]", "[{}]", '[{"id": 1, "name": "a"}]', '{"id": 1, "name": "a", "execution_state": "busy"}', "[" * 60_000,
        '[{"id": 1, "name": "a", "execution_state": ["busy"]}]', '[{"id": 1, "name": "a", "execution_state": null}]', '[{"id": 1, "name": "a", "execution_state": {}}]',
    ],
)  # fmt: skip
def test_a_list_of_kernels_may_be_anything(body: str) -> None:
    """A user can let his server answer what he likes: unknown, and no other user's notebook suffers."""
    with pytest.raises(PageError):
        listed_in(Fetched(200, body.encode(), 1.0))


def test_a_server_cannot_fill_the_memory_with_names(world: World) -> None:
    """Many names at once are one, and so are many over time."""
    models = [{"id": str(number), "name": f"k{number}", "execution_state": "busy"} for number in range(300)]
    assert listed_in(Fetched(200, json.dumps(models).encode(), 1.0)).busy == {"of many names"}
    sense = Jupyter({"quiet_for": 600.0}, world.place)
    for number in range(1000):
        sense._note(f"kernel k{number} of ann's Jupyter", "was busy", "without a busy cell", 5000.0, "ann")
    assert len(sense._active) == ACTIVE + 1
    assert sense._active["other kernels of ann"].what == "were busy"


def test_kernels_of_one_name_are_one_activity(world: World, start: Make) -> None:
    """Since when holds over all of them, whoever of them is busy."""
    server = start()
    server.kernel("python3#1", "busy")
    server.kernel("python3#2", "idle")
    first = world.looks(2).active[0]
    server.say("state python3#2 busy")
    server.say("state python3#1 idle")
    (one,) = world.looks(3).active
    assert (one.who, one.since) == (first.who, first.since)


def test_no_token_is_sent_to_another_users_process(world: World, start: Make) -> None:
    """A stranger on the port, as after the server has ended, would take it and be the user."""
    server = start()
    server.kernel("python3", "busy")
    header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = f"   0: 0100007F:{server.port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4444        0 1 1 0\n"
    (world.proc / "self").unlink()
    (world.proc / "self" / "net").mkdir(parents=True)
    (world.proc / "self" / "net" / "tcp").write_text(header + row)
    sight = world.looks(3)
    assert "another user's process listens on its port" in sight.unknown
    assert server.say("requests") == []
    (world.proc / "self" / "net" / "tcp").write_text(header)
    assert "it listens on no loopback address" in world.look(2 * FIRST_PAUSE).unknown or world.looks(2).unknown


def test_a_hubs_server_takes_the_token_of_its_environment(world: World, start: Make) -> None:
    """JupyterHub writes no token to the runtime file: the server's own is in its environment."""
    server = start(env={"JUPYTERHUB_API_TOKEN": "hub-token"}, token="", base="/user/ann/")
    server.kernel("python3", "busy")
    world.looks(2)
    assert isinstance(requests := server.say("requests"), list)
    assert "Authorization: token hub-token\r\n" in requests[0]


def test_an_older_notebook_has_another_file(world: World, start: Make) -> None:
    """The notebook before version 7, run by Python under its own name."""
    server = start(prefix="nbserver", comm="python3")
    server.kernel("rust", "busy")
    assert [one.what for one in world.looks(2).active] == ["was busy"]


def test_a_server_on_a_socket_is_unknown(world: World, start: Make) -> None:
    """It cannot be asked, and that is said."""
    server = start(info={"sock": "/run/jupyter.sock"})
    server.kernel()
    assert "it listens on no port" in world.looks(2).unknown


def test_a_server_that_does_not_speak_the_tls_that_it_names_is_unknown(world: World, start: Make) -> None:
    """Nothing is asked without it instead: the token would go in the clear."""
    server = start(info={"secure": True})
    server.kernel()
    assert world.looks(2).unknown
    assert TOKEN not in str(server.say("requests"))


def test_a_user_cannot_hide_another_ones_notebook(world: World, start: Make) -> None:
    """Servers of one user are asked up to a number; the others' are asked all the same, and what is not asked is unknown."""
    for number in range(SERVERS_OF_A_USER + 1):
        (pid := world.proc / str(900_000 + number)).mkdir()
        (world.proc / str(800_000 + number)).mkdir()
        for folder, parent in ((pid, 800_000 + number), (world.proc / str(800_000 + number), 1)):
            (folder / "stat").write_text(
                f"{folder.name} (python3) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0"
            )
            os.chown(folder, 777 if ROOT else -1, -1)
        (pid / "cmdline").write_bytes(b"python3\0-f\0/nowhere/kernel-1.json\0")
    if ROOT:
        start().kernel("python3", "busy")
    sight = world.looks(5)
    assert "has more Jupyter servers than costguard asks" in sight.unknown
    assert len(sight.active) == (1 if ROOT else 0)


def test_the_servers_of_a_crowd_are_found_a_few_at_each_look(world: World) -> None:
    """For each a process is started: as many as may be at once, and no more."""
    for pid in range(4000, 4006):
        alone(world, 0, pid=pid)
        (above := world.proc / str(pid + 1000)).mkdir()
        (above / "stat").write_text(f"{pid + 1000} (jupyter) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0")
        stat = world.proc / str(pid) / "stat"
        stat.write_text(stat.read_text().replace(" S 1 1 1", f" S {pid + 1000} 1 1"))
    world.processes.look(world.now)
    world.sense.look(Moment(world.now, 0.0), world.processes)
    assert len(world.sense.filenos()) == FOUND_AT_ONCE
    world.sense.look(Moment(world.now + 1.0, 0.0), world.processes)
    assert sum(server.looked or bool(server.filenos()) for server in world.sense._servers.values()) == 6


# ---- kernels without a server ------------------------------------------------------------------


def alone(world: World, cpu_ticks: int, name: str = "python3", pid: int = 4000) -> None:
    """A kernel that an editor has started: no server is above it."""
    folder = world.proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "cmdline").write_bytes(b"/usr/bin/python3\0-m\0ipykernel_launcher\0--f=/run/kernel-v2-1.json\0")
    (folder / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {cpu_ticks} 0 0 0 20 0 1 0 77 0 0")


def test_a_process_that_becomes_a_kernel_is_found_though_its_name_stays(world: World) -> None:
    """Between fork and exec it has its parent's arguments."""
    alone(world, 0)
    (world.proc / "4000" / "cmdline").write_bytes(b"/usr/bin/python3\0-m\0jupyterlab\0")
    assert world.look() == Sight(seen="no kernel runs")
    alone(world, 0)
    assert world.look().seen != "no kernel runs"


def test_a_kernel_without_a_server_is_judged_by_its_cpu(world: World) -> None:
    """An editor's kernel that computes holds; idle ones use less than a hundredth of a core."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = 100
    alone(world, used)
    world.looks(2)
    for _ in range(60):
        used += round(0.01 * STEP * ticks)
        alone(world, used)
        assert world.look() == Sight(seen="no kernel is busy")
    used += round(0.5 * STEP * ticks)
    alone(world, used)
    (one,) = world.look().active
    assert one.who.startswith("kernel python3 of ")
    assert one.what == "used the CPU"
    assert world.look().active == ()


def test_where_no_process_above_is_a_server_none_is_looked_for_again_soon(world: World) -> None:
    """A program that runs a notebook by itself: a process is started to find that out, and another one after minutes."""
    above = world.proc / "3999"
    above.mkdir()
    (above / "cmdline").write_bytes(b"/usr/bin/python3\0papermill\0")
    (above / "environ").write_bytes(b"HOME=/nowhere\0")
    (above / "root").symlink_to("/")
    (above / "stat").write_text("3999 (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 70 0 0")
    (above / "status").write_text("Name:\tpython3\nNSpid:\t3999\n")
    alone(world, 100)
    stat = world.proc / "4000" / "stat"
    stat.write_text(stat.read_text().replace(" S 1 ", " S 3999 "))
    assert world.look().unknown == NOT_YET
    assert world.look() == Sight(seen="no kernel is busy")
    begun, started = world.now, []
    while world.now < begun + 2 * LONGEST_PAUSE:
        world.now += STEP
        world.processes.look(world.now)
        world.sense.look(Moment(world.now, 0.0), world.processes)
        if world.sense.filenos():
            started.append(world.now - begun)
            settle(world.sense, lambda: world.sense.go_on(Moment(world.now, 0.0)), world.wait)
    assert len(started) == 2
    assert LONGEST_PAUSE - 2 * STEP <= started[0] <= LONGEST_PAUSE + STEP
    assert LONGEST_PAUSE <= started[1] - started[0] <= LONGEST_PAUSE + 2 * STEP


def test_a_kernel_that_has_loaded_pytorch_is_judged_by_its_cpu_as_well(world: World) -> None:
    """PyTorch gives its process another name."""
    ticks = os.sysconf("SC_CLK_TCK")
    for used in (100, 100, 100 + round(0.5 * STEP * ticks)):
        alone(world, used, "pt_main_thread")
        sight = world.look()
    assert [one.what for one in sight.active] == ["used the CPU"]


def test_kernels_that_end_leave_nothing_behind(world: World) -> None:
    """The others are judged as before, and after the last one no server is remembered."""
    for pid in (4000, 4001):
        alone(world, 100, pid=pid)
    assert world.looks(2) == Sight(seen="no kernel is busy")
    for pid, seen in ((4000, "no kernel is busy"), (4001, "no kernel runs")):
        shutil.rmtree(world.proc / str(pid))
        assert world.looks(2) == Sight(seen=seen)
    assert world.sense._servers == {}


def test_a_kernel_of_which_nothing_can_be_understood_has_used_nothing(world: World) -> None:
    """It may end in the midst of a look."""
    alone(world, 100)
    world.looks(2)
    (world.proc / "4000/stat").write_text("4000 (python3) S\n")
    assert world.sense.look(Moment(world.now + STEP, 0.0), world.processes) == Sight(seen="no kernel is busy")


def shown_as(world: World, server: Notebook, pid: int, seconds: float) -> None:
    """A kernel of the server, which has used so much of the CPU."""
    folder = world.proc / str(pid)
    folder.mkdir(exist_ok=True)
    os.chown(folder, OTHER, -1)
    (folder / "cmdline").write_bytes(Path(f"/proc/{pid}/cmdline").read_bytes())
    ticks, above = round(seconds * os.sysconf("SC_CLK_TCK")), server.process.pid
    (folder / "stat").write_text(f"{pid} (python3) S {above} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0")


def test_a_server_that_cannot_be_asked_leaves_the_cpu_to_judge_by(world: World, start: Make) -> None:
    """Unknown stays unknown, and what is seen all the same is said."""
    server = start(info={"sock": "/run/jupyter.sock"})
    pid = int(str(server.say("kernel python3 idle")))
    shown_as(world, server, pid, 1.0)
    assert world.looks(3).active == ()
    shown_as(world, server, pid, 9.0)
    sight = world.look()
    assert [one.what for one in sight.active] == ["used the CPU"]
    assert "it listens on no port" in sight.unknown


def test_a_kernel_that_its_server_does_not_list_is_judged_by_its_cpu(world: World, start: Make) -> None:
    """Papermill in a terminal of Jupyter has a kernel below the server, of which the server knows nothing."""
    server = start()
    pid = int(str(server.say("kernel python3 idle")))
    shown_as(world, server, pid, 1.0)
    world.looks(3)
    shown_as(world, server, pid, 9.0)
    assert world.look() == Sight(seen="no kernel is busy")
    server.say("forget python3")
    world.looks(2)
    shown_as(world, server, pid, 17.0)
    sight = world.look()
    assert [one.what for one in sight.active] == ["used the CPU"]
    assert sight.unknown == ""


# ---- the runtime file ------------------------------------------------------------------


def runtime_file(folder: Path, **changed: object) -> Path:
    info = {"pid": os.getpid(), "port": 8888, "token": "abc", "base_url": "/", "secure": False, "sock": ""}
    path = folder / f"jpserver-{os.getpid()}.json"
    path.write_text(json.dumps(info | changed))
    return path


def job(folder: Path) -> RuntimeJob:
    return RuntimeJob("/proc", str(folder), (os.getpid(),), os.getuid())


def test_the_file_of_a_server(tmp_path: Path) -> None:
    """Port, path and token; neither the host nor the scheme of its address."""
    runtime_file(tmp_path, url="http://8.8.8.8/", hostname="8.8.8.8", base_url="/user/ann")
    found = find(job(tmp_path))
    assert (found.error, found.pid, found.port, found.base, found.token) == ("", os.getpid(), 8888, "/user/ann/", "abc")


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": 1}, {"port": 0}, {"port": "8888"}, {"port": 65536}, {"token": "a\r\nHost: x"}, {"token": 5},
        {"base_url": "/a b/"}, {"base_url": "/\r\nX: y"}, {"base_url": 7}, {"token": "x" * 1025}, {"base_url": "/" * 257},
        {"port": None}, {"port": -1}, {"pid": None}, {"token": "caf\xe9"}, {"base_url": "/\x7f"}, {"token": ["a"]},
    ],
)  # fmt: skip
def test_what_is_no_file_of_a_server(tmp_path: Path, changed: dict[str, object]) -> None:
    """Another process's, a nonsensical one, or one that would change the request."""
    runtime_file(tmp_path, **changed)
    assert find(job(tmp_path)).error == "its runtime file is not valid"


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", "[" * 50_000, '{"port": 8888}', '"pid"'])
def test_what_is_no_json_of_a_server(tmp_path: Path, text: str) -> None:
    """Half a file, as it may be while it is written."""
    runtime_file(tmp_path).write_text(text)
    assert find(job(tmp_path)) == RuntimeFound("its runtime file is not valid")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"port": 1}, {"port": 1}), ({"port": 65535}, {"port": 65535}), ({"token": "x" * 1024}, {"token": "x" * 1024}),
        ({"token": ""}, {"token": ""}), ({"token": None}, {"token": ""}), ({"token": "!~"}, {"token": "!~"}),
        ({"base_url": f"/{'b' * 255}"}, {"base": f"/{'b' * 255}/"}), ({"base_url": "/user/ann/"}, {"base": "/user/ann/"}),
        ({"base_url": "user"}, {"base": "/user/"}), ({"base_url": ""}, {"base": "/"}), ({"secure": True}, {"secure": True}),
    ],
)  # fmt: skip
def test_what_a_file_of_a_server_may_say(tmp_path: Path, changed: dict[str, object], said: dict[str, Any]) -> None:
    """Up to its limits."""
    runtime_file(tmp_path, **changed)
    plain = RuntimeFound("", os.getpid(), 8888, "/", "abc", secure=False)
    assert find(job(tmp_path)) == plain._replace(**said)


def test_a_number_may_be_a_text(tmp_path: Path) -> None:
    """That of the process alone."""
    runtime_file(tmp_path, pid=str(os.getpid()))
    assert find(job(tmp_path)).pid == os.getpid()


def test_a_server_that_listens_on_no_port_is_none_to_ask(tmp_path: Path) -> None:
    """Whatever else its file says."""
    runtime_file(tmp_path, sock="/run/jupyter.sock", port=0)
    assert find(job(tmp_path)) == RuntimeFound(pid=os.getpid(), sock=True)


def test_an_old_notebook_has_a_file_of_another_name(tmp_path: Path) -> None:
    """The new one's comes first."""
    path = runtime_file(tmp_path, token="old")
    path.rename(tmp_path / f"nbserver-{os.getpid()}.json")
    assert find(job(tmp_path)).token == "old"
    runtime_file(tmp_path, token="new")
    assert find(job(tmp_path)).token == "new"


def test_tricks_with_the_path(tmp_path: Path) -> None:
    """Another user's file, a pipe, a device, a folder: none of them is opened for reading."""
    path = runtime_file(tmp_path)
    path.unlink()
    assert find(job(tmp_path)) == find(job(tmp_path / "nowhere"))
    os.mkfifo(path)
    assert "it is not a file of that user" in find(job(tmp_path)).error
    path.unlink()
    for target in ("/dev/zero", "/proc/1/stat", "/etc", str(tmp_path)):
        path.symlink_to(target)
        assert find(job(tmp_path)).error
        path.unlink()
    other = job(tmp_path)._replace(uid=os.getuid() + 1)
    runtime_file(tmp_path)
    if os.geteuid() != 0:
        assert "it is not a file of that user" in find(other).error


@pytest.mark.skipif(not ROOT, reason="only root's agent becomes another user")
def test_nothing_is_read_that_the_servers_user_could_not_reach(world: World, start: Make, short_path: Path) -> None:
    """Nor what root's group alone may: its groups are given up, too."""
    start().kernel("python3", "busy")
    short_path.chmod(0o710)
    assert world.looks(2).unknown.endswith("its runtime file cannot be read (Permission denied)")


def test_where_a_server_writes_its_file() -> None:
    """By its environment, as jupyter_core has it."""
    assert folders({"HOME": "/people/ann"}) == ["/people/ann/.local/share/jupyter/runtime"]
    assert folders({"JUPYTER_RUNTIME_DIR": "/r", "HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7"})[0] == "/r"
    assert "/data/jupyter/runtime" in folders({"XDG_DATA_HOME": "/data", "HOME": "/h"})
    assert folders({"HOME": "relative"}) == []
    everything = {
        "JUPYTER_RUNTIME_DIR": "/r",
        "JUPYTER_DATA_DIR": "/d",
        "XDG_DATA_HOME": "/x",
        "XDG_RUNTIME_DIR": "/run/7",
    }
    assert folders({**everything, "HOME": "/h"}) == ["/r", "/d/runtime", "/x/jupyter/runtime", "/run/7/jupyter"]
    assert folders(dict.fromkeys((*everything, "HOME"), "")) == []
    assert folders({}) == []


def test_a_file_of_another_user_is_no_servers_file(short_path: Path) -> None:
    """Who owns it decides, whoever may read it: a link in a user's folder could lead anywhere."""
    short_path.chmod(0o755)
    path = runtime_file(short_path, token="stolen")
    path.chmod(0o644)
    uid = OTHER if os.geteuid() != OTHER else os.geteuid() + 1
    errand = Errand("notebook", job(short_path)._replace(uid=uid), RuntimeFound, 0.0, WITHIN)
    while (found := errand.look(0.0)) is None:
        select.select([errand.fileno()], [], [], WITHIN)
    assert found.error == "its runtime file cannot be read (it is not a file of that user)"
    assert "stolen" not in str(found)
