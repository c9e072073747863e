"""A month of typical machines: nobody is told twice, nothing happens untold, and a dry run stays readable."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.notify import summary
from tests.simulation.month import DAYS, MACHINES, MONDAY, Month, lines_a_day, live
from tests.simulation.month import page as written

MONDAY_MORNINGS = 4


@pytest.fixture(scope="module", autouse=True)
def utc() -> Iterator[None]:
    """The page is read in one zone."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    patch.undo()
    time.tzset()


def every_stop_was_announced_and_told(month: Month) -> None:
    """In live mode on a channel, at least ten minutes before; in dry run what would have been done."""
    warnings = [letter for letter in month.letters if letter.kind == "warning"]
    for at in month.stops:
        assert any(600.0 <= at - letter.at <= 900.0 for letter in warnings), f"not announced: {at}"
    if month.mode == "live":
        assert all("team" in letter.channels for letter in warnings)
        told = [letter for letter in month.letters if letter.kind == "acting"]
        assert len(told) == len(month.stops)
    assert month.stops, "a month in which nothing happens proves nothing"


def nobody_is_told_twice(month: Month) -> None:
    """One message for each change of each incident."""
    seen = [(letter.kind, letter.incident, letter.text.title) for letter in month.letters if letter.incident]
    assert len(seen) == len(set(seen))


def every_countdown_has_its_end(month: Month) -> None:
    """Cancelled, acted or would have: nobody is left with a warning."""
    ends: dict[str, list[str]] = {}
    for letter in month.letters:
        ends.setdefault(letter.incident, []).append(letter.kind)
    for incident, kinds in ends.items():
        if "warning" in kinds and incident != month.letters[-1].incident:
            assert {"cancelled", "acting", "would_act"} & set(kinds), kinds


def a_dry_run_writes_a_line_a_day_at_most_in_the_median(month: Month) -> None:
    """Beside the summary of the week, which always comes while the machine is on."""
    days = lines_a_day(month, "team")
    if month.mode == "dry-run":
        assert statistics.median(days) <= 1
        assert max(days) <= 2
        assert sum(letter.kind == "summary" for letter in month.letters) == MONDAY_MORNINGS
        assert lines_a_day(month, "pager") == [0] * int(DAYS), "nobody is woken by what does not happen"
    else:
        assert max(lines_a_day(month, "pager")) == 0, "a stop that goes well wakes nobody"


def the_page_shows_every_message_of_the_channels(month: Month) -> None:
    """It is what people read."""
    text = "\n".join(written([month]))
    for letter in month.letters:
        if "team" in letter.channels:
            assert letter.text.title in text
            assert letter.text.body.splitlines()[-1] in text


@pytest.mark.thorough
@pytest.mark.timeout(580)
@pytest.mark.parametrize("mode", ["dry-run", "live"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_month_of_messages(machine: str, mode: str, tmp_path: Path) -> None:
    """Of one machine in one mode: each promise below."""
    summary.keep(str(tmp_path), MONDAY, MONDAY)
    month = live(machine, mode, tmp_path)
    every_stop_was_announced_and_told(month)
    nobody_is_told_twice(month)
    every_countdown_has_its_end(month)
    a_dry_run_writes_a_line_a_day_at_most_in_the_median(month)
    the_page_shows_every_message_of_the_channels(month)


@pytest.mark.thorough
@pytest.mark.timeout(580)
@pytest.mark.parametrize(
    ("window", "rule", "warnings"), [(1.0, "share", (20, 45)), (4.0, "share", (1, 6)), (4.0, "unbroken", (0, 0))]
)
def test_how_often_a_machine_that_serves_warns(
    window: float, rule: str, warnings: tuple[int, int], tmp_path: Path
) -> None:
    """In two weeks, without a look at its requests: what docs/from-dry-run-to-live.md says of the window."""
    summary.keep(str(tmp_path), MONDAY, MONDAY)
    month = live("serving", "live", tmp_path, days=14.0, interval=10.0, kill_duration=window * 3600.0, window_rule=rule)
    assert warnings[0] <= sum(letter.kind == "warning" for letter in month.letters) <= warnings[1]


def test_the_weeks_of_a_machine_that_is_always_watched_have_seven_days(tmp_path: Path) -> None:
    """To the second, with the money of each; the first week begins where the watching began, before the first question."""
    month = live("never used", "dry-run", tmp_path)
    first, *weeks = [letter.text for letter in month.letters if letter.kind == "summary"]
    assert ": idle 8h 44m" in first.title  # 20 seconds less
    assert first.title.endswith("(2026-03-02 00:00 UTC to 08:45 UTC)")
    assert len(weeks) == MONDAY_MORNINGS - 1
    for week in weeks:
        assert ": idle 7d" in week.title
        # once: in the title where live mode would have saved nothing
        assert f"{week.title}\n{week.body}".count("ts idle hours cost about 5376.00 USD") == 1
