"""Recorded senses are replayed: what each of them prevented, right and wrong."""

from pathlib import Path

import pytest

from costguard.engine import Policy, Veto
from costguard.engine.observation import Device, Known
from costguard.replay.compare import compare
from costguard.replay.formats import files
from costguard.replay.formats.recording import Writer
from costguard.replay.formats.table import Options
from costguard.replay.levels import Levels
from costguard.replay.prevented import Prevented, prevented
from costguard.replay.run import walk
from costguard.replay.show import PolicyRun, senses
from costguard.replay.summary import account
from costguard.replay.trace import SeenFrom, Trace
from tests.unit.replay.made import ROOMY, START, restless, trace

ANN = Veto("terminals", "ann on pts/3 typed", sense=True, lets_go="30 min without input")
LOAD = Veto("traffic", "eth0 receives more than 1 MB/s", sense=True)
HOUR = 360  # samples


def story(*seen: tuple[int, tuple[Veto, ...]], ends: bool = False) -> Trace:
    """An hour of work, three of rest, an hour of work unless that was all."""
    loads = [0.9] * HOUR + [0.0] * 3 * HOUR + [0.0 if ends else 0.9] * HOUR
    return trace(loads)._replace(vetoes=tuple(SeenFrom(START + 10.0 * k, vetoes) for k, vetoes in seen))


def of(made: Trace, policy: Policy = ROOMY) -> dict[str, Prevented]:
    levels = Levels(made)
    stops = account(levels, walk(levels, policy)).stops
    return {one.sense: one for one in prevented(levels, policy, stops)}


def test_a_stop_after_which_work_came_back_was_prevented_rightly() -> None:
    """Ann was there all the time until a GPU worked again; the traffic was of no account."""
    found = of(story((300, (ANN,)), (700, (ANN, LOAD)), (800, (ANN,)), (4 * HOUR + 10, ())))
    assert found == {"terminals": Prevented("terminals", 1, 0, 0.0), "traffic": Prevented("traffic", 0, 0, 0.0)}


def test_a_stop_that_came_later_all_the_same_was_put_off_for_nothing_that_a_gpu_showed() -> None:
    """For so many hours."""
    found = of(story((300, (ANN,)), (3 * HOUR, ()), ends=True))["terminals"]
    assert (found.right, found.wrong) == (0, 1)
    assert found.hours == pytest.approx(2.0 - 0.19, abs=0.05)


def test_two_that_overlap_prevented_nothing_alone() -> None:
    """What one of them saw the other one would have held too."""
    found = of(story((300, (ANN, LOAD)), (4 * HOUR + 10, ())))
    assert all(one.right + one.wrong == 0 for one in found.values())


@pytest.mark.parametrize("seed", range(6))
def test_leaving_samples_out_decides_alike_beside_vetoes(seed: int) -> None:
    """As for GPUs alone: the quick way and each sample."""
    made = restless(seed, 1500)
    walls = [made.times[k] for k in range(0, 1500, 170)]
    vetoes = [(ANN,), (), (ANN, LOAD), (Veto("terminals", "cannot be seen", sense=True, unknown=True),), ()]
    made = made._replace(vetoes=tuple(SeenFrom(wall, vetoes[k % 5]) for k, wall in enumerate(walls)))
    for policy in (ROOMY, ROOMY._replace(kept_told_after=1200.0), ROOMY._replace(kept_at_most=900.0)):
        levels = Levels(made)
        quick, whole = walk(levels, policy), walk(levels, policy, every_sample=True)
        assert [d[:4] for d in quick.decisions] == [d[:4] for d in whole.decisions]
        assert quick.steps < whole.steps


@pytest.mark.parametrize("name", ["seen.trace", "seen.trace.gz"])
def test_what_was_seen_is_written_and_read_back(tmp_path: Path, name: str) -> None:
    """When it changes, and never else; a recording without senses reads as ever."""
    path = tmp_path / name
    writer = Writer(str(path), START, 10.0)
    writer.meet([Device("gpu0", 0)])
    for k in range(12):
        writer.seen(10.0 * k, (ANN,) if 3 <= k < 7 else ())
        writer.tick(10.0 * k, [Known(0.0)])
    writer.close()
    recording = files.read_all((str(path),), Options(None, None, None), "auto", None)
    assert recording.traces[0].vetoes == (SeenFrom(START + 30.0, (ANN,)), SeenFrom(START + 70.0, ()))


def test_the_report_says_per_sense_what_it_was_worth() -> None:
    """In one line each; with the policy where there are several; nothing where no sense was recorded."""
    made = story((300, (ANN,)), (3 * HOUR, ()), ends=True)
    (found,) = compare([made], [ROOMY], lambda _share: None, read=False).values()
    (line,) = senses([PolicyRun("mine", made, *found)])
    assert line.startswith(
        "terminals: prevented 1 stop; after 0 of them a GPU worked again, and after 1 none did (1.8 h more)"
    )
    (found,) = compare([story()], [ROOMY], lambda _share: None).values()
    assert list(senses([PolicyRun("mine", story(), *found)])) == []
