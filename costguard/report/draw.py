"""Draw a timeline: what lies where, in pixels, since no library's axes know narrow screens and local midnight."""

from collections.abc import Iterable, Sequence

from costguard.engine.words import percent, several
from costguard.report import bands, times
from costguard.report.bands import Band
from costguard.report.canvas import TEXT, Box, Canvas, cut, wide
from costguard.report.palette import Palette
from costguard.report.timeline import Lane, Timeline

TITLE = 13.5
LINE = 16.0
MARGIN = 10.0
STRIP = 18.0
GAP = 5.0
HOLD_ROWS = 3
BANDS_NAMED = 40
"""How many of a row get a name, the latest first: no screen has room for more."""

SWATCH = 18.0
LEAST_SHARE = 0.15
"""The least height of a mark of unknown time, as a share of its lane: even a moment must be visible."""

STROKE = 1.4
"""Width of the line on top of a load, so that a load of zero is visible too."""

NAME_LONGEST = 150.0
"""Width of the words beside a band, at most."""

LANE_HEIGHTS = ((1, 110.0), (2, 80.0), (4, 54.0), (8, 36.0))
LANE_LOWEST = 24.0

WORDS = {
    bands.COUNTDOWN: "countdown",
    bands.REQUESTED: "requested",
    bands.ACTED: "action done",
    bands.WOULD: "would have acted (dry run)",
    bands.STUCK: "failed, or not possible",
    bands.HOLD: "held",
    bands.OFF: "machine off",
}
ON_TOP = (
    bands.OFF, bands.HOLD, bands.COUNTDOWN, bands.WOULD, bands.REQUESTED, bands.ACTED, bands.STUCK,
)  # fmt: skip
"""The order of drawing: where marks overlap, the graver one stays visible."""

HATCHES = {
    bands.COUNTDOWN: "////",
    bands.REQUESTED: "",
    bands.ACTED: "oo",
    bands.WOULD: "....",
    bands.STUCK: "xxxx",
    bands.HOLD: "\\\\\\\\",
    bands.OFF: "----",
}
UNKNOWN_HATCH = "xxxx"
MISSING_HATCH = ".."


def picture(timeline: Timeline, width: float, palette: Palette) -> Canvas:
    """The picture for ``width`` pixels of a screen."""
    return TimelineDrawing(timeline, width, palette).canvas


