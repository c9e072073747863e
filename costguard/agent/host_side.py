"""The guard's side of the host reader: what its senses see, as vetoes of the engine.

Nothing here decides. An activity is a veto; so is the unknown of a sense that is required, and that of an advisory one is told.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from costguard.agent.reader import NOT_YET, ReaderProcess, ReaderSide, Watch
from costguard.engine.observation import Veto
from costguard.host.ports import UNWATCHED, Ended, Host, Line, Report
from costguard.process.wire import MalformedError, build
from costguard.readers.host.job import HostAnswer, HostJob
from costguard.readers.host.sense import NOT_YET as NOT_YET_SEEN
from costguard.readers.host.sense import Activity, Sight

LOOKS_LEFT_OUT = 5
"""How many looks in a row may go unreported while nothing changes and no decision is near."""

LATELY_KEPT = 8
"""How many of those who stopped working are remembered."""

DAY_SECONDS = 86400.0

PLACES = ("procfs", "sysfs", "devfs")

GUARD_ONLY_SETTINGS = frozenset(("enabled", "required", "hatch"))
"""Settings of a sense that the reader need not know."""

PRESENCE = frozenset(("terminals", "ssh", "holders", "traffic", "cpu"))
"""Senses by which a machine whose GPUs cannot be read is known to be quiet, those that are switched on of them."""


class HostSide(ReaderSide):
    """One reader, while a sense is switched on. ``report`` gets the subject *host*, and *sense NAME* for each that is unknown."""

    def __init__(self, host: Host, config: Mapping[str, Any], report: Report) -> None:
        self._host, self._report = host, report
        self._senses: dict[str, Mapping[str, Any]] = {}
        self._place: dict[str, str] = {}
        self._answer_number: int | None = None
        """Number of the answer that `sights` came from; None for none."""
        self._said: Mapping[str, Any] = {}  # what each sense said last, as it came
        self._sights_said: Mapping[str, Sight] = {}  # and as a value
        self.sights: dict[str, Sight] = {}
        """What each sense that is switched on saw last."""
        self._lately: dict[tuple[str, str], Activity] = {}
        self.vetoes: tuple[Veto, ...] = ()
        """The same objects as long as they say the same."""
        self.quiet: bool | None = None
        """Whether nobody seems to use the machine; None while that is unknown."""
        self.adopt(config)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Work under this configuration: a new reader, should it have to look for other things, or elsewhere."""
        senses, place = chosen(config.get("senses", {})), config.get("host", {})
        places = {name: place[name] for name in PLACES if name in place}
        if (senses, places) == (self._senses, self._place):
            return
        self.stop()
        for subject in ("host", *(f"sense {name}" for name in self._senses)):
            self._report(subject, UNWATCHED)
        self._senses, self._place = senses, places
        self._answer_number, self.sights = None, dict.fromkeys(senses, Sight(unknown=NOT_YET))
        if senses:
            job = job_of(senses, places)
            self._reader = ReaderProcess(self._host, "host", lambda: job)
        self._judge()

    @property
    def required(self) -> tuple[str, ...]:
        """The senses whose unknown keeps the machine up."""
        return tuple([name for name, sense in self._senses.items() if sense["required"]])

    @property
    def waiting(self) -> bool:
        """Whether an answer is due that a tick should wait for, where it asked for one at once."""
        return self._reader is not None and not self._pace and self._reader.waiting

    @property
    def needs_asking(self) -> bool:
        """Whether the reader has answered, and looks no more until it is asked."""
        return self._reader is not None and self._reader.healthy and self._reader.deadline == float("inf")

    _pace = 0.0  # seconds between the looks that the last question asked for; 0: one look, and the answer at once

    def ask(self, now: float, every: float, *, calm: bool, saving: bool = False) -> None:
        """Ask; ``calm``: no decision is near, so it may look by itself, ``every`` so often, and answer when it sees another thing.

        ``saving``: the pre-stop hook works, or did a moment ago.
        """
        if self._reader is None:
            return
        calm = calm and self._answer_number is not None
        pace = every if calm else 0.0
        watch = Watch(every, now + LOOKS_LEFT_OUT * every) if calm else None
        self._reader.ask(now, watch=watch, anew=pace < self._pace, saving=saving)
        self._pace = pace
        if self._reader.child is None:  # it waits for its next start
            self._lost(self._reader.failure)

    def run(self, now: float) -> None:
        """End a reader that hangs."""
        if self._reader is not None and self._reader.late(now):
            self._lost(self._reader.failure)

    def take(self, event: Line | Ended, now: float) -> None:
        """The reader's line, or its end."""
        if self._reader is None:
            return
        if isinstance(event, Ended):
            self._reader.ended(event.code, now)
            self._lost(self._reader.failure)
            return
        line = self._reader.line(event.data, now)
        if line is None:
            if self._reader.child is None:
                self._lost(self._reader.failure)
            return
        try:
            self._hear(self._read(line), now)
        except MalformedError as error:
            self._lost(f"malformed answer from the host reader ({error})")

    def _read(self, line: Mapping[str, Any]) -> HostAnswer:
        """The answer in a line. In most ticks most senses say what they said before: that is not read anew."""
        said = line.get("senses")
        if not isinstance(said, dict):
            return build(HostAnswer, line)
        if said != self._said:
            new = {name: row for name, row in said.items() if row != self._said.get(name)}
            answer = build(HostAnswer, {**line, "senses": new})
            assert not isinstance(answer.senses, int)  # it was an object
            known = {**self._sights_said, **answer.senses}
            self._said, self._sights_said = said, {name: known[name] for name in said}
        return HostAnswer(line["read"], self._sights_said)

    def _hear(self, answer: HostAnswer, now: float) -> None:
        """Take an answer. Raises MalformedError where a sense is missing in it."""
        if isinstance(answer.senses, int):  # what it has said in that answer
            if answer.senses != self._answer_number:
                self._answer_number = None
            return
        before, self.sights = self.sights, sights_of(answer.senses, self._senses, now)
        self._note_ends(before)
        self._answer_number = answer.read
        self._report("host", None)
        self._judge()

    def _note_ends(self, before: Mapping[str, Sight]) -> None:
        """Keep who has stopped working, the last ones of them."""
        for name, sight in before.items():
            now = {one.who for one in self.sights[name].active}
            for one in sight.active:
                if one.who not in now:
                    self._lately.pop((name, one.who), None)
                    self._lately[name, one.who] = one
        while len(self._lately) > LATELY_KEPT:
            del self._lately[next(iter(self._lately))]

    def _lost(self, why: str) -> None:
        self._report("host", f"cannot tell whether anyone is at work: {why}")
        self._answer_number = None
        self.sights = {name: Sight(unknown=why) for name in self._senses}
        self._judge()

    def _judge(self) -> None:
        """The vetoes, and whether the host is quiet."""
        for name, sight in self.sights.items():
            told = sight.unknown and sight.unknown not in {NOT_YET, NOT_YET_SEEN} and "host" not in self._troubles()
            self._report(f"sense {name}", f"the sense {name} cannot see everything: {sight.unknown}" if told else None)
        found = vetoes_of(self.sights, self._senses)
        if found != self.vetoes:
            self.vetoes = found
        present = [sight for name, sight in self.sights.items() if name in PRESENCE]
        if any(sight.active for sight in present):
            self.quiet = False
        elif not present or any(sight.unknown for sight in present):
            self.quiet = None
        else:
            self.quiet = True

    @property
    def keeping(self) -> "dict[tuple[str, str], Activity]":
        """What makes vetoes, by sense and by who it is; nobody where a required sense cannot see."""
        found = {}
        for name, sight in self.sights.items():
            found.update({(name, one.who): one for one in sight.active})
            if sight.unknown and self._senses[name]["required"]:
                found[name, ""] = Activity("", blind(sight.unknown), float("inf"), float("inf"), "", "")
        return found

    def _troubles(self) -> tuple[str, ...]:
        """The reader itself is told of once, not once for each sense."""
        return () if self._reader is None or self._reader.healthy else ("host",)

    def status(self, now: float, wall: float) -> list[dict[str, Any]]:
        """Each sense that is switched on, for `status` and `doctor`; moments as dates."""
        return [
            {
                "name": name,
                "required": bool(self._senses[name]["required"]),
                "hatch": bool(self._senses[name].get("hatch")),
                "unknown": sight.unknown,
                "seen": sight.seen,
                "active": [
                    {
                        **one._asdict(),
                        "since": wall + one.since - now,
                        "last": wall + one.last - now,
                        "words": sentence(one, now),
                    }
                    for one in sight.active
                ],
            }
            for name, sight in self.sights.items()
        ]

    def lately(self, now: float) -> list[str]:
        """Who worked in the last day and does no more, the last one first: people who are warned know each other by that."""
        working = {(name, one.who) for name, sight in self.sights.items() for one in sight.active}
        ended = [one for key, one in self._lately.items() if key not in working and now - one.last < DAY_SECONDS]
        return [sentence(one._replace(lets_go=""), now) for one in reversed(ended)]

    def words(self, now: float) -> list[str]:
        """What keeps the machine up, one sentence each."""
        return [sentence(one, now) for sight in self.sights.values() for one in sight.active]


