"""The view that stays on a terminal, at the sizes that terminals have."""

import io
from typing import Any

import pytest
from rich.console import Console

from costguard.cli.watch_view import screenful
from tests.unit.cli.test_status_view import NOW, report

HINT = "updated every 2 s · Ctrl-C ends this view, not the agent"
HOLDS = [
    {"owner": owner, "reason": "a run", "until": NOW + 3600.0, "granted": NOW, "uid": uid}
    for owner, uid in (("ann", 1001), ("bob", 1002))
]


def gpus(count: int) -> list[dict[str, Any]]:
    """All of them idle, with evidence that takes four lines of a small screen."""
    evidence = "GPU peak 0 % in 6 samples, mean 70 W, 0 compute processes, 0 MiB in use, nothing over NVLink or PCIe"
    one = {**report()["gpus"][0], "words": evidence}
    return [{**one, "key": str(number), "label": f"GPU {number} (NVIDIA H100 80GB HBM3)"} for number in range(count)]


def shown(width: int, height: int, above: str = "", **changes: Any) -> list[str]:
    """The lines of the screen."""
    screen = Console(file=io.StringIO(), width=width, height=height)
    with screen.capture() as capture:
        screen.print(screenful(report(**changes), screen, HINT, above))
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 20), (60, 12), (200, 60)])
def test_it_never_takes_more_lines_than_there_are_and_says_what_is_missing(width: int, height: int) -> None:
    """Eight GPUs and two holds on any terminal: its last line is there, and a cut is named."""
    found = shown(width, height, gpus=gpus(8), holds=HOLDS)
    assert len(found) <= height
    assert found[-1].startswith("updated every")
    assert all(len(line.rstrip()) <= width for line in found)
    whole = shown(width, 500, gpus=gpus(8), holds=HOLDS)
    assert len(whole) <= height or any("costguard status" in line or "GPUs 0 to 7" in line for line in found)


def test_the_usual_terminal_shows_who_holds_and_what_would_stop_it() -> None:
    """80 columns, 24 lines, 8 GPUs that are alike: one line for them leaves room for what matters."""
    found = "\n".join(shown(80, 24, gpus=gpus(8), holds=HOLDS))
    for words in ("GPUs 0 to 7", "ann", "bob", "Would stop it"):
        assert words in found, found


def test_sixteen_busy_gpus_leave_room_for_who_decides() -> None:
    """Of those that are alike one line says so, also where it is said what keeps the machine up."""
    busy = [{**gpu, "state": "works", "load": 0.9} for gpu in gpus(16)]
    lost = {**gpus(1)[0], "label": "GPU 16 (x)", "state": "unknown", "load": None}
    found = "\n".join(line.rstrip() for line in shown(80, 24, gpus=[*busy, lost]))
    assert "Keeps it up    GPUs 0 to 15 are busy\n               GPU 16 cannot be read" in found
    assert "Who decides" in found


def test_what_forbids_the_stop_is_shown_on_a_small_screen() -> None:
    """*See Plans* where no plans are shown sends people nowhere."""
    denied = {"action": "stop", "verdict": "refuse", "findings": [["denied", "the right is missing", "ask for it"]]}
    found = "\n".join(shown(80, 24, gpus=gpus(16), plans=[denied]))
    assert "see Plans" in found
    assert "the right is missing" in found
    allowed = "\n".join(shown(80, 24, gpus=gpus(16), plans=[{**denied, "verdict": "go", "findings": []}]))
    assert "Plans" not in allowed


def test_gpus_that_differ_have_their_own_lines() -> None:
    """The one that works is not lost among the others."""
    busy = {**gpus(8)[3], "state": "works", "load": 0.97}
    found = "\n".join(shown(80, 24, gpus=[*gpus(3), busy, *gpus(8)[4:]]))
    assert "GPUs 0 to 2 and 4 to 7" in found
    assert "GPU 3 (NVIDIA H100 80GB HBM3)" in found
    assert "97 %" in found


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30)])
def test_sixty_four_gpus_of_which_no_two_are_alike_are_all_there(width: int, height: int) -> None:
    """Each has a load and a time of its own: one line for a state, with the least and the highest load, and what matters stays in sight."""
    every = gpus(64)
    for number, gpu in enumerate(every):
        state = "works" if number % 3 else "quiet"
        gpu |= {"state": state, "load": number / 64.0 if number % 3 else 0.0, "since": NOW - 60.0 * number}
    found = "\n".join(line.rstrip() for line in shown(width, height, gpus=every))
    for words in ("GPU", "busy", "2 % to 97 %", "quiet", "Keeps it up", "Would stop it", "Who decides"):
        assert words in found, found


def test_that_nobody_answers_stands_on_top() -> None:
    """However small the terminal is."""
    assert shown(80, 10, "NO ANSWER: it is gone\n", gpus=gpus(8))[0].startswith("NO ANSWER")
