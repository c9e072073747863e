"""The faults: which there are, how each is brought about, and which pairs of phase and fault were met."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from costguard.host.files import COMMITMENTS, STATE
from costguard.testing.simhost import Faults, Phase, SimHost
from tests.simulation.surroundings import beside_the_unseen, rented, unseen

if TYPE_CHECKING:
    from tests.simulation.bents import Happening
    from tests.simulation.story import Story

PHASES = ("WATCHING", "WARNING", "ACTING", "CONFIRMING", "DONE", "FAILED")
USER = 60001
"""An ordinary user of the machine."""

PATIENCE = 1800.0
"""Seconds after which a fault that found nothing to break is given up."""

OFTEN_WRONG, LASTING = 10, 4 * 3600.0
"""What goes wrong more often than that has so many seconds for it."""

WISHES = frozenset(("stop by hand",))
"""Events in which nothing goes wrong: whoever asked is to be obeyed at once."""

AT_REST, AFTER_WORK = 0.35, 0.5
"""Share of what befalls a brisk life that comes while nobody works, and share of that before which somebody has worked."""

# subject -> what may go wrong with one operation of it
OPERATIONS = {
    "nvml": (
        "hang", "die", "garbage", "late", "slow", "flood", "wrong_seq", "nonsense", "impossible", "missing", "partial", "blind", "empty",
    ),
    "cloud": ("hang", "die", "garbage", "blind"),
    "plan": ("hang", "die", "garbage", "refuse", "another"),
    "prepare": ("hang", "die", "garbage", "refuse", "another", "die_ready"),
    "go": (
        "die_before", "die_started", "hang_started", "die_after", "hang_after", "garbage_after", "fail", "nothing_happens",
        "refused",
    ),
    "confirm": ("hang", "die", "garbage", "ended"),
    "notify": ("hang", "die", "garbage", "fail", "die_after"),
    "persist": ("hang", "die", "garbage", "fail"),
    "configure": ("hang", "die", "garbage", "refuse"),
    "hook": ("hang", "die", "fail"),
    "history": ("hang", "die", "garbage", "fail"),
    "beat": ("hang", "die", "fail"),
    "spawn:nvml": ("fails",),
    "spawn:cloud": ("fails",),
    "spawn:act": ("fails",),
    "spawn:notify": ("fails",),
    "spawn:persist": ("fails",),
    "spawn:configure": ("fails",),
    "spawn:history": ("fails",),
    "send": ("fails",),
    "kill": ("unreaped",),
    "save": ("fails",),
    "commitments": ("fails",),
}  # fmt: skip


class Armed(NamedTuple):
    """A fault that waits for its operation."""

    word: str
    left: int
    until: float


class Troubles(Faults):
    """Faults that wait for their operation, and the account of what was met."""

    def __init__(self, story: "Story") -> None:
        self._story = story
        self._armed: dict[str, Armed] = {}
        self.met: Counter[tuple[str, str]] = Counter()
        self.last = 0.0  # when something went wrong last
        self._failed: dict[str, float] = {}  # subject -> when that last went wrong
        self.unstored = False  # the last commitments are not in the runtime directory
        self.standing = 0.0  # so many seconds the guard stands still when the reader answers next

    def failed(self, subject: str) -> bool:
        """Whether an operation went wrong just now."""
        return self._failed.get(subject, -1.0) == self._story.world.now

    def failed_last(self, *subjects: str) -> float:
        """When one of these went wrong last."""
        return max((self._failed.get(subject, -1.0) for subject in subjects), default=-1.0)

    def take(self, subject: str, host: SimHost) -> str:
        """Hand out a fault that waits for this operation."""
        if subject == "commitments":
            self.unstored = False
        if not self._armed:
            return ""
        armed = self._armed.get(subject)
        if armed is None:
            return ""
        if armed.left <= 1 or host.now > armed.until:
            del self._armed[subject]
        else:
            self._armed[subject] = armed._replace(left=armed.left - 1)
        if host.now > armed.until:
            return ""
        self._failed[subject] = host.now
        self.unstored = self.unstored or subject == "commitments"
        self.count(f"{subject} {armed.word}")
        return armed.word

    def arm(self, subject: str, word: str, times: int, within: float = PATIENCE) -> None:
        """Let the next operations go wrong."""
        self._armed[subject] = Armed(word, times, self._story.world.now + within)

    def answers(self) -> None:
        """The reader answers: now and then the guard takes that much later."""
        seconds, self.standing = self.standing, 0.0
        if seconds:
            self._story.stands_still(seconds)

    def count(self, name: str) -> None:
        """A fault happened in the phase that the guard is in."""
        self.met[self._story.phase, name] += 1
        self.last = self.last if name in WISHES else self._story.world.now
        self._story.note(f"fault: {name} in {self._story.phase}")


def strike(story: "Story", rng: random.Random) -> None:
    """Bring about one fault, fitting for the phase, or for what this life is mostly about."""
    if story.bent.often and (story.alone or rng.random() < 0.5):
        what = story.next_of(story.bent.often)
        if story.bent.brisk and rng.random() < AT_REST:
            _at_rest(story, rng, what)
        else:
            befalls(story, rng, what)
        return
    if story.alone:
        return
    names = list(EVENTS)
    subjects = [*OPERATIONS, *WEIGHTY]
    wanted = {
        "WARNING": ("prepare", "go", "notify"),
        "ACTING": ("confirm", "notify"),
        "CONFIRMING": ("confirm", "notify"),
    }
    if rng.random() < 0.15 and story.works() and story.phase == "WATCHING":
        story.stands_still(story.config["policy"]["interval"] * rng.uniform(1.0, 4.0))
        return
    choice = rng.random()
    if choice < 0.25 and story.phase == "WARNING":  # the way to FAILED is long
        story.troubles.arm("go", rng.choice(("fail", "fail", "nothing_happens", "hang_started")), rng.choice((1, 3, 9)))
        if rng.random() < 0.5:
            story.troubles.arm("confirm", rng.choice(OPERATIONS["confirm"]), 3)
        return
    if choice < 0.5 and story.phase in wanted:
        subjects = list(wanted[story.phase])
    elif choice > 0.6 or story.phase in {"ACTING", "CONFIRMING", "FAILED"}:
        happens(story, rng, rng.choice((*names, *OFTEN)))
        return
    subject = rng.choice(subjects)
    word = story.next_of(OPERATIONS[subject] + (TELLING if subject == "nvml" else ()))
    times = 1 if subject in {"go", "kill"} else rng.choice((1, 1, 1, 2, 3, 5))
    if subject == "nvml":
        times = rng.choice((1, 1, 1, 2, 3, 3, 10, 60))
    if subject == "kill":
        times = rng.choice((1, 1, 8))
        story.troubles.arm("nvml", "hang", times)
    if subject.endswith("configure"):
        story.reload(rng)
    story.troubles.arm(subject, word, times)


def _at_rest(story: "Story", rng: random.Random, what: "Happening") -> None:
    """It comes somewhere in the window, or in the countdown, of a machine on which nobody works."""
    given, host = story.config["policy"], story.host
    worked = story.rests(worked=rng.random() < AFTER_WORK)
    within = rng.uniform(0.0, given["kill_duration"] + given["grace"])
    story.world.after(worked + within, lambda: befalls(story, rng, what) if host.alive else None)


def befalls(story: "Story", rng: random.Random, what: "Happening") -> None:
    """What a life with a bent is about."""
    if not isinstance(what, str):
        story.troubles.arm(*what, within=LASTING if what[2] > OFTEN_WRONG else PATIENCE)
    elif story.host.alive:
        story.troubles.count(what)
        (EVENTS | RARELY)[what](story, rng)


def happens(story: "Story", rng: random.Random, name: str) -> None:
    """One event, while there is a guard."""
    if story.host.alive:
        story.troubles.count(name)
        EVENTS[name](story, rng)


TELLING = ("missing", "missing", "partial", "impossible", "impossible", "nonsense", "wrong_seq")
"""What may go wrong with an answer so that it still looks like one: drawn more often."""

WEIGHTY = (
    *["nvml"] * 8, *["plan", "prepare", "go", "go", "confirm", "notify", "notify"],
    *["history"] * 4, "spawn:act", "spawn:cloud", *["cloud"] * 2, *["spawn:history"] * 2,
)  # fmt: skip
"""Subjects that are drawn more often: what they say decides, or they are met seldom."""


def _jump(story: "Story", rng: random.Random) -> None:
    story.world.wall_offset += rng.choice((-1, 1)) * rng.choice((60.0, 3600.0, 6 * 3600.0)) * rng.uniform(0.5, 2)
    if rng.random() < 0.5:
        story.world.synced = False
    story.judge.wall_jumped()


def _unsynced(story: "Story", rng: random.Random) -> None:
    story.world.synced = rng.choice((True, False, None))


def _stall(story: "Story", rng: random.Random) -> None:
    seconds = rng.choice((5.0, 60.0, 300.0, 600.0)) * rng.uniform(0.5, 2)
    story.host.stall(seconds)
    story.judge.stalls(seconds)


def _suspend(story: "Story", rng: random.Random) -> None:
    story.world.suspend(rng.choice((10.0, 600.0, 3600.0)) * rng.uniform(0.5, 2))
    story.judge.resumed()


def _kill(story: "Story", rng: random.Random) -> None:
    story.host.doom = rng.randint(1, 40)


def _kill_often(story: "Story", rng: random.Random) -> None:
    story.crash_again(rng.randint(2, 5))
    _kill(story, rng)


def _torn(story: "Story", rng: random.Random) -> None:
    _kill(story, rng)
    content = story.world.runtime.get(STATE, b"")
    story.damage = lambda: story.world.runtime.__setitem__(
        STATE, content[: rng.randrange(max(1, len(content.rstrip())))]
    )


def _absent(story: "Story", rng: random.Random) -> None:
    _kill(story, rng)
    story.damage = lambda: story.world.runtime.pop(STATE, None)


def _emptied(story: "Story", rng: random.Random) -> None:
    _kill(story, rng)
    story.damage = story.world.runtime.clear


def _bad_commitments(story: "Story", rng: random.Random) -> None:
    _kill(story, rng)

    def damage() -> None:
        story.world.runtime.clear()
        content = story.world.disk.get(COMMITMENTS, b"")
        story.world.disk[COMMITMENTS] = content[: rng.randrange(max(1, len(content.rstrip())))]

    story.damage = damage


def _reboot(story: "Story", rng: random.Random) -> None:
    story.off_for = rng.uniform(20.0, 300.0)
    story.world.after(0.5, story.world.power_off)


def _lost_over_a_boot(story: "Story", rng: random.Random) -> None:
    """The machine goes off, and from its next boot on a GPU cannot be read."""
    story.loses = True
    _reboot(story, rng)


def _held_often(story: "Story", rng: random.Random) -> None:
    """One user holds over and over, and ends holds early; root holds too. Perhaps nobody works meanwhile."""
    host, at = story.host, 0.0
    if rng.random() < 0.5:
        story.rests()

    def ask() -> None:
        if host.alive:
            choice = rng.random()
            story.release(USER) if choice < 0.45 else story.hold(rng, 0 if choice > 0.85 else USER)

    for _ in range(rng.randint(4, 9)):
        story.world.after(at, ask)
        at += rng.uniform(60.0, 500.0 if story.bent.brisk else 1200.0)


def _presumes(story: "Story", rng: random.Random) -> None:
    """A user of the machine asks for what is root's."""
    story.ask({"command": rng.choice(("stop", "stop", "reload", "detach", "attach"))}, "root's", uid=USER)


