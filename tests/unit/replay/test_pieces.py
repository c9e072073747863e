"""What is worked out once for a whole piece of a file is what its rows say, wherever the file was cut."""

import io
import random
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.replay.formats.source import Source
from costguard.replay.formats.table import Options, Table
from costguard.replay.trace import FEW, Recording, Steps, TraceError, steps_of

HEADER = "session,ts_utc,max_gpu_util_floor_pct\n"


def rows(seed: int) -> list[str]:
    """Sessions of one to forty samples; now and then a hole, or one that comes too early."""
    dice = random.Random(seed)
    found = []
    for session in range(dice.randint(1, 6)):
        at = 1_700_000_000
        for _ in range(dice.choice([1, 2, 3, 40])):
            at += dice.choice([900, 900, 900, 904, dice.choice([1200, 6000, -1000])])
            found.append(f"s{session},{at},{dice.choice([0, 0, 40, 100])}\n")
    return found


def read(pieces: Sequence[str]) -> Recording | str:
    table = Table(Source("fleet.csv", io.BytesIO(), 0), Options())
    try:
        for piece in pieces:
            table.take(piece, last=piece is pieces[-1])
        return table.finish()
    except TraceError as error:
        return str(error)


def read_out(pieces: Sequence[str]) -> object:
    """Everything that was read, but for the numbers that stand for the readings."""
    found = read(pieces)
    if isinstance(found, str):
        return found
    traces = [(trace.name, trace.devices, trace.times, trace.steps, trace.column(0)) for trace in found.traces]
    return found.rows, found.notes, traces


@given(seed=st.integers(0, 10**9), size=st.integers(1, 50))
def test_the_cuts_make_no_difference(seed: int, size: int) -> None:
    """Rows, order and steps of every machine are the same, and the steps are those of its times."""
    lines = [HEADER, *rows(seed)]
    cut = ["".join(lines[k : k + size]) for k in range(0, len(lines), size)]
    assert read_out(cut) == read_out(["".join(lines)])
    whole = read(cut)
    if isinstance(whole, Recording):
        for trace in whole.traces:
            assert trace.steps == by_hand(trace.times)
            assert trace.steps.least >= 0.0


def by_hand(times: Sequence[float]) -> Steps:
    steps = [after - before for before, after in pairwise(times)]
    usual = median([step for step in steps if step > 0] or [0.0])
    return Steps(round(usual, 3), min(steps, default=0.0), max(steps, default=0.0))


@given(st.lists(st.sampled_from([-5.0, 0.0, 0.5, 10.0, 10.25, 900.0]), max_size=60), st.sampled_from([1, FEW]))
def test_steps_are_those_between_neighbours(steps: list[float], times_over: int) -> None:
    """The usual one is the median of those above 0, in short recordings and in long ones."""
    times = array("d", accumulate(steps * times_over, initial=1_700_000_000.0))
    assert steps_of(times) == by_hand(times)


@pytest.mark.parametrize("text", ["s1,1700000000,0\ns1,s1,1700000900,0,x\n", "s1,1700000000,0,x,s1\n1700000900,0,x\n"])
def test_rows_that_are_whole_only_together_are_named(text: str) -> None:
    """One row is too short and the next one too long: together they have as many cells as two."""
    found = read([HEADER.replace("\n", ",remark\n") + text])
    assert isinstance(found, str)
    assert ":2: " in found


def test_a_header_that_comes_again_is_no_row_in_any_piece() -> None:
    """Also where it stands twice in a row."""
    lines = rows(1)
    often = [HEADER, *[HEADER + HEADER + line + HEADER for line in lines]]
    assert isinstance(read(often), Recording)
    assert read_out(often) == read_out([HEADER, *lines])