def sights_of(told: Mapping[str, Sight], names: Iterable[str], now: float) -> dict[str, Sight]:
    """What each of these senses saw, and nothing of it after now. Raises MalformedError where one is missing."""
    sights = {}
    for name in names:
        if name not in told:
            raise MalformedError(f"senses.{name} is missing")
        sight = told[name]
        if any(not one.since <= one.last <= now for one in sight.active):
            sight = sight._replace(active=tuple([_until(now, one) for one in sight.active]))
        sights[name] = sight
    return sights


def vetoes_of(sights: Mapping[str, Sight], senses: Mapping[str, Mapping[str, Any]]) -> tuple[Veto, ...]:
    """What keeps the machine up: each activity, and what a required sense cannot see."""
    found = []
    for name, sight in sights.items():
        sense = senses[name]
        notified = bool(sense.get("hatch"))
        found += [
            Veto(name, f"{one.who} {one.what}", notified, lets_go=one.lets_go, sense=True) for one in sight.active
        ]
        if sight.unknown and sense["required"]:
            found.append(Veto(name, blind(sight.unknown), unknown=True, sense=True))
    return tuple(found)


def blind(unknown: str) -> str:
    """What to say of a sense that does not see, after its name."""
    return "has not been seen yet" if unknown == NOT_YET_SEEN else f"cannot be seen: {unknown}"