def _tagged(story: "Story", rng: random.Random) -> None:
    """A tag; the guard dies meanwhile, and the next one cannot read tags for long."""
    _tag(story, rng)
    host = story.host

    def die() -> None:
        if host.alive:
            host.doom = 1
            story.troubles.arm("cloud", "blind", 200, 4 * 3600.0)

    story.world.after(rng.uniform(60.0, 900.0), die)
    if rng.random() < 0.7:
        story.rests()


def _long_off(story: "Story", rng: random.Random) -> None:
    """Somebody switches the machine off for hours."""
    story.off_for = rng.uniform(0.5, 5.0) * 3600.0
    story.world.after(0.5, story.world.power_off)


def _moved(story: "Story", rng: random.Random) -> None:
    _reboot(story, rng)
    story.moves_to = f"i-{rng.randrange(1 << 20):05x}"


def _held_over(story: "Story", rng: random.Random) -> None:
    """A hold, and soon after the machine goes off: for a moment, or for longer than the hold lasts."""
    story.hold(rng)
    story.off_for = rng.choice((rng.uniform(20.0, 300.0), rng.uniform(300.0, 7200.0)))
    story.world.after(rng.uniform(5.0, 120.0), story.world.power_off)


def _held_over_a_wrong_date(story: "Story", rng: random.Random) -> None:
    """A hold of an hour; the machine goes off for a moment, and comes back with a wrong date."""
    story.ask({"command": "hold", "seconds": 3600, "reason": "a run"}, "hold", 3600.0, uid=0)
    story.off_for, story.misdated = rng.uniform(20.0, 300.0), True
    story.world.after(rng.uniform(60.0, 120.0), story.world.power_off)


