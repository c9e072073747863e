"""A month of five typical machines, in dry run and live: every message that people get, on one page.

``python -m tests.simulation.month [--page FILE]``. The guard is the real loop, the texts are those of the real worker, the
summaries come from a real history; the machines, their people and the delivery are simulated.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from costguard.agent.loop import Loop
from costguard.history import FILE, store
from costguard.history.job import Batch
from costguard.host.ports import Instant
from costguard.notify import summary
from costguard.notify.compose import Text
from costguard.notify.delivery_record import EARLIER_KINDS
from costguard.notify.job import Draft
from costguard.notify.worker import written
from costguard.process.wire import build
from costguard.testing.simhost import SimHost, Watch, effective
from costguard.testing.simmachine import Machine, Phase
from costguard.testing.simworld import SimOff, World

HOUR, DAY = 3600.0, 86400.0
MONDAY = 1_772_409_600.0
"""2026-03-02 00:00 UTC; the month is its four weeks."""

DAYS = 28.0
PRICE = 32.0
CHANNELS = {
    "team": {"urls": "env:TEAM", "level": "info", "kinds": []},
    "pager": {"urls": "env:P", "level": "critical", "kinds": []},
}
NEED_BEFORE = 300.0
"""Seconds before its next work that somebody starts a machine which was stopped."""


class Letter(NamedTuple):
    """One message as people got it; ``at`` is its date."""

    at: float
    kind: str
    channels: tuple[str, ...]
    incident: str
    text: Text


class Month(NamedTuple):
    """What one machine told in one mode, and the dates at which it was stopped, or would have been."""

    machine: str
    mode: str
    letters: list[Letter]
    stops: list[float]


def training(rng: random.Random) -> Iterator[Phase]:
    """Long runs with pauses for checkpoints and evaluation; on the twelfth day one crashes, and nobody looks for two days."""
    day = 0.0
    while day < DAYS:
        for _ in range(9):
            yield Phase(rng.uniform(50, 70) * 60, 0.97, jitter=0.02)
            yield Phase(rng.uniform(2, 6) * 60, 0.0)
        yield Phase(rng.uniform(10, 40) * 60, 0.0)
        day += 0.45
        if 12.0 <= day < 12.45:
            yield Phase(2 * DAY, 0.0, "crashed")
            day += 2.0


def serving(rng: random.Random) -> Iterator[Phase]:
    """Requests in bursts: often by day, at night sometimes none for more than an hour."""
    passed = 0.0
    while passed < DAYS * DAY:
        night = (passed % DAY) < 6 * HOUR
        pause, burst = rng.uniform(30, 90) * 60 if night else rng.uniform(1, 20) * 60, rng.uniform(20, 90)
        yield Phase(pause, 0.0)
        yield Phase(burst, 0.45, jitter=0.2)
        passed += pause + burst


def notebook(rng: random.Random) -> Iterator[Phase]:
    """Somebody tries things on working days from nine to six, with lunch and meetings in between."""
    for day in range(int(DAYS)):
        yield Phase(9 * HOUR, 0.0)
        passed = 0.0
        while passed < 9 * HOUR and day % 7 < 5:
            work, pause = rng.uniform(2, 20) * 60, rng.uniform(3, 70) * 60
            yield Phase(work, 0.6, jitter=0.3)
            yield Phase(pause, 0.0)
            passed += work + pause
        yield Phase(max(0.0, 15 * HOUR - passed), 0.0)


def forgotten(_rng: random.Random) -> Iterator[Phase]:
    """It trains from Monday morning until Friday afternoon; then everybody goes home."""
    while True:
        yield Phase(9 * HOUR, 0.0)
        yield Phase(4 * DAY + 8 * HOUR, 0.93, jitter=0.05)
        yield Phase(2 * DAY + 7 * HOUR, 0.0)


def unused(_rng: random.Random) -> Iterator[Phase]:
    """Somebody started it for later."""
    yield Phase(DAYS * DAY, 0.0)


MACHINES: dict[str, Callable[[random.Random], Iterator[Phase]]] = {
    "training with pauses": training,
    "serving": serving,
    "a notebook": notebook,
    "forgotten on Friday": forgotten,
    "never used": unused,
}


class Postbox(Watch):
    """Keeps each message as its worker would write it, and writes the history."""

    def __init__(self, machine: str, folder: Path) -> None:
        self.machine, self.folder = machine.replace(" ", "-"), folder
        self.letters: list[Letter] = []
        self.stops: list[float] = []

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        """A process was asked for."""
        if program == "history":
            store.save(build(Batch, {**job, "path": str(self.folder / FILE)}))
        elif program == "notify":
            self._post(now.wall, build(Draft, job["message"]), tuple(job["channels"]))

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        """The machine goes off."""
        del job
        self.stops.append(now.wall)

    def _post(self, wall: float, draft: Draft, channels: tuple[str, ...]) -> None:
        draft = draft._replace(facts={**draft.facts, "machine": self.machine})
        if draft.kind == "summary":
            found = summary.due(draft._replace(facts={**draft.facts, "state": str(self.folder)}), wall)
            if found is None:
                return
            draft = found
            summary.told(draft, wall)
        if draft.kind == "would_act":
            self.stops.append(wall)
        if draft.kind in EARLIER_KINDS:
            return  # every message arrives here, so nobody missed that it begins
        taken = tuple(name for name in channels if name not in CHANNELS or _takes(CHANNELS[name], draft))
        message = written(draft)
        text = Text(message.title, message.body, message.dry_run)
        self.letters.append(Letter(wall, draft.kind, taken, str(draft.facts.get("incident") or ""), text))


def _takes(channel: dict[str, Any], draft: Draft) -> bool:
    return channel["level"] == "info" or draft.level == "critical"


def live(machine: str, mode: str, folder: Path, seed: int = 1, days: float = DAYS, **policy: Any) -> Month:
    """One machine's month; a machine that was stopped is started again shortly before its next work."""
    phases = list(MACHINES[machine](random.Random(seed))) if machine != "forgotten on Friday" else None
    script = phases if phases is not None else [*_take(forgotten(random.Random(seed)), 12)]
    postbox = Postbox(machine, folder)
    world = World(Machine(4, iter(script)), seed=seed, start_wall=MONDAY + 20.0, uptime=20.0)
    config = effective(
        {"interval": 120.0, **policy}, mode=mode, price_per_hour=PRICE, currency="USD", unused_after=4 * HOUR
    )
    config["notify"] = {
        "local": ["wall"], "attempts": 3, "channels": CHANNELS, "summary": "weekly", "dry_run": "few", "armed": False,
    }  # fmt: skip
    world.at(days * DAY, lambda: None)
    while world.now < days * DAY:
        host = SimHost(world=world, watch=postbox)
        world.at(days * DAY, lambda host=host: host.signal("TERM"))  # type: ignore[misc] # mypy knows no type of a default
        try:
            Loop(host, config, world.start()).run()
            host.die()
            break
        except SimOff:
            host.die()
            world.now = max(world.now + 60.0, _next_work(script, world.now) - NEED_BEFORE)
            world.boot()
            world.pass_time(15.0)
    return Month(machine, mode, postbox.letters, postbox.stops)


