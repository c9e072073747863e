"""The picture: nothing overlaps, nothing is cut, and unknown is never drawn as a load."""

import io
import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from costguard.report import bands, canvas, draw, times
from costguard.report.bands import Band
from costguard.report.palette import DARK, LIGHT, VARIABLES, Palette
from costguard.report.timeline import NOTHING, Lane, Share, Timeline, TimeSlot
from tests.unit.report.conftest import Recorded

SINCE = 1_795_000_000.0
LONG = "a-very-long-host-name-that-somebody-chose-for-a-machine.of.a.department.example.org"


def lane(number: int, slots: Sequence[TimeSlot], name: str = "NVIDIA H100 80GB HBM3") -> Lane:
    return Lane(f"k{number}", f"GPU {number} ({name})", tuple(slots))


def read(load: float) -> TimeSlot:
    return TimeSlot(60.0, 0.0, load / 2, load, min(1.0, load * 1.2))


UNKNOWN = TimeSlot(0.0, 60.0)


def timeline(slots: Sequence[TimeSlot], gpus: int = 1, *, hours: float = 6.0, **more: Any) -> Timeline:
    width = hours * 3600.0 / len(slots)
    lanes = tuple(lane(number, slots) for number in range(gpus))
    return Timeline(SINCE, SINCE + hours * 3600.0, width, more.pop("machine", "box"), lanes, **more)


def pixels(found: Timeline, palette: Palette = LIGHT, width: float = 420.0) -> "np.ndarray[Any, Any]":
    return np.asarray(Image.open(io.BytesIO(draw.picture(found, width, palette).png())).convert("RGB")).astype(int)


def near(image: "np.ndarray[Any, Any]", colour: str, within: int = 12) -> int:
    """How many pixels have a colour."""
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return int((np.abs(image - wanted).max(axis=2) <= within).sum())


BUSY = [
    Band(bands.COUNTDOWN, SINCE + 100, SINCE + 700, "stop called off"),
    Band(bands.REQUESTED, SINCE + 700, SINCE + 760, "stop requested"),
    Band(bands.ACTED, SINCE + 760, SINCE + 4000, "stop done"),
    Band(bands.WOULD, SINCE + 4000, SINCE + 6000, "dry run: terminate"),
    Band(bands.STUCK, SINCE + 7000, SINCE + 7100, "hibernate failed"),
    Band(bands.HOLD, SINCE + 300, SINCE + 9000, "uid 4242 (somebody-with-a-long-name)", "reason"),
    Band(bands.HOLD, SINCE + 9100, SINCE + 9200, "uid 0", "reason"),
    Band(bands.OFF, SINCE + 9000, SINCE + 12000, "machine off"),
    Band(bands.COUNTDOWN, SINCE + 21000, SINCE + 21600, "dry run: hibernate at 15:40", due=SINCE + 22200),
]
MIXED = [*[read(0.9)] * 20, *[UNKNOWN] * 10, *[NOTHING] * 10, *[read(0.0)] * 20]


@pytest.mark.parametrize("width", [360.0, 960.0])
def test_how_many_gpus_are_not_drawn_is_said_in_words(width: float) -> None:
    """Sixteen lanes are no machine of sixteen GPUs."""
    sheet = draw.picture(timeline(MIXED, 16, left_out=48), width, LIGHT)
    assert any("16 of 64 GPUs, the busiest" in words for words, _ in sheet.texts)


@pytest.mark.parametrize("width", [360.0, 960.0])
@pytest.mark.parametrize("gpus", [0, 1, 16])
@pytest.mark.parametrize("hours", [0.2, 6.0, 24 * 35.0, 24 * 400.0])
def test_nothing_overlaps_and_nothing_is_cut(width: float, gpus: int, hours: float) -> None:
    """Every text lies within the picture and beside every other one, by what the letters really take."""
    found = timeline(
        MIXED, gpus, hours=hours, machine=LONG, threshold=0.125, bands=tuple(BUSY), left_out=3,
        missing=((SINCE + 10000.0, SINCE + 12000.0),), shares=(Share(SINCE, SINCE + 9000.0, 3000.0, 3000.0, 3000.0),),
    )  # fmt: skip
    sheet = draw.picture(found, width, LIGHT)
    boxes = [(words, box) for words, box in sheet.texts if words.strip()]
    assert len(boxes) >= 5
    for words, box in boxes:
        assert box.left >= 0.0, words
        assert box.right <= width, words
        assert box.bottom >= 0.0, words
        assert box.top <= sheet.height, words
    for (words, box), (others, other) in combinations(boxes, 2):
        apart = (
            box.right <= other.left
            or other.right <= box.left
            or box.top <= other.bottom + 1.0
            or other.top <= box.bottom + 1.0
        )
        assert apart, f"{words!r} lies on {others!r}"