def _moved_over(story: "Story", rng: random.Random) -> None:
    """Somebody moves the deadline, and soon after the machine goes off."""
    story.extend(rng)
    story.off_for = rng.choice((rng.uniform(20.0, 300.0), rng.uniform(300.0, 7200.0)))
    story.world.after(rng.uniform(5.0, 120.0), story.world.power_off)


def _stop(story: "Story", rng: random.Random) -> None:
    """Root wants the machine to stop, perhaps twice; now and then the guard dies meanwhile."""
    story.stop()
    host = story.host
    if rng.random() < 0.2:
        story.world.after(rng.uniform(0.5, 60.0), lambda: story.stop() if host.alive else None)
        return
    if rng.random() < 0.5:  # a request follows within seconds
        story.world.after(rng.uniform(0.5, rng.choice((6.0, 60.0))), lambda: setattr(host, "doom", 1))


def _held_and_jump(story: "Story", rng: random.Random) -> None:
    """A hold, and somebody sets the date meanwhile."""
    story.hold(rng)
    host = story.host
    story.world.after(rng.uniform(5.0, 300.0), lambda: _jump(story, rng) if host.alive else None)


def _held_by_two(story: "Story", rng: random.Random) -> None:
    """Two people hold, and one of them ends the own hold."""
    story.hold(rng)
    story.hold(rng)
    host = story.host
    story.world.after(rng.uniform(5.0, 300.0), lambda: story.release(rng.choice((0, USER))) if host.alive else None)


