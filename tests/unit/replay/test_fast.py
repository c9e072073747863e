"""The fast reader gives what the standard one gives."""

import random
from pathlib import Path

import pytest

from costguard.replay.formats.arrow import read_fast
from costguard.replay.formats.files import read
from costguard.replay.formats.source import Source
from costguard.replay.formats.table import Options
from costguard.replay.levels import Levels
from costguard.replay.run import walk
from costguard.replay.trace import Recording
from tests.unit.replay.made import ROOMY

HEADS = ("timestamp, index, utilization.gpu [%]", "timestamp, uuid, utilization.gpu [%], memory.used [MiB]", "")


def log(seed: int, *, gpus: int, ticks: int, head: str) -> str:
    dice = random.Random(seed)
    lines = [head] if head else []
    for tick in range(ticks):
        minute, second = divmod(10 * tick, 60)
        busy = tick % 200 < 90
        for gpu in range(gpus):
            load = "[N/A]" if dice.random() < 0.001 else f"{dice.randint(60, 100) if busy else dice.randint(0, 3)} %"
            key = f"GPU-{gpu}" if "uuid" in head else str(gpu)
            time = (
                f"2026/01/{1 + minute // 1440:02}/".rstrip("/")
                + f" {minute // 60 % 24:02}:{minute % 60:02}:{second:02}.{gpu:03}"
            )
            lines.append(f"{time}, {key}, {load}" + (", 7 MiB" if "memory" in head else ""))
    return "\n".join(lines) + "\n"


def same(one: Recording, other: Recording) -> None:
    assert one.rows == other.rows
    for a, b in zip(one.traces, other.traces, strict=True):
        assert (a.name, a.devices, a.times, a.interval) == (b.name, b.devices, b.times, b.interval)
        assert all(a.column(i) == b.column(i) for i in range(len(a.devices)))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("gpus", [1, 8])
def test_equal_traces_and_decisions(tmp_path: Path, head: str, gpus: int) -> None:
    """Times, GPUs, readings and every decision are the same, and the library really read it."""
    file = tmp_path / "log.csv"
    file.write_text(log(gpus, gpus=gpus, ticks=1500, head=head))
    standard, fast = read(str(file), reader="standard"), read(str(file), reader="fast")
    same(fast, standard)
    one, other = (walk(Levels(found.traces[0]), ROOMY).decisions for found in (standard, fast))
    assert one == other
    assert "stop" in [decision.kind for decision in one]
    with file.open("rb") as raw:
        assert read_fast(Source(str(file), raw, file.stat().st_size), Options()) is not None


@pytest.mark.parametrize("gone", [5, 700, 1501])
def test_what_is_out_of_rhythm_is_read_by_the_standard_reader(tmp_path: Path, gone: int) -> None:
    """A row that is missing anywhere changes nothing about the result being the same."""
    lines = log(1, gpus=3, ticks=600, head=HEADS[0]).splitlines(keepends=True)
    file = tmp_path / "log.csv"
    file.write_text("".join(lines[:gone] + lines[gone + 1 :]))
    same(read(str(file), reader="fast"), read(str(file), reader="standard"))