class TimelineDrawing:
    """One picture, on a ``canvas``."""

    def __init__(self, timeline: Timeline, width: float, palette: Palette) -> None:
        self.timeline, self.width, self.palette = timeline, width, palette
        names = [*(_short(lane.label) for lane in timeline.lanes), "machine", "decision", "hold"]
        self._left = MARGIN + max(map(wide, names)) + GAP
        self._right = width - MARGIN - wide("100 %") - GAP
        self.end = max([timeline.until, *(band.due for band in timeline.bands if band.due)])
        self._legend = self._flow(self._entries())
        self.canvas = Canvas(width, self._rows(), palette.paper, palette.ink)
        self._draw()

    def _rows(self) -> float:
        """The height of everything; sets where each row lies."""
        count = len(self.timeline.lanes)
        self._lane = next((height for most, height in LANE_HEIGHTS if count <= most), LANE_LOWEST)
        self._held = _stacked([(band, self._extent(band)) for band in self.timeline.bands if band.kind == bands.HOLD])
        self._holds = (STRIP + GAP) * len(self._held)
        self._machine = STRIP + GAP if self.timeline.shares else 0.0
        head = MARGIN + TITLE + GAP + LINE * len(self._subtitle()) + GAP
        strips = self._machine + STRIP + GAP + self._holds
        lanes = max(1, count) * (self._lane + GAP)
        foot = 2 * LINE + GAP + LINE * len(self._legend) + MARGIN
        return head + strips + lanes + foot

    def _x(self, wall: float) -> float:
        share = (wall - self.timeline.since) / (self.end - self.timeline.since)
        return self._left + (self._right - self._left) * min(1.0, max(0.0, share))

    def _draw(self) -> None:
        top, room = self.canvas.height - MARGIN, self.width - 2 * MARGIN
        title = cut(self.timeline.machine or "this machine", room, TITLE, bold=True)
        self.canvas.text(MARGIN, top - TITLE, title, TITLE, bold=True)
        top -= TITLE + GAP
        for line in self._subtitle():
            self.canvas.text(MARGIN, top - TEXT - 1.0, cut(line, room), colour=self.palette.muted)
            top -= LINE
        top -= GAP
        foot = self._strips(top)
        self._axis(foot, top)
        self._legend_rows(foot - 2 * LINE - GAP)

    def _strips(self, top: float) -> float:
        """The machine, decisions, holds and the lanes, from the top down; where they end."""
        if self._machine:
            self._shares(top - STRIP)
            top -= self._machine
        self._strip("decision", top - STRIP, STRIP, [band for band in self.timeline.bands if band.kind != bands.HOLD])
        top -= STRIP + GAP
        for held in self._held:
            self._strip("hold", top - STRIP, STRIP, held)
            top -= STRIP + GAP
        if not self.timeline.lanes:
            self.canvas.area(Box(self._left, top - self._lane, self._right, top), self.palette.lane)
            words = cut("no GPU was recorded in this time", self._right - self._left - 2 * GAP)
            self.canvas.text(self._left + GAP, top - self._lane / 2.0 - TEXT / 2.0, words, colour=self.palette.muted)
            top -= self._lane + GAP
        for number, lane in enumerate(self.timeline.lanes):
            self._gpu(lane, top - self._lane)
            if number == 0:
                self.canvas.text(self._right + GAP, top - TEXT + 1.0, "100 %", colour=self.palette.muted)
            top -= self._lane + GAP
        return top + GAP

    def _shares(self, bottom: float) -> None:
        """What the machine counted as, from the ground up: work, quiet, unknown."""
        self.canvas.text(MARGIN, bottom + (STRIP - TEXT) / 2.0 + 1.0, "machine", colour=self.palette.muted)
        parts: tuple[list[Box], ...] = ([], [], [])
        for share in self.timeline.shares:
            seconds, at = (share.works, share.quiet, share.unknown), bottom
            for boxes, value in zip(parts, seconds, strict=True):
                high = STRIP * value / (sum(seconds) or 1.0)
                boxes.append(Box(self._x(share.begin), at, self._x(share.end), at + high))
                at += high
        works, quiet, unknown = parts
        self.canvas.areas(works, self.palette.muted)
        self.canvas.areas(quiet, self.palette.grid)
        self.canvas.areas(unknown, self.palette.lane, UNKNOWN_HATCH, self.palette.unknown)

    def _strip(self, name: str, bottom: float, height: float, found: Sequence[Band]) -> None:
        self.canvas.text(MARGIN, bottom + (height - TEXT) / 2.0 + 1.0, name, colour=self.palette.muted)
        self.canvas.area(Box(self._left, bottom, self._right, bottom + height), self.palette.lane)
        boxes = [self._place(band) for band in found]
        for kind in sorted({band.kind for band in found}, key=ON_TOP.index):
            alike = [
                Box(left, bottom, right, bottom + height)
                for band, (left, right) in zip(found, boxes, strict=True)
                if band.kind == kind
            ]
            self.canvas.areas(alike, getattr(self.palette, kind), HATCHES[kind])
        free = _between(boxes, self._left, self._right)
        for number, band in list(enumerate(found))[: -BANDS_NAMED - 1 : -1]:
            self._name_band(band, number, boxes, free, bottom + (height - TEXT) / 2.0 + 1.0)

    def _place(self, band: Band) -> tuple[float, float]:
        """From where to where a band goes: a countdown that runs to where it would end, and none is too short to be seen."""
        last = band.due if band.due is not None and band.end >= self.timeline.until else band.end
        left, right = self._x(band.begin), self._x(last)
        right = min(self._right, max(right, left + 3.0))
        return max(self._left, min(left, right - 3.0)), right

    def _extent(self, band: Band) -> tuple[float, float]:
        """From where to where a band goes with its words: on it, or else beside it."""
        left, right = self._place(band)
        room = wide(cut(band.words, NAME_LONGEST)) + 2 * GAP
        if right - left >= room + 2 * GAP:
            return left, right
        return (left - room, right) if left - room >= self._left else (left, right + room)

    def _name_band(
        self, band: Band, number: int, boxes: list[tuple[float, float]], free: list[tuple[float, float]], bottom: float
    ) -> None:
        """Its words on it, or else beside it, where they fit; takes that from what is ``free``."""
        words = cut(band.words, NAME_LONGEST)
        room = wide(words) + 2 * GAP
        left, right = boxes[number]
        alone = all(end <= left or begin >= right for other, (begin, end) in enumerate(boxes) if other != number)
        if alone and right - left >= room + 2 * GAP:
            self.canvas.area(Box(left + GAP, bottom - 1.0, left + GAP + room, bottom + TEXT + 1.0), self.palette.paper)
            self.canvas.text(left + 2 * GAP, bottom, words)
            return
        if band.kind == bands.OFF:  # beside it the machine was on, or nobody knows; the legend has it, too
            return
        for place, (begin, end) in enumerate(free):
            if abs(end - left) < 1.0 and end - begin >= room:
                self.canvas.text(end - room + GAP, bottom, words)
                free[place] = (begin, end - room)
                return
            if abs(begin - right) < 1.0 and end - begin >= room:
                self.canvas.text(begin + GAP, bottom, words)
                free[place] = (begin + room, end)
                return

    def _gpu(self, lane: Lane, bottom: float) -> None:
        """One GPU: its mean as an area, its peaks behind it, unknown as a hatched share of the height."""
        height, palette = self._lane, self.palette
        self.canvas.text(MARGIN, bottom + (height - TEXT) / 2.0 + 1.0, _short(lane.label))
        self.canvas.area(Box(self._left, bottom, self._right, bottom + height), palette.lane)
        missing = [Box(self._x(begin), bottom, self._x(end), bottom + height) for begin, end in self.timeline.missing]
        self.canvas.areas(missing, palette.paper, MISSING_HATCH, palette.muted)
        off = [band for band in self.timeline.bands if band.kind == bands.OFF]
        gone = [Box(self._x(band.begin), bottom, self._x(band.end), bottom + height) for band in off]
        self.canvas.areas(gone, palette.lane, "--", palette.off)
        self._loads(lane, bottom)
        self._unknown(lane, bottom)
        if self.timeline.threshold is not None:
            y = bottom + height * min(1.0, self.timeline.threshold)
            self.canvas.line([(self._left, y), (self._right, y)], palette.limit, 1.0, dashed=True)

    def _loads(self, lane: Lane, bottom: float) -> None:
        for run in _runs(lane):
            for of, colour in ((4, self.palette.peak), (3, self.palette.load)):
                points = [
                    (self._x(x), bottom + round(self._lane * (lane.slots[number][of] or 0.0), 1))
                    for number in run
                    for x in self.timeline.slot(number)
                ]
                points = _straight(points)
                self.canvas.ground(points, bottom, colour)
                if of == 3:
                    self.canvas.line([(x, y + STROKE / 2.0) for x, y in points], colour, STROKE)

    def _unknown(self, lane: Lane, bottom: float) -> None:
        """Hanging from above: so much of the time of a slot could not be read."""
        top, found = bottom + self._lane, []
        for begin, end, share in _unknown_runs(lane):
            left, right = self._x(self.timeline.slot(begin)[0]), self._x(self.timeline.slot(end)[1])
            found.append(Box(left, top - self._lane * max(LEAST_SHARE, share), max(right, left + 1.5), top))
        self.canvas.areas(found, self.palette.lane, UNKNOWN_HATCH, self.palette.unknown)

    def _axis(self, foot: float, top: float) -> None:
        palette, width = self.palette, self._right - self._left
        self.canvas.line([(self._left, foot), (self._right, foot)], palette.muted, 1.0)
        step, ticks = times.ticks(self.timeline.since, self.end, max(2, int(width // 58)))
        before, days = -1.0, -1.0
        for wall in ticks:
            x = self._x(wall)
            label = times.day(wall) if step >= times.DAY else times.hour(wall)
            half = wide(label) / 2.0
            left = min(max(x - half, MARGIN), self.width - MARGIN - 2 * half)
            if left > before:  # a mark without its label says nothing
                self.canvas.line([(x, foot), (x, foot - 4.0)], palette.muted, 1.0)
                self.canvas.text(left, foot - LINE, label, colour=palette.muted)
                before = left + 2 * half + GAP
            if step < times.DAY and (days < 0.0 or times.midnight(wall)):
                days = self._day(wall, x, foot, days)
        self._moments(foot, top)

    def _day(self, wall: float, x: float, foot: float, taken: float) -> float:
        label = times.day(wall)
        left = min(max(x - wide(label) / 2.0, MARGIN), self.width - MARGIN - wide(label))
        if left <= taken:
            return taken
        self.canvas.text(left, foot - 2 * LINE, label, colour=self.palette.muted)
        return left + wide(label) + GAP

    def _moments(self, foot: float, top: float) -> None:
        """Across everything: when a countdown that runs now would end, and now itself."""
        if self.end > self.timeline.until:
            x = self._x(self.timeline.until)
            self.canvas.veil(Box(x, foot, self._right, top), self.palette.countdown)
            self.canvas.line([(x, foot), (x, top)], self.palette.ink, 1.0)

    def _subtitle(self) -> list[str]:
        timeline = self.timeline
        lines = [times.period(timeline.since, timeline.until)]
        models = list(dict.fromkeys(lane.label.partition("(")[2].rstrip(")") for lane in timeline.lanes))
        count = several(len(timeline.lanes), "GPU")
        if timeline.left_out:
            count = f"{len(timeline.lanes)} of {len(timeline.lanes) + timeline.left_out} GPUs, the busiest"
        named = [model for model in models if model]
        if timeline.lanes:
            lines.append(f"{count}: {', '.join(named)}" if named else count)
        return lines

    def _entries(self) -> list[tuple[str, str]]:
        """What the legend explains: nothing that is not there."""
        timeline = self.timeline
        there = {band.kind for band in timeline.bands}
        entries = []
        if any(slot.mean is not None for lane in timeline.lanes for slot in lane.slots):
            entries += [("load", "mean load"), ("peak", "peaks")]
        if timeline.threshold is not None and timeline.lanes:
            entries.append(("limit", f"idle below {percent(timeline.threshold)}"))
        if any(share.works for share in timeline.shares):
            entries.append(("muted", "a GPU works"))
        if any(share.quiet for share in timeline.shares):
            entries.append(("grid", "all quiet"))
        if any(slot.unknown > 0.0 for lane in timeline.lanes for slot in lane.slots):
            entries.append(("unknown", "unknown (could not be read)"))
        if timeline.missing and timeline.lanes:
            entries.append(("missing", "not recorded"))
        if self.end > timeline.until:
            entries.append(("now", "now"))
        return entries + [(kind, WORDS[kind]) for kind in WORDS if kind in there]

    def _flow(self, entries: Sequence[tuple[str, str]]) -> list[list[tuple[float, str, str]]]:
        """The entries in lines, each with its place."""
        lines: list[list[tuple[float, str, str]]] = []
        x = self.width
        for kind, words in entries:
            room = SWATCH + GAP + wide(words) + 2 * GAP
            if x + room > self.width - MARGIN:
                lines.append([])
                x = MARGIN
            lines[-1].append((x, kind, words))
            x += room
        return lines

    def _legend_rows(self, top: float) -> None:
        for number, line in enumerate(self._legend):
            bottom = top - LINE * (number + 1) + 3.0
            for x, kind, words in line:
                self._swatch(kind, x, bottom)
                self.canvas.text(x + SWATCH + GAP, bottom, words)

    def _swatch(self, kind: str, x: float, bottom: float) -> None:
        palette = self.palette
        top = bottom + TEXT - 1.0
        if kind == "limit":
            self.canvas.line(
                [(x, bottom + TEXT / 2.0), (x + SWATCH, bottom + TEXT / 2.0)], palette.limit, 1.3, dashed=True
            )
        elif kind == "now":
            self.canvas.line([(x + SWATCH / 2.0, bottom), (x + SWATCH / 2.0, top)], palette.ink, 1.0)
        elif kind == "unknown":
            self.canvas.area(Box(x, bottom, x + SWATCH, top), palette.lane, UNKNOWN_HATCH, palette.unknown)
        elif kind == "missing":
            self.canvas.area(Box(x, bottom, x + SWATCH, top), palette.paper, MISSING_HATCH, palette.muted)
        else:
            self.canvas.area(Box(x, bottom, x + SWATCH, top), getattr(palette, kind), HATCHES.get(kind, ""))


def _between(boxes: Iterable[tuple[float, float]], left: float, right: float) -> list[tuple[float, float]]:
    """What the boxes leave free of a stretch."""
    free, at = [], left
    for begin, end in sorted(boxes):
        if begin > at:
            free.append((at, begin))
        at = max(at, end)
    return [*free, (at, right)] if right > at else free


def _stacked(found: Iterable[tuple[Band, tuple[float, float]]]) -> list[list[Band]]:
    """In rows, by the room that each takes from left to right: none covers another's name; the last row takes what is too much."""
    rows: list[list[Band]] = []
    ends: list[float] = []
    for band, (left, right) in found:
        row = next((number for number, end in enumerate(ends) if end <= left), len(rows))
        if row == HOLD_ROWS:
            row -= 1
        elif row == len(rows):
            rows.append([])
            ends.append(right)
        rows[row].append(band)
        ends[row] = max(ends[row], right)
    return rows


def _runs(lane: Lane) -> Iterable[range]:
    """The stretches of slots that have a load: nothing is drawn, nor joined, across one that has none."""
    begin: int | None = None
    for number, slot in enumerate(lane.slots):
        if slot.mean is not None and begin is None:
            begin = number
        elif slot.mean is None and begin is not None:
            yield range(begin, number)
            begin = None
    if begin is not None:
        yield range(begin, len(lane.slots))


def _unknown_runs(lane: Lane) -> list[tuple[int, int, float]]:
    """The stretches of slots with the same share of unknown time: first, last, share."""
    found: list[tuple[int, int, float]] = []
    for number, slot in enumerate(lane.slots):
        share = round(slot.unknown_share, 2)
        if not slot.unknown > 0.0:
            continue
        if found and found[-1][1] == number - 1 and found[-1][2] == share:
            found[-1] = (found[-1][0], number, share)
        else:
            found.append((number, number, share))
    return found


def _straight(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the points in the middle of a level stretch."""
    last = len(points) - 1
    return [
        point
        for number, point in enumerate(points)
        if number in {0, last} or not points[number - 1][1] == point[1] == points[number + 1][1]
    ]


def _short(label: str) -> str:
    """``GPU 3``; of a GPU without a number the end of its address."""
    short = label.partition(" (")[0]
    return short if len(short) <= 8 else f"…{short[-7:]}"