def _tag(story: "Story", rng: random.Random) -> None:
    """Somebody tags the machine, and takes the tag away again."""
    lasts = (600.0, 1200.0, 2400.0) if story.bent.brisk else (600.0, 1200.0, 3600.0, 4 * 3600.0)
    _tagged_for(story, rng, rng.choice(lasts) * rng.uniform(0.5, 2))


SETTINGS = tuple(
    (f"costguard-{name}", value)
    for name, values in {
        "kill-duration": ("2m", "5m", "45m"),
        "grace": ("0.5m", "20m"),
        "boot-grace": ("1m", "25m"),
        "unused-after": ("5m", "90m"),
        "kill-threshold": ("0.01", "0.9"),
    }.items()
    for value in values
)
"""Tags that would change the rules: a milder value does, a harsher one does not."""


def _tagged_for(story: "Story", rng: random.Random, seconds: float) -> None:
    until = datetime.fromtimestamp(story.world.instant().wall + seconds, UTC).isoformat()
    asks = story.next_of((*[("costguard", "off"), ("costguard-hold", "")] * 3, *SETTINGS))
    story.world.tags = {asks[0]: asks[1] or until}
    story.world.after(seconds, story.world.tags.clear)


def _announcement(story: "Story", rng: random.Random) -> None:
    """The cloud announces something that does not come true."""
    wall, story.announcements = story.world.instant().wall, story.announcements + 1
    kind = story.next_of(("stop", "terminate", "reboot", "freeze", "rebalance", "hibernate"))
    at = rng.choice((None, wall + rng.uniform(30.0, 1200.0), wall + 10 * 86400.0))
    story.world.notices = [(f"n{story.announcements}", kind, at, "maintenance")]
    story.world.after(rng.uniform(30.0, 3600.0), story.world.notices.clear)


OFTEN = (
    "suspend", "stall", "hold", "tag", "announcement", "stop by hand", "held over a boot", "held over and over",
    "tag, and a guard that cannot read it",
)  # fmt: skip
"""Events that come twice as often."""

EVENTS: dict[str, Callable[["Story", random.Random], object]] = {
    "wall jump": _jump,
    "unsynced": _unsynced,
    "stall": _stall,
    "suspend": _suspend,
    "guard killed": _kill,
    "guard killed often": _kill_often,
    "state torn": _torn,
    "state absent": _absent,
    "runtime emptied": _emptied,
    "commitments torn": _bad_commitments,
    "TERM": lambda story, _: story.host.signal("TERM"),
    "reboot": _reboot,
    "another instance": _moved,
    "tag": _tag,
    "announcement": _announcement,
    "reload": lambda story, rng: story.reload(rng),
    "edited": lambda story, _: story.edited(),
    "hold": lambda story, rng: story.hold(rng),
    "release": lambda story, rng: story.release(rng.choice((0, USER))),
    "stop by hand": _stop,
    "held over a boot": _held_over,
    "the deadline moved": lambda story, rng: story.extend(rng),
    "held, and the date set": _held_and_jump,
    "held by two": _held_by_two,
    "held over and over": _held_often,
    "a user's wish for root": _presumes,
    "tag, and a guard that cannot read it": _tagged,
    "status": lambda story, _: story.ask({"command": "status"}, "status"),
    "senseless request": lambda story, rng: story.ask(rng.choice((b"", b"x", b'{"command":["hold"]}', b"[]"))),
    "senseless hold": lambda story, rng: story.ask(
        {"command": "hold", "seconds": rng.choice((-1, 0, "1", None, 1e999))}
    ),
}


