"""Every function that the reader calls fails with every code, at the start and in flight: what holds for all of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costguard.clocks import boot_clock
from costguard.readers.nvml.reader import Reader
from costguard.testing.nvml import Process, Script, Values, write_sysfs
from tests.faults.nvml_world import KEYS, TICK, Answer, take_library

pytestmark = pytest.mark.thorough

CODES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 25, 26, 27, 28, 29, 30, 999, 12345)
PATIENCE = 31
"""Reads after the end of a fault, within which the GPU must be known again."""

BUSY: dict[str, Values] = {
    "kernels": {"util": 90, "power": 600, "memory_used": 60_000, "processes": [Process(42, 60_000, sm=90)]},
    "encoder": {"util": 0, "encoder": 40},
    "decoder": {"util": 0, "decoder": 40},
    "activity": {"gpm": True, "gpm_metrics": {2: 60.0, 5: 20.0, 10: 30.0}, "util": 60},
}
SYSTEM = {"nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}


class Bench:
    """Two GPUs and readers of our own time, in this process."""

    def __init__(self, folder: Path, script: Script, log: Path) -> None:
        self.script, self.log = script, log
        self.sysfs, self.devfs = str(write_sysfs(folder / "sys", KEYS)), str(folder / "dev")
        self.now = boot_clock()

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        made = Reader(self.sysfs, self.devfs)
        try:
            yield made
        finally:
            self.script.heal()
            made.detach()

    def read(self, reader: Reader) -> Answer:
        self.now += TICK
        return reader.read(0, self.now)

    def known_again(self, reader: Reader) -> bool:
        """Whether both GPUs are known before long, if need be in a fresh process."""
        return any(reader.failed or None not in [row[1] for row in self.read(reader)["gpus"]] for _ in range(PATIENCE))

    def functions(self) -> list[str]:
        """Which functions a reader calls, with whatever a GPU can have and with as little."""
        counters = {197: 0.0, 198: 0.0, 138: 0.0}
        for values in (
            Values(gpm=True, gpm_metrics={2: 0.0, 5: 0.0, 10: 0.0}, processes=[Process(1)]),
            Values(gpm=False, counters=counters, ring_dry=True),
            Values(util="na", mig=1, gpm=True, instances={1: {2: 0.0}}),
        ):
            self.script.set(**values)
            with self.reader() as reader:
                for _ in range(3):
                    self.read(reader)
        names = {line.split()[2] for line in self.log.read_text().splitlines()}
        self.script.set(gpm=False, gpm_metrics={}, counters={}, ring_dry=False, util=0, mig="na", instances={})
        self.script.set(processes=[])
        return sorted(names - SYSTEM)


@pytest.fixture
def bench(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    script = Script(tmp_path / "gpus", gpus=2, ring_dry=False)
    take_library(library, script.environment(library, tmp_path / "calls"), monkeypatch)
    return Bench(tmp_path, script, tmp_path / "calls")


def shows_work(row: list[object]) -> bool:
    """Unknown, or load, or a sign of work: not idle."""
    return row[1] is None or bool(row[1]) or bool(row[2])


def quiet_although_busy(bench: Bench, kind: str) -> list[tuple[str, int, str]]:
    """Where a working GPU reads as idle while a function fails in flight, or stays unknown when it fails no more."""
    wrong = []
    names = bench.functions()
    bench.script.set(0, **BUSY[kind])
    for name in names:
        for code in CODES:
            with bench.reader() as reader:
                bench.read(reader)
                bench.script.fail(name, code, gpu=0)
                rows = [bench.read(reader)["gpus"] for _ in range(8)]
                if not all(shows_work(gpus[0]) for gpus in rows):
                    wrong.append((name, code, "reads as idle"))
                if any(len(gpus) != 2 for gpus in rows):
                    wrong.append((name, code, "is not in its place"))
                bench.script.heal()
                if not bench.known_again(reader):
                    wrong.append((name, code, "stays unknown"))
    return wrong


@pytest.mark.parametrize("kind", BUSY)
def test_work_never_reads_as_idle_while_a_call_fails_in_flight(bench: Bench, kind: str) -> None:
    """Whichever function fails, with whatever code: a working GPU shows work or is unknown, and is known afterwards."""
    assert quiet_although_busy(bench, kind) == []


def test_one_gpu_that_fails_from_the_start_is_known_when_it_ends(bench: Bench) -> None:
    """It is in its place at once and once only, unknown or judged by the rest; the other one is known all along."""
    wrong = []
    for name in bench.functions():
        for code in CODES:
            bench.script.fail(name, code, gpu=0)
            with bench.reader() as reader:
                for _ in range(5):
                    gpus = bench.read(reader)["gpus"]
                    if [row[0] for row in gpus] != KEYS or (gpus[1][1] is None and not reader.failed):
                        wrong.append((name, code, gpus))
                bench.script.heal()
                if not bench.known_again(reader):
                    wrong.append((name, code, "stays unknown"))
    assert wrong == []


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_an_engine_is_asked_again_when_it_was_missing_for_a_while(bench: Bench, kind: str) -> None:
    """A driver that says *not supported* while it is sick does not hide an engine for ever."""
    bench.script.fail(f"nvmlDeviceGet{kind.capitalize()}Utilization", 3)
    with bench.reader() as reader:
        assert [row[1] for row in bench.read(reader)["gpus"]] == [0, 0]
        bench.script.heal()
        bench.script.set(0, **BUSY[kind])
        loads = [bench.read(reader)["gpus"][0][1] for _ in range(8)]
    assert loads[-1] == 0.4