def chosen(section: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The senses that are switched on, with their settings."""
    if not section.get("enabled"):
        return {}
    return {name: sense for name, sense in section.items() if isinstance(sense, dict) and sense["enabled"]}


def job_of(senses: Mapping[str, Mapping[str, Any]], places: Mapping[str, str]) -> HostJob:
    """What the reader is to look for, with the settings of each sense itself, and where."""
    own = {
        name: {key: value for key, value in sense.items() if key not in GUARD_ONLY_SETTINGS}
        for name, sense in senses.items()
    }
    return HostJob(own, **places)


def _until(now: float, one: Activity) -> Activity:
    last = min(one.last, now)
    return one._replace(since=min(one.since, last), last=last)


def sentence(activity: Activity, now: float) -> str:
    """Who, what, how long ago, since when; and what would end it."""
    since, last, lets_go = activity.since, activity.last, activity.lets_go
    ago = f" {_about(now - last)} ago" if now - last >= 60.0 else ""
    lasts = f", for {_about(last - since)}" if last - since >= 60.0 else ""
    return f"{activity.who} {activity.what}{ago}{lasts}" + (f"; counts until {lets_go}" if lets_go else "")


def _about(seconds: float) -> str:
    """As people say it: "4 min", "2 h", "3 days"."""
    for size, unit in ((172800.0, "days"), (7200.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86400.0, 'h': 3600.0, 'min': 60.0}[unit]:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