def _stopped_between(story: "Story", rng: random.Random) -> None:
    """Somebody holds, root stops, and the same one holds for a shorter time than before."""
    host = story.host

    def again(what: Callable[[], None]) -> Callable[[], None]:
        return lambda: what() if host.alive else None

    story.ask({"command": "hold", "seconds": 1200, "reason": "a run"}, "hold", 1200.0, uid=USER)
    story.world.after(60.0, again(story.stop))
    short = {"command": "hold", "seconds": 600, "reason": "a run"}
    story.world.after(60.0 + rng.uniform(1.0, 50.0), again(lambda: story.ask(short, "hold", 600.0, uid=USER)))


def _burst_over_a_stall(story: "Story", rng: random.Random) -> None:
    """Work that is too short to arm, in whose middle the guard stands still for more than a look."""
    given, machine, world = story.config["policy"], story.machine, story.world
    burst, host = max(120.0, (given["arm_duration"] or 120.0) * rng.uniform(0.6, 1.2)), story.host
    stall = given["interval"] * rng.uniform(1.6, 3.0)
    load = (0.97,) * len(machine.keys)
    machine.cut(
        world.now, Phase(burst + stall, load, "burst"), Phase(2 * given["kill_duration"] + 1800.0, 0.002, "idle")
    )
    world.after(burst * rng.uniform(0.3, 0.7), lambda: story.stands_still(stall) if host.alive else None)


def _lost_at_work(story: "Story", rng: random.Random) -> None:
    """A GPU works, and then cannot be read any more."""
    given, machine = story.config["policy"], story.machine
    gpu = rng.randrange(len(machine.keys))
    load = tuple(0.97 if number == gpu else 0.002 for number in range(len(machine.keys)))
    machine.cut(
        story.world.now,
        Phase(rng.uniform(5.0, 60.0) * 60.0, load, "job"),
        Phase(given["kill_duration"] * rng.uniform(0.3, 1.5), load, "lost", unknown={gpu: "NVML 15: GPU is lost"}),
    )


def _lost_at_rest(story: "Story", rng: random.Random) -> None:
    """All GPUs work, and then none; one of them cannot be read meanwhile, for longer than a decision takes."""
    given, gpus = story.config["policy"], len(story.machine.keys)
    job = (given["arm_duration"] or 120.0) * 1.3 + 180.0
    long = 1.3 * given["kill_duration"] + given["grace"] + 300.0
    lost = {rng.randrange(gpus): "NVML 15: GPU is lost"}
    story.machine.cut(story.world.now, Phase(job, 0.97, "job"), Phase(long, 0.002, "lost", unknown=lost))


def _bursts(story: "Story", rng: random.Random) -> None:
    """After work bursts close to each other, or far apart within a window: together a little more, or less, than it tolerates; and no more."""
    given = story.config["policy"]
    window, tolerated = given["kill_duration"], max(50.0, given["window_share"] * given["kill_duration"])
    work, apart = tolerated * story.next_of((0.8, 1.3, 1.5)), story.next_of((0.15, 0.4, 0.55, 0.7))
    job, count = (given["arm_duration"] or 120.0) * 1.3 + 180.0, 2 if apart > 0.5 else rng.randint(2, 3)
    burst, rest = work / count, max(20.0, apart * window)
    bursts = [phase for _ in range(count) for phase in (Phase(rest, 0.002, "idle"), Phase(burst, 0.97, "burst"))]
    story.machine.cut(story.world.now, Phase(job, 0.97, "job"), *bursts, Phase(1.5 * window + 900.0, 0.002, "idle"))


def _signs_alone(story: "Story", rng: random.Random) -> None:
    """After work nothing but signs of it shows for longer than any window, and then nothing."""
    given = story.config["policy"]
    longest = max(given["kill_duration"], given["unused_after"] or 0.0 if rng.random() < 0.2 else 0.0)
    job, long = (given["arm_duration"] or 120.0) * 1.3 + 180.0, 1.2 * longest + 8 * given["interval"] + 300.0
    story.machine.cut(
        story.world.now,
        *([Phase(job, 0.97, "job")] if rng.random() < 0.8 else ()),
        Phase(long, 0.002, "copying", signs=("12 GB/s over PCIe",)),
        Phase(given["kill_duration"] + given["grace"] + 600.0, 0.002, "idle"),
    )


def _tag_at_rest(story: "Story", rng: random.Random) -> None:
    """Nobody works, and a tag that has kept the machine up is taken away while nothing else changes."""
    _tagged_for(story, rng, story.config["policy"]["kill_duration"] * rng.uniform(1.2, 3.0))
    story.rests()


