"""Whichever way a recording is read and decided on, the answer is the same."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costguard.replay.formats.arrow import read_fast
from costguard.replay.formats.source import CHUNK, Source
from costguard.replay.formats.table import Options, read_table
from costguard.replay.levels import Levels
from costguard.replay.run import walk
from costguard.replay.summary import account
from costguard.replay.trace import Recording, TraceError
from tests.unit.replay.made import any_policy
from tests.unit.replay.tables import any_table, plain_table


def source(content: bytes) -> Source:
    return Source("log.csv", io.BufferedReader(io.BytesIO(content)), len(content))


def standard(content: bytes) -> Recording | str:
    """What the standard reader makes of it: a recording, or the words of its error."""
    try:
        return read_table(source(content), Options())
    except TraceError as error:
        return str(error)


def same(one: Recording, other: Recording) -> None:
    assert (one.rows, sorted(one.notes)) == (other.rows, sorted(other.notes))
    for a, b in zip(one.traces, other.traces, strict=True):
        assert (a.name, a.devices, a.times, a.steps) == (b.name, b.devices, b.times, b.steps)
        assert [a.column(i) for i in range(len(a.devices))] == [b.column(i) for i in range(len(b.devices))]


def compared(seed: int, sizes: tuple[int, int]) -> bool:
    """Hold both readers and every way to decide against each other; whether the fast reader did its part."""
    content = any_table(seed)
    wanted, found = standard(content), read_fast(source(content), Options(), sizes=sizes)
    if found is not None:
        assert isinstance(wanted, Recording), wanted
        same(found, wanted)
    if isinstance(wanted, Recording):
        (trace,) = wanted.traces
        (other,) = found.traces if found is not None else wanted.traces
        policy = any_policy(seed)
        levels, fast = Levels(trace), Levels(other)
        each, few, faster = walk(levels, policy, every_sample=True), walk(levels, policy), walk(fast, policy)
        assert few.decisions == each.decisions
        assert faster.decisions == each.decisions
        assert account(fast, faster) == account(levels, few) == account(levels, each)
    return found is not None


@given(seed=st.integers(0, 10**9), small=st.booleans())
@example(seed=14091331, small=True)  # a wrong time of a GPU in the middle of its tick
@example(seed=2000292, small=False)  # rows that become short
@example(seed=7002384, small=False)  # every row has a comma in quotes
@example(seed=332, small=False)  # a wrong cell of an encoder
def test_readers_and_ways_to_decide(seed: int, small: bool) -> None:
    """Random tables under random policies: standard or fast reader, every sample or few of them."""
    compared(seed, (8192, 500) if small else (CHUNK, 1 << 20))


@pytest.mark.parametrize("seed", range(24))
def test_what_is_in_order_is_read_fast(seed: int) -> None:
    """Every format of times, with and without header and index, several engines, packed, cut off: no slow path."""
    content = plain_table(seed)
    found = read_fast(source(content), Options(), sizes=(8192, 500))
    wanted = standard(content)
    assert isinstance(wanted, Recording)
    assert found is not None
    same(found, wanted)
