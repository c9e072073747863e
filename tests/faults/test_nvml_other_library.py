"""The reader on a second stand-in library with other habits: a very old one, a very new one, and one with next to nothing."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from costguard.testing.nvml import ReaderProcess, write_sysfs
from tests.clock import Clock
from tests.faults.nvml_world import KEYS, Answer, loads, settle, words

pytestmark = pytest.mark.thorough

KINDS = ("OLD", "NEW", "BARE")
SOURCE = Path(__file__).parents[1] / "other_nvml.c"
IDLE, WORKING, ENCODING, LOST = "0 0 70000 0 0", "90 0 500000 2 0", "0 40 75000 1 0", "0 0 70000 0 15"


class Other:
    """Two GPUs of the other library, on a bus where it can tell their addresses."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack, *more: str) -> None:
        self.kind, self._folder, self._stack = kind, folder, stack
        library = folder / "libnvidia-ml.so.1"
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-D{kind}", *more]
        subprocess.run(["cc", *flags, f"-Wl,-soname,{library.name}", "-o", library, SOURCE], check=True)
        self._state = folder / "other"
        self.keys = ["index:0", "index:1"] if kind == "BARE" else KEYS
        self.sysfs = write_sysfs(folder / "sys", [] if kind == "BARE" or more else KEYS)
        self.gpus(IDLE, IDLE)

    def gpus(self, *lines: str) -> None:
        partial = self._state.with_suffix(".new")
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.replace(self._state)

    def reader(self, known: Sequence[str] = ()) -> ReaderProcess:
        environment = {"LD_LIBRARY_PATH": str(self._folder), "OTHER_NVML": str(self._state)}
        made = ReaderProcess(environment, sysfs=self.sysfs, devfs=self._folder / "dev", known=known)
        return self._stack.enter_context(made)


@pytest.fixture(params=KINDS)
def other(tmp_path: Path, request: pytest.FixtureRequest, own_time: Clock) -> Iterator[Other]:
    with ExitStack() as stack:
        yield Other(tmp_path, request.param, stack)


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
    answer = reader.ask({"read": 7, "look": True})
    assert loads(answer) == [0, 0, 0.9]


def test_gpus_that_tell_the_same_address_are_two(tmp_path: Path) -> None:
    """One must not stand for both: the second one is known by its place in the list, and its work is seen."""
    with ExitStack() as stack:
        other = Other(tmp_path, "NEW", stack, "-DALIKE")
        other.gpus(IDLE, WORKING)
        answer = other.reader().read()
        assert (keys(answer), loads(answer)) == ([KEYS[0], "index:1"], [0, 0.9])


def test_a_gpu_without_a_name_keeps_its_place_when_it_gets_one(tmp_path: Path) -> None:
    """No bus tells its address and it cannot be opened: its place in the list is its name for the rest of the boot."""
    with ExitStack() as stack:
        other = Other(tmp_path, "NEW", stack)
        empty = write_sysfs(tmp_path / "empty", [])
        other.sysfs = empty
        other.gpus(IDLE, LOST)
        reader = other.reader()
        answer = reader.read()
        assert (keys(answer), loads(answer)) == ([KEYS[0], "index:1"], [0, None])
        other.gpus(IDLE, WORKING)
        for again in ([reader.read() for _ in range(5)][-1], other.reader(known=keys(answer)).read()):
            assert (keys(again), loads(again)) == (keys(answer), [0, 0.9])