def _tag_over_bursts(story: "Story", rng: random.Random) -> None:
    """A tag asks for a longer window, and somebody works now and then: about as much as the owner's own window tolerates."""
    given, world = story.config["policy"], story.world
    world.tags = {"costguard-kill-duration": "45m"}
    world.after(rng.uniform(2.0, 4.0) * 3600.0, world.tags.clear)
    tolerated = max(50.0, given["window_share"] * given["kill_duration"])
    load = (0.97,) * len(story.machine.keys)
    bursts = [
        phase
        for _ in range(rng.randint(1, 3))
        for phase in (
            Phase(rng.uniform(120.0, 900.0), 0.002, "idle"),
            Phase(tolerated * rng.uniform(0.6, 1.4), load, "burst"),
        )
    ]
    story.machine.cut(world.now, Phase(600.0, load, "job"), *bursts, Phase(2 * 3600.0, 0.002, "idle"))


def _out_of_sight(story: "Story", rng: random.Random) -> None:
    """A GPU that does not work cannot be read for a while, and then can."""
    machine, grace = story.machine, story.config["policy"]["grace"]
    machine.cut(story.world.now, *unseen(rng, len(machine.keys), grace))


def _readers_die_at_rest(story: "Story", rng: random.Random) -> None:
    """Nobody works; one reader after the other dies, for longer than the next one can look back."""
    story.rests()
    within = story.config["policy"]["kill_duration"] * rng.uniform(0.2, 0.8)
    story.world.after(within, lambda: story.troubles.arm("nvml", "die", rng.randint(4, 7)))


def _cannot_be_killed(story: "Story", rng: random.Random) -> None:
    """One reader after the other hangs in the driver, and outlives its end."""
    story.troubles.arm("nvml", "hang", 12)
    story.troubles.arm("kill", "unreaped", 12)


ANSWERS = (
    "impossible",
    "wrong_seq",
    "nonsense",
    "missing",
    "partial",
    "blind",
    "late",
    "slow",
    "empty",
    "garbage",
    "flood",
)
"""What may be wrong with an answer of a reader."""


