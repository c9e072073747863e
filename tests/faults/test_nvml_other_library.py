"""The reader on a second stand-in library with other habits: a very old one, a very new one, and one with next to nothing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from costguard.testing.nvml import ReaderProcess, write_sysfs
from tests.faults.nvml_world import KEYS, Answer, Inner, loads, running, settle, take_library, words
from tests.libraries import Libraries

KINDS = ("OLD", "NEW", "BARE")
IDLE, WORKING, ENCODING, LOST = "0 0 70000 0 0", "90 0 500000 2 0", "0 40 75000 1 0", "0 0 70000 0 15"


class Others:
    """Makes one for each test."""

    def __init__(self, folder: Path, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.folder, self.libraries, self.monkeypatch, self.stack = folder, libraries, monkeypatch, stack

    def __call__(self, kind: str, *more: str) -> "Other":
        made = Other(self, kind, *more)
        running.append(made)
        self.stack.callback(running.clear)
        return made


class Other:
    """Two GPUs of the other library, on a bus where it can tell their addresses, and a time of its own."""

    def __init__(self, given: Others, kind: str, *more: str) -> None:
        self.kind, self._given, self._seconds = kind, given, 1000.0
        self._state = given.folder / "other"
        self.library = given.libraries.other_nvml(kind, *more)
        self.environment = {"OTHER_NVML": str(self._state), "LD_LIBRARY_PATH": str(self.library.parent)}
        take_library(self.library, self.environment, given.monkeypatch)
        self.pass_over(0.0)
        self.keys = ["index:0", "index:1"] if kind == "BARE" else KEYS
        self.sysfs = write_sysfs(given.folder / "sys", [] if kind == "BARE" or more else KEYS)
        self.devfs = given.folder / "dev"
        self.gpus(IDLE, IDLE)

    def pass_over(self, seconds: float) -> None:
        self._seconds += seconds
        self._given.monkeypatch.setenv("OTHER_NVML_SECONDS", str(self._seconds))

    def boottime(self) -> float:
        return self._seconds

    def gpus(self, *lines: str) -> None:
        partial = self._state.with_suffix(".new")
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.replace(self._state)

    def reader(self, known: Sequence[str] = ()) -> Inner:
        made = Inner(self.sysfs, self.devfs, self, {"counters": None, "known": known, "learnt": None})
        self._given.stack.callback(made.reader.detach)
        return made


@pytest.fixture
def others(tmp_path: Path, libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> Iterator[Others]:
    with ExitStack() as stack:
        yield Others(tmp_path, libraries, monkeypatch, stack)


@pytest.fixture(params=KINDS)
def other(others: Others, request: pytest.FixtureRequest) -> Other:
    return others(request.param)


def keys(answer: Answer) -> list[str]:
    return [row[0] for row in answer["gpus"]]


def test_work_and_idleness_are_told_apart(other: Other) -> None:
    """Each GPU has one place, and its own use, whatever the library lacks."""
    reader = other.reader()
    assert loads(reader.read()) == [0, 0]
    other.gpus(IDLE, WORKING)
    settle(0.3)
    answer = reader.read()
    assert keys(answer) == other.keys
    assert loads(answer) == [0, 0.9]
    other.gpus(IDLE, IDLE)
    found = []
    for _ in range(25):  # its ring holds four seconds, and it gives all of them again and again
        settle(0.25)
        found.append(loads(reader.read()))
    assert found[-1] == [0, 0]


def test_encoding_is_load(other: Other) -> None:
    """Where the library has encoders."""
    if other.kind == "BARE":
        other.gpus(IDLE, WORKING)
        assert loads(other.reader().read()) == [0, 0.9]
        return
    other.gpus(IDLE, ENCODING)
    assert loads(other.reader().read()) == [0, 0.4]


@pytest.mark.parametrize("code", [3, 13, 15, 17, 25, 26, 999, 4242])
def test_a_gpu_that_fails_from_the_start_and_comes_back(other: Other, code: int) -> None:
    """It keeps one place and one name from its failure to its recovery, also across a fresh process."""
    other.gpus(IDLE, f"90 0 500000 2 {code}")
    reader = other.reader()
    answer = reader.read()
    assert loads(answer) == [0, None]
    assert f"NVML {code}" in words(answer, 1)
    other.gpus(IDLE, WORKING)
    found = [reader.read() for _ in range(5)]
    assert loads(found[-1]) == [0, 0.9]
    assert {tuple(keys(one)) for one in found} == {tuple(keys(answer))}
    fresh = other.reader(known=keys(answer)).read()
    assert keys(fresh) == keys(answer)
    assert loads(fresh) == [0, 0.9]


def test_a_lost_gpu_is_unknown_and_known_again(other: Other) -> None:
    """In flight, and back under the same handle or another one."""
    reader = other.reader()
    reader.read()
    other.gpus(IDLE, LOST)
    assert [loads(reader.read()) for _ in range(4)] == [[0, None]] * 4
    other.gpus(IDLE, WORKING)
    assert loads(reader.read()) == [0, 0.9]


def test_a_gpu_that_the_driver_does_not_list_any_more_is_unknown(other: Other) -> None:
    """In flight and for a fresh process that knows the names of the earlier one."""
    reader = other.reader()
    reader.read()
    other.gpus(IDLE)
    assert loads(reader.read()) == [0, None]
    assert loads(other.reader(known=other.keys).read()) == [0, None]


def test_a_gpu_that_appears_is_seen_at_the_next_look(other: Other) -> None:
    """The driver lists one more: with a look at the devices it has its place at once."""
    reader = other.reader()
    reader.read()
    other.gpus(IDLE, IDLE, WORKING)
    assert len(reader.read()["gpus"]) == 2
    answer = reader.read(look=True)
    assert loads(answer) == [0, 0, 0.9]


def test_gpus_that_tell_the_same_address_are_two(others: Others) -> None:
    """One must not stand for both: the second one is known by its place in the list, and its work is seen."""
    other = others("NEW", "ALIKE")
    other.gpus(IDLE, WORKING)
    answer = other.reader().read()
    assert (keys(answer), loads(answer)) == ([KEYS[0], "index:1"], [0, 0.9])


def test_a_gpu_without_a_name_keeps_its_place_when_it_gets_one(others: Others, tmp_path: Path) -> None:
    """No bus tells its address and it cannot be opened: its place in the list is its name for the rest of the boot."""
    other = others("NEW")
    other.sysfs = write_sysfs(tmp_path / "empty", [])
    other.gpus(IDLE, LOST)
    reader = other.reader()
    answer = reader.read()
    assert (keys(answer), loads(answer)) == ([KEYS[0], "index:1"], [0, None])
    other.gpus(IDLE, WORKING)
    for again in ([reader.read() for _ in range(5)][-1], other.reader(known=keys(answer)).read()):
        assert (keys(again), loads(again)) == (keys(answer), [0, 0.9])


def test_what_a_library_prints_is_no_answer(other: Other) -> None:
    """It goes where errors go; the guard hears the reader alone."""
    other.gpus(IDLE, WORKING)
    with ReaderProcess(other.environment, sysfs=other.sysfs, devfs=other.devfs) as reader:
        assert loads(reader.read()) == [0, 0.9]