@pytest.mark.parametrize(("hours", "times_named"), [(6.0, 2), (24 * 35.0, 1)])
def test_machine_off_stands_on_that_time_alone(hours: float, times_named: int) -> None:
    """Beside it the machine ran, or nobody knows: a narrow one has its name in the legend alone."""
    off = Band(bands.OFF, SINCE + 3600.0, SINCE + 4 * 3600.0, "machine off")
    sheet = draw.picture(timeline(MIXED, hours=hours, bands=(off,)), 960.0, LIGHT)
    assert [words for words, _ in sheet.texts].count("machine off") == times_named


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_unknown_is_never_drawn_as_a_load(palette: Palette) -> None:
    """Neither as zero nor as anything: of a GPU that nobody could read there is no pixel in the colour of a load."""
    for slots in ([UNKNOWN] * 60, [NOTHING] * 60):
        image = pixels(timeline(slots), palette)
        assert near(image, palette.load) == 0
        assert near(image, palette.peak, 3) == 0
    assert near(pixels(timeline([UNKNOWN] * 60), palette), palette.unknown) > 200
    assert near(pixels(timeline([read(0.0)] * 60), palette), palette.load, 60) > 200, "a load of zero is a line"


def test_no_line_joins_what_was_read_before_and_after_an_unknown_time() -> None:
    """The columns of the unknown time, and of what nobody recorded, have no load in them."""
    image = pixels(timeline([*[read(0.5)] * 20, *[UNKNOWN] * 20, *[NOTHING] * 20, *[read(0.5)] * 20]))
    drawing = draw.TimelineDrawing(timeline(MIXED), 420.0, LIGHT)
    left, right = drawing._left, drawing._right
    columns = image[:, int(left + (right - left) * 0.27) : int(left + (right - left) * 0.73)]
    columns = columns[: int(drawing.canvas.height * 0.75)]  # above the legend
    assert near(columns, LIGHT.load) == 0


