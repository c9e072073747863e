"""Who is on a GPU: our own work, somebody else, nobody, or nobody knows."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costguard.engine.observation import Known, Reading, Unknown
from costguard.fill.jobs import WatchRules
from costguard.fill.tenants import Held, Tenant, Tenants, held_by, judge
from costguard.tree import processes
from costguard.tree.processes import find

PRESENCE = WatchRules(1.0, "processes", 0.05, (), 0.0, ())
LOAD = PRESENCE._replace(by="load")
REST, WORK = Known(0.0, (), 1.0, "0 %"), Known(0.4, (), 1.0, "40 %")

KINDS = {1: Tenant("own", "a"), 2: Tenant("ignored", "b"), 3: Tenant("foreign", "c"), 4: Tenant("unknown", "d")}


def known(pid: int) -> Tenant:
    return KINDS[pid]


@pytest.mark.parametrize(
    ("pids", "state", "why"),
    [
        ((), "free", ""),
        ((1, 2), "free", ""),
        ((1, 3), "taken", "c"),
        ((1, 4), "unknown", "d"),
        ((3, 4), "taken", "c"),
    ],
)
def test_by_presence_whoever_is_there_is_somebody(pids: tuple[int, ...], state: str, why: str) -> None:
    """Whatever the GPU does; who is known to be somebody else counts before who is not known."""
    for reading in (REST, WORK, Unknown("no load")):
        assert judge(Held(pids, None, ""), reading, PRESENCE, known) == (state, why)


@pytest.mark.parametrize(
    ("pids", "users", "reading", "state"),
    [
        ((), (), REST, "free"),
        ((3,), (), REST, "free"),  # who only holds it
        ((3,), (3,), WORK, "taken"),
        ((), (), WORK, "taken"),  # nobody is listed, and something works
        ((3,), (), REST._replace(signs=("power",)), "taken"),
        ((3,), (), Unknown("lost"), "unknown"),
        ((1, 3), (1,), WORK, "free"),  # the load is our own
        ((1, 3), (1, 3), WORK, "taken"),
        ((1, 4), (4,), WORK, "unknown"),
        ((1, 3), None, WORK, "unknown"),  # nobody says whose it is
        ((1, 2), None, WORK, "free"),
        ((1,), (3,), WORK, "free"),  # who used it is gone
    ],
)
def test_by_load_whoever_uses_it_is_somebody(
    pids: tuple[int, ...], users: tuple[int, ...] | None, reading: Reading, state: str
) -> None:
    """The load decides while our own work is not there, the use by process while it is."""
    held = Held(pids, None if users is None else frozenset(users), "")
    assert judge(held, reading, LOAD, known)[0] == state


@pytest.mark.parametrize("look", [PRESENCE, LOAD])
def test_lists_that_are_not_given_are_unknown(look: WatchRules) -> None:
    """For the reason that the reader gives."""
    assert judge(Held(None, None, "no permission"), REST, look, known) == ("unknown", "no permission")


@pytest.mark.parametrize(
    "answer", [{}, {"holders": None}, {"holders": {"k": [[1]]}}, {"holders": {"k": [["x"], None, ""]}}]
)
def test_an_answer_that_makes_no_sense_is_unknown(answer: dict[str, object]) -> None:
    """And never an empty GPU."""
    assert held_by(answer, "k").pids is None


def test_an_answer_is_read() -> None:
    """Both lists."""
    assert held_by({"holders": {"k": [[3, 4], [3], ""]}}, "k") == Held((3, 4), frozenset({3}), "")


@pytest.fixture
def named() -> Iterator[Callable[[str], processes.TreeProcess]]:
    """Starts processes whose kernel name, or program, is this one."""
    started = []

    def start(name: str) -> processes.TreeProcess:
        code = f"import sys, time; open('/proc/self/comm', 'w').write({name!r}); print(flush=True); time.sleep(1000)"
        process = subprocess.Popen([name, "-S", "-c", code], executable=sys.executable, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        found = find(process.pid)
        assert found is not None
        return found

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("name", "ignore", "kind"),
    [
        ("python", (), "foreign"),
        ("python", ("python",), "ignored"),
        ("python", ("python-miner",), "foreign"),  # gpu_mon: `python-miner` must not ignore `python`
        ("python-miner", ("python",), "foreign"),
        ("nvidia-smi", (), "ignored"),
        ("Xorg", (), "ignored"),
        ("n", ("nvidia-smi",), "foreign"),
        ("a-very-long-program", ("a-very-long-program",), "ignored"),
        ("a-very-long-program", ("a-very-long-progress",), "foreign"),
        ("a-very-long-program", ("a-very-long-pro",), "ignored"),  # as the kernel shows it
    ],
)
def test_names_are_exact(
    named: Callable[[str], processes.TreeProcess], name: str, ignore: tuple[str, ...], kind: str
) -> None:
    """gpu_mon: an ignore list by exact program name; system holders are on it by themselves."""
    process = named(name)
    assert Tenants(ignore, list).known(process.pid).kind == kind


def test_the_tree_is_looked_up_thoroughly_once_for_each_stranger(named: Callable[[str], processes.TreeProcess]) -> None:
    """A member that was not followed yet is own; a stranger costs one search, not one each second."""
    mine, other = named("mine"), named("other")
    searches = []

    def search() -> list[processes.TreeProcess]:
        searches.append(1)
        return [mine]

    tenants = Tenants((), search)
    for _ in range(3):
        tenants.look([])
        assert [tenants.known(one.pid).kind for one in (mine, other)] == ["own", "foreign"]
    assert len(searches) == 3 + 1


def test_a_process_that_proc_does_not_show_is_foreign_or_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's where /proc hides those (hidepid), unknown where there is none."""
    monkeypatch.setattr(processes, "PROC", str(tmp_path))
    tenants = Tenants((), list)
    assert tenants.known(0).kind == "unknown"
    assert tenants.known(1 << 40).kind == "unknown"
    assert tenants.known(os.getpid()).kind == "unknown"
