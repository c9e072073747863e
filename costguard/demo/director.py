"""Runs the real loop on the simulated machine and passes what happens to a stage."""

import re
from collections import deque
from typing import Any, NamedTuple

from costguard.agent.loop import Loop
from costguard.agent.report import report
from costguard.demo import story
from costguard.engine.state import DONE
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.testing.simhost import Machine, SimHost, Watch, effective

COLUMN_SECONDS = 180.0
"""Virtual time in one column of the history."""

COLUMNS = 60
_PRIORITY = re.compile(r"^<\d>")


class DemoLine(NamedTuple):
    """A journal line or a message of the agent, at a date; ``kind`` is *journal* or the kind of a message."""

    wall: float
    kind: str
    text: str
    body: str = ""


class Spell(NamedTuple):
    """What was seen during one act, in seconds."""

    worked: float = 0.0
    quiet: float = 0.0
    unknown: float = 0.0
    warnings: int = 0

    @property
    def length(self) -> float:
        """All of it."""
        return self.worked + self.quiet + self.unknown


class DayAccount(NamedTuple):
    """The whole day: what was seen in each act, and when the agent would have acted."""

    spells: dict[str, Spell]
    began: float
    ended: float
    would_act: float | None

    @property
    def total(self) -> Spell:
        """All acts together."""
        spells = self.spells.values()
        sums = (sum(s.worked for s in spells), sum(s.quiet for s in spells), sum(s.unknown for s in spells))
        return Spell(*sums, warnings=sum(s.warnings for s in spells))

    @property
    def saved(self) -> float:
        """Seconds that the machine would have been off."""
        return 0.0 if self.would_act is None else self.ended - self.would_act


class Scene(NamedTuple):
    """Everything to see at one moment."""

    act: story.Act
    wall: float
    report: dict[str, Any]
    history: tuple[tuple[float | None, ...], ...]
    journal: tuple[DemoLine, ...]
    message: DemoLine | None
    would_act: float | None  # the date of the decision, once it was made


class Stage:
    """What shows it, in part or whole. ``every``: seconds between two scenes; without an end where none is drawn."""

    every = float("inf")

    def act(self, wall: float, act: story.Act) -> None:
        """An act begins."""

    def line(self, line: DemoLine) -> None:
        """A journal line or a message."""

    def draw(self, scene: Scene, shown: float) -> None:
        """Show a moment that is due ``shown`` seconds after the start; may sleep."""


class Director(Watch):
    """Watches the loop and keeps the account. ``play`` runs the whole day."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.host = SimHost(
            Machine(2, story.script(), counters=False),
            seed=1,
            start_wall=story.start_wall(),
            until=story.LENGTH + 15.0,  # includes the last look of the day
            watch=self,
        )
        self.loop: Loop | None = None
        self._act = ""
        self._spells = {act.name: Spell() for act in story.ACTS}
        self._counted = self._seen = self.host.clock().boot  # boot clock up to which it is counted, and shown
        self._phase = ("", 0.0)  # the agent's, and since when
        self._shown = 0.0  # seconds of the show, and of its last scene
        self._drawn = -1.0
        self._would_act: float | None = None
        self._journal: deque[DemoLine] = deque(maxlen=8)
        self._message: DemoLine | None = None
        self._column: list[list[float | None]] = []
        self._column_ends = 0.0
        self._history: list[deque[float | None]] = [deque(maxlen=COLUMNS), deque(maxlen=COLUMNS)]

    def play(self) -> DayAccount:
        """From boot to the next morning."""
        config = effective(kill_action=story.ACTION, price_per_hour=story.PRICE)
        self.loop = Loop(self.host, config, self.host.start())
        began = self.host.clock()
        self.loop.run()
        return DayAccount(self._spells, began.wall, self.host.clock().wall, self._would_act)

    def said(self, now: Instant, line: str) -> None:
        """A line of the journal, without the kind of a message before its sentence."""
        text = _PRIORITY.sub("", line)
        kind, colon, rest = text.partition(": ")
        entry = DemoLine(now.wall, "journal", rest if colon and kind.islower() else text)
        if not self._journal or self._journal[-1].text != entry.text:
            self._journal.append(entry)
            self.stage.line(entry)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        """A message as people get it; here it always arrives."""
        del delivered
        text = compose(message["kind"], {"machine": story.MACHINE, **message["facts"]})
        entry = DemoLine(now.wall, message["kind"], text.title, text.body)
        if message["kind"] == "warning":
            spell = self._spells[self._act]
            self._spells[self._act] = spell._replace(warnings=spell.warnings + 1)
        if message["kind"] == "would_act":
            self._would_act = now.wall
        self._message = entry
        self.stage.line(entry)

    def ticked(self, now: Instant, gpus: list[list[object]]) -> None:
        """The loads, for the history."""
        loads = [load if isinstance(load := gpu[1], float) else None for gpu in gpus]
        self._column.append(loads)
        if now.boot >= self._column_ends:
            for past, values in zip(self._history, zip(*self._column, strict=True), strict=True):
                known = [value for value in values if value is not None]
                past.append(sum(known) / len(known) if len(known) == len(values) else None)
            self._column = []
            self._column_ends = now.boot + COLUMN_SECONDS

    def turned(self, now: Instant, until: float) -> None:
        """The loop waits: count what was seen, and draw when it is time."""
        del until
        act = self.host.machine.phase(self.host.now).name
        if act != self._act:
            self._act = act
            self.stage.act(now.wall, _act(act))
        self._count()
        self._shown += (now.boot - self._seen) / self._speed(now.boot)
        self._seen = now.boot
        if self._shown - self._drawn >= self.stage.every:
            self._drawn = self._shown
            self.stage.draw(self._scene(now), self._shown)

    def _speed(self, boot: float) -> float:
        assert self.loop is not None
        phase = self.loop.last.state.core.phase
        if phase != self._phase[0]:
            self._phase = (phase, boot)
        return story.speed(self._act, phase, boot - self._phase[1])

    def _count(self) -> None:
        assert self.loop is not None
        state = self.loop.last.state
        seconds = state.at - self._counted
        if not state.gpus or seconds <= 0:
            return
        spell = self._spells[self._act]
        if any(track.unknown_since is not None for track in state.tracks):
            spell = spell._replace(unknown=spell.unknown + seconds)
        elif any(track.busy for track in state.tracks):
            spell = spell._replace(worked=spell.worked + seconds)
        else:
            spell = spell._replace(quiet=spell.quiet + seconds)
        self._spells[self._act] = spell
        self._counted = state.at

    def _scene(self, now: Instant) -> Scene:
        loop = self.loop
        assert loop is not None
        seen = report(loop.last, loop.seen, loop.policy, loop.last_wall)
        history = tuple(tuple(past) for past in self._history)
        message = self._message if seen["phase"] in {"WARNING", DONE} else None
        return Scene(_act(self._act), now.wall, seen, history, tuple(self._journal), message, self._would_act)


def _act(name: str) -> story.Act:
    return next(act for act in story.ACTS if act.name == name)