def test_a_picture_is_no_wall_of_colour_alone() -> None:
    """Each kind of time has a pattern or a name of its own beside its colour, and two that may stand side by side differ in it."""
    assert len({draw.HATCHES[kind] for kind in draw.WORDS}) == len(draw.WORDS)
    assert len(set(draw.WORDS.values())) == len(draw.WORDS)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_what_is_written_can_be_read(palette: Palette) -> None:
    """Letters stand out from the paper and from the lanes, as WCAG 2 asks: 4.5 to 1; lines and areas 3 to 1."""
    for ink in (palette.ink, palette.muted):
        for paper in (palette.paper, palette.lane):
            assert contrast(ink, paper) >= 4.5
    for line in (palette.load, palette.limit, palette.unknown, palette.requested, palette.acted, palette.hold):
        assert contrast(line, palette.lane) >= 3.0


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, "contrast ratio"."""

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255.0 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else math.pow((part + 0.055) / 1.055, 2.4) for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "words", ["$x^2$", "$\\frac", "<b>&amp;", "a\x00b\x1b[31m\n", "日本語", "\ud800", "\u202eevil", "_" * 500]
)
def test_foreign_text_is_text(words: str) -> None:
    """No formula, no markup, no letters that are lacking, no second line: it is drawn as it stands, or with question marks."""
    found = timeline(MIXED, machine=words, bands=(Band(bands.HOLD, SINCE, SINCE + 900, words, words),))
    assert draw.picture(found, 420.0, LIGHT).png().startswith(b"\x89PNG")
    root = ET.fromstring(draw.picture(found, 420.0, VARIABLES).svg("a"))
    written = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    shown = canvas.drawable(words)
    assert any(text.startswith(shown.strip()[:3]) for text in written)


def test_the_same_history_is_the_same_picture(day: Recorded) -> None:
    """No date, no random name in it: two pictures of one page differ in their names alone."""
    found = day.timeline()
    assert draw.picture(found, 420.0, LIGHT).png() == draw.picture(found, 420.0, LIGHT).png()
    assert draw.picture(found, 420.0, VARIABLES).svg("a") == draw.picture(found, 420.0, VARIABLES).svg("a")


def holds(*stretches: tuple[float, float, str]) -> tuple[Band, ...]:
    """Holds from and to so many seconds of the day, by whom."""
    return tuple(Band(bands.HOLD, SINCE + begin, SINCE + end, name) for begin, end, name in stretches)


def rows(drawing: draw.TimelineDrawing) -> list[list[str]]:
    """Who holds, row by row."""
    return [[band.words for band in row] for row in drawing._held]


def test_two_holds_at_the_same_time_are_both_seen() -> None:
    """Each in a row of its own, with its name; the next one takes the first row that is free."""
    held = holds((0, 9000, "ann"), (6000, 12000, "bob"), (10000, 15000, "cy"))
    drawing = draw.TimelineDrawing(timeline(MIXED, bands=held), 960.0, LIGHT)
    assert rows(drawing) == [["ann", "cy"], ["bob"]]
    assert {"ann", "bob", "cy"} <= {words for words, _ in drawing.canvas.texts}
    crowd = tuple(held[0]._replace(words=str(number)) for number in range(40))
    assert len(rows(draw.TimelineDrawing(timeline(MIXED, bands=crowd), 960.0, LIGHT))) == draw.HOLD_ROWS


def test_holds_of_a_minute_in_a_row_are_each_seen_and_named() -> None:
    """One after the other in time, and as wide as a hair: by their times alone they would stand in one row, over each other."""
    held = holds((9000, 9010, "ann"), (9020, 9030, "bob"), (9040, 9050, "cy"))
    drawing = draw.TimelineDrawing(timeline(MIXED, bands=held), 960.0, LIGHT)
    assert rows(drawing) == [["ann"], ["bob"], ["cy"]]
    assert {"ann", "bob", "cy"} <= {words for words, _ in drawing.canvas.texts}


def test_the_machine_counts_as_the_guard_counted_it() -> None:
    """Work without load is work there: the row of the machine has its colour where no GPU has a load."""
    quiet = timeline([read(0.0)] * 60)
    works = quiet._replace(shares=(Share(SINCE, SINCE + 21600.0, 21600.0, 0.0, 0.0),))
    rests = quiet._replace(shares=(Share(SINCE, SINCE + 21600.0, 0.0, 21600.0, 0.0),))
    assert near(pixels(works), LIGHT.muted, 3) > near(pixels(rests), LIGHT.muted, 3) + 3000
    unknown = quiet._replace(shares=(Share(SINCE, SINCE + 21600.0, 0.0, 0.0, 900.0),))
    assert near(pixels(unknown), LIGHT.grid, 3) < 100, "unknown is not quiet"


def test_a_countdown_shows_when_it_ends_beyond_now() -> None:
    """The axis goes on to the moment of the stop."""
    due = Timeline(
        SINCE, SINCE + 3600, 60.0, "box", (lane(0, [read(0.0)] * 60),), bands=(BUSY[-1]._replace(due=SINCE + 4200),)
    )
    drawing = draw.TimelineDrawing(due, 420.0, LIGHT)
    assert drawing.end == SINCE + 4200
    assert "now" in {words for words, _ in drawing.canvas.texts}
    assert near(pixels(due), LIGHT.countdown, 20) > 20


def test_marks_stand_at_whole_hours_of_the_day(zone: Callable[[str], None]) -> None:
    """In local time, also on the day on which summer time ends; the name of the zone is there, both where it changes."""
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    end = 1_792_886_400.0 + 3600.0 * 12  # 2026-10-25, 12:00 UTC
    step, marks = times.ticks(end - 36 * 3600.0, end, 8)
    assert step == 21600.0
    assert next(times.hour(mark) for mark in marks if times.day(mark) == "24 Oct") in {"00:00", "06:00"}
    assert all(times.hour(mark).endswith(":00") for mark in marks)
    assert times.period(end - 36 * 3600.0, end).endswith("CEST/CET")
    _step, days = times.ticks(end - 30 * 86400.0, end, 40)
    assert {times.hour(mark) for mark in days} == {"00:00"}


def test_a_request_is_seen_however_narrow_the_picture() -> None:
    """A countdown of ten minutes in a week on a phone is a hair: its mark does not hide that of what came after it."""
    found = timeline([read(0.0)] * 60, bands=(
        Band(bands.REQUESTED, SINCE, SINCE + 10, ""),  # of the kinds it is met first
        Band(bands.COUNTDOWN, SINCE + 15000, SINCE + 15010, ""), Band(bands.REQUESTED, SINCE + 15010, SINCE + 15020, ""),
    ))  # fmt: skip
    one = found._replace(bands=found.bands[:1])
    assert near(pixels(found), LIGHT.requested, 3) > near(pixels(one), LIGHT.requested, 3) + 10