def _wrong_answers(story: "Story", rng: random.Random) -> None:
    """Answers go wrong while nobody works, or while somebody does: one, some, or for longer than the next one can look back."""
    given, at_work = story.config["policy"], rng.random() < 0.3
    long = int(240.0 // given["interval"]) + 2
    word, times = story.next_of(ANSWERS), story.next_of((1, 3, long))
    if at_work:
        span = (times + 2) * given["interval"] + 300.0
        story.machine.cut(story.world.now, Phase(span, 0.97, "job"))
        story.troubles.arm("nvml", word, times)
        return
    host, begin = story.host, story.rests(worked=rng.random() < AFTER_WORK)
    within = begin + rng.uniform(0.1, 1.0) * given["kill_duration"] + rng.choice((0.0, 0.5)) * given["grace"]
    story.world.after(within, lambda: story.troubles.arm("nvml", word, times) if host.alive else None)


def _beside_the_unseen(story: "Story", rng: random.Random) -> None:
    """Somebody works beside a GPU that cannot be read; then nobody works, and it can be read again."""
    machine, given = story.machine, story.config["policy"]
    unused = given["unused_after"] or 3600.0
    machine.cut(
        story.world.now,
        Phase(unused * rng.uniform(0.1, 0.5), 0.002, "idle"),
        *beside_the_unseen(rng, len(machine.keys), given),
        Phase(2 * unused, 0.002, "idle"),
    )


def _begins_to_work(story: "Story", rng: random.Random) -> None:
    """Somebody works on one GPU, for some minutes at most."""
    given, gpus = story.config["policy"], len(story.machine.keys)
    one = rng.randrange(gpus)
    load = tuple(0.97 if number == one else 0.002 for number in range(gpus))
    rest = given["kill_duration"] + given["grace"] + 600.0
    story.machine.cut(
        story.world.now, Phase(rng.uniform(0.5, 10.0) * 60.0, load, "session"), Phase(rest, 0.002, "idle")
    )


def _one_works(story: "Story", rng: random.Random) -> None:
    """One GPU works for longer than a decision takes, and the others do not."""
    given, gpus = story.config["policy"], len(story.machine.keys)
    one, long = rng.randrange(gpus), 1.5 * given["kill_duration"] + given["grace"]
    load = tuple(rng.choice((0.3, 0.97)) if number == one else 0.002 for number in range(gpus))
    story.machine.cut(
        story.world.now, Phase(long + rng.uniform(300.0, 900.0), load, "job"), Phase(long + 300.0, 0.002, "idle")
    )


def _shown_as_ended(story: "Story", rng: random.Random) -> None:
    """The cloud takes requests for another machine, and shows this one as ended while it runs on: once, or each time."""
    times = rng.choice((1, 9, 9))
    story.rests()
    story.troubles.arm("go", "nothing_happens", times, LASTING)
    story.troubles.arm("confirm", "ended", times, LASTING)


def _forgotten_at_rest(story: "Story", rng: random.Random) -> None:
    """The state of this boot is lost, and nobody works from then on."""
    _absent(story, rng)
    story.rests()


def _one_holds_longer(story: "Story", rng: random.Random) -> None:
    """Two people hold while nobody works, one for longer than the other; both holds end by themselves."""
    story.rests(worked=rng.random() < AFTER_WORK)
    times = [rng.uniform(200.0, 500.0), rng.uniform(700.0, 1200.0)]
    for uid, seconds in zip(rng.sample((0, USER), 2), times, strict=True):
        story.ask({"command": "hold", "seconds": int(seconds), "reason": "a run"}, "hold", float(int(seconds)), uid=uid)


def _held_and_released(story: "Story", rng: random.Random) -> None:
    """Nobody works; one user holds, and ends the hold soon, again and again: that uses up hardly anything."""
    host, at = story.host, 0.0
    wish = {"command": "hold", "seconds": 900, "reason": "a run"}
    story.rests()
    for time in range(7):
        holds = lambda: story.ask(wish, "hold", 900.0, uid=USER) if host.alive else None  # noqa: E731  # one of two
        ends = lambda: story.release(USER) if host.alive else None  # noqa: E731  # the other one
        story.world.after(at, ends if time % 2 else holds)
        at += rng.uniform(30.0, 200.0)


def _held_on_a_slow_disk(story: "Story", rng: random.Random) -> None:
    """Root holds, and then for longer, while what is to be kept of the first hold cannot be written."""
    host = story.host
    story.troubles.arm("persist", "hang", rng.choice((1, 2)))

    def hold(seconds: int) -> None:
        if host.alive:
            story.ask({"command": "hold", "seconds": seconds, "reason": "a run"}, "hold", float(seconds), uid=0)

    story.release(0)
    hold(300)
    story.world.after(rng.uniform(2.0, 25.0), lambda: hold(600))


def _stopped_and_killed(story: "Story", rng: random.Random) -> None:
    """Root wants the machine to stop, the guard dies before it has begun, and another one is there at once."""
    story.stop()
    host, story.away = story.host, rng.uniform(0.5, 5.0)
    within = 1.2 * story.config["policy"]["interval"]
    story.world.after(rng.uniform(0.2, within), lambda: setattr(host, "doom", 1))


def _away(story: "Story", rng: random.Random) -> None:
    """The guard dies, and nobody is there for some minutes."""
    story.host.doom, story.away = 1, rng.uniform(60.0, 400.0)


def _held_without_end(story: "Story", rng: random.Random) -> None:
    """Nobody works for hours, and one user holds the machine over and over."""
    hours, host = rng.uniform(1.0, 2.0) if story.bent.brisk else rng.uniform(4.0, 8.0), story.host
    story.machine.cut(story.world.now, Phase(hours * 3600.0, 0.002, "idle"))
    at = 0.0
    while at < hours * 3600.0:
        story.world.after(at, lambda: story.hold(rng, USER) if host.alive else None)
        at += rng.uniform(300.0, 900.0) if story.bent.brisk else rng.uniform(900.0, 2400.0)


def _announced_in_a_trial(story: "Story", rng: random.Random) -> None:
    """Somebody tries the guard out, with a program that saves work; the cloud announces that it takes the machine."""
    host, made = story.host, story.config if story.config["providers"] else story.config | rented(tags=False)
    trial = {"policy": {**made["policy"], "mode": "dry-run"}, "hooks": {"pre_stop": ["save"], "timeout": 20}}
    story.world.configuration = made | trial
    host.signal("HUP")
    story.world.after(rng.uniform(420.0, 900.0), lambda: _announcement(story, rng) if host.alive else None)


INTERRUPTIONS = ("reboot", "freeze")
"""Kinds of announcements after which the machine is still on."""


def _two_announcements(story: "Story", rng: random.Random) -> None:
    """Nobody works, and the cloud announces one thing for now, and another one for later."""
    wall, story.announcements = story.world.instant().wall, story.announcements + 2
    story.world.notices = [
        (f"n{story.announcements - 1}", story.next_of(INTERRUPTIONS), wall + rng.uniform(30.0, 120.0), "maintenance"),
        (f"n{story.announcements}", "stop", wall + rng.uniform(700.0, 890.0), "maintenance"),
    ]
    story.world.after(rng.uniform(150.0, 900.0), story.world.notices.clear)
    story.rests()


def _nearer(story: "Story", rng: random.Random) -> None:
    """The cloud announces something, and then that it comes sooner."""
    wall, story.announcements = story.world.instant().wall, story.announcements + 1
    name, kind = f"n{story.announcements}", story.next_of(("stop", "terminate", "reboot", "freeze", "hibernate"))
    later = wall + rng.uniform(600.0, 880.0)
    story.world.notices = [(name, kind, later, "maintenance")]

    def sooner() -> None:
        if [notice[0] for notice in story.world.notices] == [name]:
            story.world.notices[:] = [(name, kind, later - rng.uniform(150.0, 400.0), "maintenance")]

    story.world.after(rng.uniform(60.0, 200.0), sooner)
    story.world.after(rng.uniform(300.0, 1200.0), story.world.notices.clear)


def _moved_and_back(story: "Story", rng: random.Random) -> None:
    """Somebody moves the deadline, and takes that back before it has come."""
    uid, host = rng.choice((0, USER)), story.host
    story.extend(rng, uid)
    story.world.after(rng.uniform(30.0, 500.0), lambda: story.release(uid) if host.alive else None)


def _next_refused(story: "Story", rng: random.Random) -> None:
    """The first action of the list fails for certain as often as it is tried; of the next one the right is missing."""
    host = story.host
    story.troubles.arm("go", "fail", 4, LASTING)
    story.rests()
    given = story.config["policy"]
    within = given["grace"] + rng.uniform(100.0, 260.0)
    story.world.after(within, lambda: story.troubles.arm("prepare", "refuse", 1) if host.alive else None)


def _replaced(story: "Story", rng: random.Random) -> None:
    """Root takes the guard off the driver for some minutes; whichever guard is there then is told to use it again."""
    story.ask({"command": "detach"}, uid=0)
    story.judge.replaced()

    def attach() -> None:
        if story.host.alive:
            story.ask({"command": "attach"}, uid=0)

    at = rng.uniform(60.0, 300.0)
    for again in (0.0, 60.0, 120.0, 240.0, 360.0, 480.0):  # the guard may be killed before it has heard that
        story.world.after(at + again, attach)


def _stop_and_reload(story: "Story", rng: random.Random) -> None:
    """Root wants the machine to stop, and the configuration is read again before it does."""
    story.stop()
    host = story.host
    small = rng.random() < 0.5
    story.world.after(rng.uniform(0.5, 60.0), lambda: story.reload(rng, small=small) if host.alive else None)


RARELY: dict[str, Callable[["Story", random.Random], object]] = {
    "a burst over a stall": _burst_over_a_stall,
    "lost at work": _lost_at_work,
    "lost at rest": _lost_at_rest,
    "lost over a boot": _lost_over_a_boot,
    "bursts": _bursts,
    "signs alone": _signs_alone,
    "the deadline moved, and back": _moved_and_back,
    "the next one is refused": _next_refused,
    "the driver is replaced": _replaced,
    "wrong answers": _wrong_answers,
    "readers that cannot be killed": _cannot_be_killed,
    "an announcement in a trial": _announced_in_a_trial,
    "the state is lost, and nobody works": _forgotten_at_rest,
    "one holds longer": _one_holds_longer,
    "held over a wrong date": _held_over_a_wrong_date,
    "a small change": lambda story, rng: story.reload(rng, small=True),
    "a stop between two holds": _stopped_between,
    "nobody works": lambda story, _: story.rests(),
    "a tag while nobody works": _tag_at_rest,
    "a tag over bursts": _tag_over_bursts,
    "out of sight": _out_of_sight,
    "readers die while nobody works": _readers_die_at_rest,
    "work beside the unseen": _beside_the_unseen,
    "work begins": _begins_to_work,
    "held on a slow disk": _held_on_a_slow_disk,
    "held and released": _held_and_released,
    "shown as ended": _shown_as_ended,
    "one GPU works": _one_works,
    "nobody is there": _away,
    "a stop by hand, and the guard is killed": _stopped_and_killed,
    "a stop by hand, and a reload": _stop_and_reload,
    "held without end": _held_without_end,
    "two announcements": _two_announcements,
    "the deadline moved over a boot": _moved_over,
    "an announcement that comes nearer": _nearer,
    "off for hours": _long_off,
    "release by root": lambda story, _: story.release(0),
}
"""Events of some lives alone."""

OFTENER_WRONG: dict[str, tuple[int, ...]] = {
    "nvml": (1, 4),
    "cloud": (3,),
    "notify": (2,),
    "persist": (2,),
    "plan": (1, 9),
}
"""How often in a row an operation goes wrong; any other one once."""

EVERYTHING: tuple["Happening", ...] = (
    *(
        (subject, word, times)
        for subject, words in OPERATIONS.items()
        for word in words
        for times in OFTENER_WRONG.get(subject, (1,))
    ),
    *EVENTS,
    *RARELY,
)
"""All that can befall a life."""