def _take(phases: Iterator[Phase], count: int) -> list[Phase]:
    return [next(phases) for _ in range(count)]


def _next_work(script: list[Phase], now: float) -> float:
    at = 0.0
    for phase in script:
        if phase.load and at >= now:
            return at
        at += phase.seconds
    return DAYS * DAY + 1.0


def all_months(folder: Path) -> list[Month]:
    """Each machine in each mode, with a history of its own."""
    found = []
    for number, machine in enumerate(MACHINES):
        for mode in ("dry-run", "live"):
            own = folder / f"{number}-{mode}"
            own.mkdir()
            summary.keep(str(own), MONDAY, MONDAY)
            found.append(live(machine, mode, own))
    return found


def lines_a_day(month: Month, channel: str) -> list[int]:
    """How many messages the channel got on each day, silent days too."""
    days = Counter(int((letter.at - MONDAY) // DAY) for letter in month.letters if channel in letter.channels)
    return [days[day] for day in range(int(DAYS))]


def page(months: list[Month]) -> Iterator[str]:
    """Every message, and the counts of each channel."""
    yield "# A month of messages\n"
    for month in months:
        yield f"\n## {month.machine}, {month.mode}\n"
        for channel in ("team", "pager", "wall"):
            kinds = Counter(letter.kind for letter in month.letters if channel in letter.channels)
            days = sorted(lines_a_day(month, channel))
            counted = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) or "nothing"
            yield f"- {channel}: {counted}; at most {days[-1]} a day, {days[len(days) // 2]} in the median"
        yield f"- stopped, or would have been: {len(month.stops)} times\n"
        for letter in month.letters:
            if set(letter.channels) & CHANNELS.keys():
                yield f"{time.strftime('%a %d %b %H:%M', time.gmtime(letter.at))}  [{', '.join(letter.channels)}]  {letter.text.title}"
                yield from (f"        {line}" for line in letter.text.body.splitlines())


def main() -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.month", description=__doc__)
    parser.add_argument("--page", type=Path, help="write it here")
    given = parser.parse_args()
    os.environ["TZ"] = "UTC0"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(page(all_months(Path(folder)))) + "\n"
    if given.page:
        given.page.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
