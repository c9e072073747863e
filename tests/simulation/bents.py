"""What a machine's life is mostly about: in a life of everything, what needs three rare things in a row never happens.

Every second life has a bent, in turn by its seed, and half of those are about nothing else. Source of the idea: Groce et al., "Swarm
Testing" (ISSTA 2012): runs that overdo a few features, and leave out the others, find more than runs that have a little of all.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.simulation.surroundings import HOUR, PRICE, Spent

Happening = str | tuple[str, str, int]
"""An event, or subject and word of an operation that goes wrong, and how often (`tests.simulation.troubles`)."""

Options = Callable[[random.Random, Spent], Mapping[str, Any]]
"""What an owner sets in every configuration."""


def _any(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    return {}


class Bent(NamedTuple):
    """``often``: what every second fault is. ``in_countdown``, ``in_action``, ``in_done``: what befalls every second countdown, request, and end.

    ``wrong_dates``: share of boots with a wrong date. ``wrong_for``: the longest that it stays so, in seconds. ``flat``: share of these
    on which a clock stood still for months. ``calm``: share of boots in which nothing goes wrong for a day; ``stays_up``: why the machine is not stopped then. ``days``: of a dense life in which many of these have their place. ``timer``: share of boots by a timer, None as usual. ``owner_every``: mean
    seconds between two configurations. ``steady``: no boot brings another one. ``gpus``: how many the machine has, one of these. ``late``: share of the boots of a brisk life
    from which on a GPU cannot be read for a while. ``faults_every``: mean seconds between
    faults that come by themselves, in one boot or another. ``alone``: share of the lives in which nothing else goes wrong. ``brisk``: whoever works,
    or rests, does so for hardly longer than a decision takes.
    """

    often: tuple[Happening, ...] = ()
    in_countdown: tuple[Happening, ...] = ()
    in_action: tuple[Happening, ...] = ()
    in_done: tuple[Happening, ...] = ()
    options: Options = _any
    wrong_dates: float = 0.1
    wrong_for: float = HOUR
    flat: float = 0.5
    calm: float = 1 / 50
    stays_up: tuple[str, ...] = ("refused", "refused", "unreadable", "a fair")
    days: float = 0.15
    timer: float | None = None
    owner_every: float = 5 * HOUR
    steady: bool = False
    gpus: tuple[int, ...] = (1, 2, 2, 3)
    late: float = 0.08
    faults_every: tuple[float, ...] = (2400.0, 4800.0, 9600.0)
    alone: float = 0.5
    brisk: bool = False


def _second_action(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    long = ("stop", ("terminate", "shutdown"))
    first, then = rng.choice((("stop", ("shutdown",)), long, long, ("command", ("shutdown",))))
    often = rng.choice((30.0, 60.0, 120.0))  # a pause between two tries is seen where looks are closer than that
    always = {**_stops(rng, spent), "kill_action": first, "fallback": then, "interval": often}
    due = {"lifetime": spent.ran + rng.uniform(0.2, 1.0) * HOUR, "stop_busy": True}
    return {**always, **rng.choice(({}, due))}


def _deadlines(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """Soon; and perhaps the window is longer than what follows a boot."""
    which = rng.choice((("lifetime",), ("lease_until",), ("lifetime", "lease_until")))
    begun = {"lifetime": spent.ran, "lease_until": spent.wall}
    soon = {name: rng.choice((rng.uniform(0.03, 0.2), rng.uniform(0.1, 1.5))) * HOUR for name in which}
    ends = {name: begun[name] + soon[name] for name in which}
    long = rng.choice(({}, {}, {"kill_duration": 1800.0, "boot_grace": 120.0, "grace": 60.0}))
    return {**ends, "stop_busy": rng.random() < 0.6, "mode": "live", "admin_hold": "", **long}


def _budgets(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    period = rng.choice((2 * HOUR, 6 * HOUR))
    share = rng.choice(
        (rng.uniform(0.33, 0.5), rng.uniform(0.33, 0.9), rng.uniform(1.1, 1.5))
    )  # or more than it can cost
    budget = PRICE * (spent.billed + share * period) / HOUR
    runs_on = rng.choice(({}, {"kill_action": "command", "fallback": ()}))
    always = {"price_per_hour": PRICE, "stop_busy": True, "mode": "live", "admin_hold": ""}
    return {"budget": budget, "budget_period": period, **always, **runs_on}


def _forgotten(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    unused = rng.choice((0.5 * HOUR, HOUR))
    stop = {"kill_action": "stop", "fallback": (), "mode": "live", "admin_hold": ""}
    share = {"window_rule": "share", "window_share": rng.choice((0.1, 0.3))}
    rule = rng.choice(({"window_rule": "unbroken"}, {"window_rule": "unbroken"}, share))  # a glance is work, or none
    return {"unused_after": unused, "arm_duration": 420.0, **stop, **rule}


def _stops(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    grace = rng.choice((60.0, 60.0, 60.0, 180.0, 600.0))
    soon = {"kill_duration": 600.0, "arm_duration": rng.choice((60.0, None)), "grace": grace}
    return {"kill_action": "stop", "fallback": (), "mode": "live", "admin_hold": "", **soon}


def _twice_a_day(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """The machine is stopped soon after each boot."""
    unused = {"arm_duration": 300.0, "unused_after": rng.choice((900.0, 1200.0))}
    return {**_stops(rng, spent), "boot_grace": 600.0, **rng.choice(({"arm_duration": None}, unused))}


def _tagged(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """On a cloud's machine, whose tags count."""
    share = {"window_rule": "share", "window_share": rng.choice((0.1, 0.3))}
    window = {"kill_duration": rng.choice((300.0, 600.0, 900.0))}
    return {
        **_stops(rng, spent),
        **window,
        **rng.choice(({}, share)),
        "grace": rng.choice((60.0, 120.0)),
        "rented": True,
    }


def _together(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """The load of several GPUs together arms, and decides."""
    always = {"aggregate": rng.choice(("mean", "mean", "any", "any", "all")), "kill_action": "command", "fallback": ()}
    chosen = {"gpu_devices": rng.choice(((), ("0",), ("1",)))}
    arms = rng.choice((60.0, 120.0, 300.0, None))
    return {**_stops(rng, spent), **always, **chosen, "arm_duration": arms, "unused_after": HOUR}


def _requested(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """Requests to a cloud, one after the other where the first fails."""
    long = ("stop", ("terminate", "shutdown"))
    lists = (("stop", ()), ("stop", ("shutdown",)), long, long, ("hibernate", ("stop",)))
    first, then = rng.choice(lists)
    return {**_stops(rng, spent), "kill_action": first, "fallback": then}


def _guest(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """What is done is done on the machine itself."""
    first, then = rng.choice((("shutdown", ()), ("command", ("shutdown",)), ("command", ()), ("reboot", ())))
    return {**_stops(rng, spent), "kill_action": first, "fallback": then}


def _slow_to_arm(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    return {**_stops(rng, spent), "arm_duration": rng.choice((300.0, 420.0))}


def _dated(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    """On a machine whose date may be wrong, by which a lease would have ended, or not."""
    lease = {"lease_until": spent.wall + rng.uniform(0.2, 3.0) * HOUR, "stop_busy": rng.random() < 0.5}
    return {**_stops(rng, spent), **rng.choice(({}, lease))}


def _waiting(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    return {**_deadlines(rng, spent), "stop_busy": False, "kill_action": "stop", "fallback": ()}


def _unseen(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    return {"unknown_stop_after": rng.choice((0.5 * HOUR, 4 * HOUR, None)), "mode": "live", "unknown_alarm": 600.0}


def _people(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
    total = {"hold_total": rng.choice((0.5 * HOUR, HOUR))}
    held = {"admin_hold": rng.choice(("", "", "", "a fair"))}
    return {"hold_max": rng.choice((HOUR / 3, 24 * HOUR)), "mode": "live", "kill_duration": 600.0, **total, **held}


UNHEARD = (("notify", "fail", 2), ("notify", "fail", 3), ("notify", "fail", 12), ("notify", "hang", 2))
"""Nobody gets a warning, for some tries or for more than there are."""

BENTS: dict[str, Bent] = {
    "second actions": Bent(
        options=_second_action,
        in_countdown=(
            ("go", "refused", 1),
            *(("prepare", "refuse", 1), ("prepare", "refuse", 1)),
            ("prepare", "another", 1),
            ("go", "fail", 3),
            ("go", "fail", 6),
            ("go", "hang_started", 1),
            *("shown as ended", "shown as ended", "the next one is refused", "the next one is refused"),
        ),
        in_action=("reload", "a small change", "suspend"),
    ),
    "deadlines": Bent(
        options=_deadlines,
        often=(
            "reload",
            "edited",
            "suspend",
            "hold",
            *("the deadline moved", "the deadline moved, and back"),
            "the deadline moved over a boot",
            "release",
            *("reboot", "lost over a boot", "lost over a boot"),
        ),
        in_countdown=(
            *("a small change", "edited", "suspend", "the deadline moved", ("go", "fail", 1)),
            *("work begins", "stall", "nobody is there", "the deadline moved, and back"),
        ),
        late=0.45,
    ),
    "budgets": Bent(
        options=_budgets,
        often=("suspend", "reboot", "off for hours"),
        wrong_dates=0.0,
        owner_every=40 * HOUR,
        steady=True,
        days=0.3,
    ),
    "forgotten machines": Bent(
        options=_forgotten,
        often=("reboot", "guard killed", "work beside the unseen"),
        in_countdown=(("go", "fail", 1), ("go", "fail", 2)),
        timer=0.95,
        late=0.2,
        steady=True,
    ),
    "stops in a row": Bent(
        options=_twice_a_day,
        often=("off for hours", "guard killed", "out of sight"),
        in_countdown=(("go", "fail", 1), ("go", "nothing_happens", 1), "out of sight", "stop by hand"),
        in_done=("off for hours", "off for hours", "release by root", "nobody works"),
        timer=0.95,
        owner_every=40 * HOUR,
        steady=True,
    ),
    "several GPUs": Bent(
        options=_together,
        often=(
            *("work beside the unseen", "reboot", ("nvml", "partial", 3), ("nvml", "missing", 30), "nobody works"),
            *("one GPU works", "one GPU works", "one GPU works", "lost at rest", "lost at rest", "reload", "reload"),
        ),
        in_countdown=("out of sight", "work begins", ("nvml", "partial", 3)),
        in_done=("reboot", "nobody works"),
        gpus=(2, 2, 3),
        late=0.6,
        owner_every=20 * HOUR,
    ),
    "wrong dates": Bent(
        options=_dated,
        often=("reboot", "held over a boot", "held over a wrong date", "nobody works"),
        wrong_dates=0.5,
        in_done=("reboot",),
        wrong_for=8 * HOUR,
        flat=0.8,
        timer=0.95,
        owner_every=40 * HOUR,
        steady=True,
    ),
    "unreadable GPUs": Bent(
        options=_unseen,
        often=(
            *(("nvml", "missing", 3), ("nvml", "partial", 3), ("nvml", "missing", 90), "hold", "stall"),
            *("lost at rest", "wrong answers"),
        ),
        in_countdown=(("nvml", "die", 1), ("nvml", "missing", 2), ("nvml", "missing", 30)),
    ),
    "people": Bent(
        options=_people,
        often=(
            *("hold", "release", "held by two", "stop by hand", "held over and over", "a stop between two holds"),
            *("held over a boot", "a stop by hand, and a reload", "held without end"),
            *("a stop by hand, and the guard is killed", "a user's wish for root", "held and released"),
            *("held on a slow disk", "one holds longer", ("persist", "fail", 2)),
        ),
        in_countdown=("hold", ("notify", "fail", 12), "a stop by hand, and the guard is killed"),
        in_done=("release by root", "stop by hand"),
        owner_every=1.5 * HOUR,
    ),
    "stops by hand": Bent(
        options=_requested,
        often=(
            *("stop by hand", "stop by hand", "a stop by hand, and a reload", "work begins", "hold", "nobody works"),
            *("a stop between two holds", "a stop by hand, and the guard is killed"),
        ),
        in_countdown=(
            *(("go", "fail", 1), ("go", "fail", 9), ("go", "nothing_happens", 9), ("go", "hang_started", 1)),
            *(("go", "refused", 1), ("prepare", "refuse", 1), ("notify", "fail", 6), "nobody is there"),
        ),
        in_action=("suspend", "stop by hand", "guard killed", "hold"),
        in_done=("stop by hand", "release by root", "nobody works"),
        owner_every=20 * HOUR,
    ),
    "holes": Bent(
        options=_slow_to_arm,
        often=(
            *("stall", "suspend", "announcement", "two announcements", "an announcement that comes nearer"),
            *("a burst over a stall", "a burst over a stall", "an announcement in a trial", "bursts"),
        ),
        in_countdown=(
            *("stall", "suspend", "announcement", "two announcements", "nobody is there", "state absent", "TERM"),
            *UNHEARD,
        ),
    ),
    "tags": Bent(
        options=_tagged,
        often=(
            "tag",
            "tag, and a guard that cannot read it",
            "guard killed",
            "a tag while nobody works",
            *("a tag over bursts", "bursts", "tag", "tag"),
            *(("cloud", "hang", 1), ("cloud", "garbage", 1), ("cloud", "die", 2), ("cloud", "blind", 9)),
        ),
        in_countdown=UNHEARD,
        owner_every=20 * HOUR,
    ),
    "refusals": Bent(
        options=_requested,
        often=(("plan", "refuse", 40), ("plan", "refuse", 1), "guard killed", "nobody works"),
        in_countdown=(("prepare", "refuse", 1), ("notify", "fail", 12)),
        in_done=("guard killed", "nobody works"),
        owner_every=40 * HOUR,
    ),
    "failing checks": Bent(options=_requested, often=(("plan", "die", 400), "nobody works"), owner_every=40 * HOUR),
    "requests": Bent(
        options=_requested,
        in_countdown=(
            *(("go", "nothing_happens", 1), ("go", "fail", 1), ("go", "hang_started", 1), ("go", "hang_started", 1)),
            *(("go", "refused", 1), ("prepare", "another", 1)),
            *("shown as ended", "shown as ended", "shown as ended"),
        ),
        in_action=("suspend", "state absent", "guard killed"),
        in_done=("nobody works", "work begins", "the state is lost, and nobody works", "hold", "the deadline moved"),
    ),
    "guest actions": Bent(
        options=_guest,
        in_countdown=(
            *(
                ("go", "fail", 1),
                ("go", "fail", 1),
                ("go", "fail", 6),
                ("go", "die_started", 1),
                ("go", "die_after", 1),
            ),
            ("prepare", "die_ready", 1),
            *(("hook", "fail", 1), ("hook", "hang", 1), ("hook", "die", 1)),
        ),
        in_action=("suspend", "guard killed", "state absent"),
        in_done=("nobody works", "guard killed", "the state is lost, and nobody works", "hold", "the deadline moved"),
        owner_every=2 * HOUR,
    ),
    "work that is lost": Bent(
        options=_waiting,
        often=("lost at work", "lost at work", "lost over a boot"),
        in_countdown=("work begins", "lost at work"),
        owner_every=2 * HOUR,
    ),
    "readers": Bent(
        options=_stops,
        often=(
            *(("nvml", "die", 1), ("nvml", "hang", 8), ("nvml", "late", 3)),
            *("readers die while nobody works", "readers that cannot be killed"),
            *("wrong answers", "wrong answers", "wrong answers", "the driver is replaced"),
        ),
        in_countdown=("out of sight", "out of sight", "stall", "nobody is there", "state absent", "TERM"),
        owner_every=40 * HOUR,
    ),
    "signs": Bent(
        options=_stops,
        often=("signs alone", "signs alone", "nobody works", "bursts", "guard killed", "hold"),
        in_countdown=("signs alone", "bursts"),
        owner_every=20 * HOUR,
    ),
}
"""By what they are about."""

CALM = Bent(calm=1.0, days=1.12)
"""A day on which nothing happens: what comes once a day is seen there."""

PLAIN = Bent()
TURNS = tuple(turn for bent in (*BENTS.values(), CALM) for turn in (bent, PLAIN))
"""What lives are about, in turn by their seed: half of them about everything, which notices the most kinds of bugs."""


def bent_of(seed: int) -> Bent:
    """Of the life with this seed."""
    return TURNS[seed % len(TURNS)]


OFTENER = (400.0, 700.0, 1400.0)
"""Mean seconds between faults of a dense life."""

HANDFUL, FEW = 6, 3
"""Things that a life has that is about a handful of everything, and those of them that befall countdowns."""

PACES = ((20.0, 180.0), (30.0, 300.0), (30.0, 300.0), (60.0, 300.0), (60.0, 300.0), (60.0, 600.0), (120.0, 600.0))
"""Interval and window of a dense life, in seconds."""


LISTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ()),
    ("", ()),
    ("stop", ()),
    ("stop", ("shutdown",)),
    ("stop", ("terminate", "shutdown")),
    ("hibernate", ("stop",)),
    ("end_process", ()),
    ("command", ()),
)
"""What is done to the machine of a dense life; without a name, what its policies draw."""


def dense(bent: Bent, dice: random.Random, more: tuple[Happening, ...] = ()) -> Bent:
    """The same for a life of some hours, in which limits are tight: budgets, windows and waits are reached within that. ``more``: what befalls it beside."""
    pace, window = dice.choice(PACES)
    first, then = dice.choice(LISTS)
    tight = {
        "interval": pace,
        "kill_duration": window,
        "grace": dice.choice((*[60.0] * 4, 180.0, 180.0, 300.0, 1500.0)),
        "boot_grace": dice.choice((120.0, 120.0, 600.0)),
        "arm_duration": dice.choice((60.0, 60.0, 300.0, None)),
        "unused_after": dice.choice((900.0, 1200.0, 0.5 * HOUR, HOUR)),
        "unknown_alarm": dice.choice((180.0, 300.0, 600.0)),
        "hold_max": dice.choice((600.0, 1200.0, HOUR)),
        "hold_total": dice.choice((0.5 * HOUR, HOUR, 2 * HOUR)),
        "extend_max": dice.choice((600.0, 0.5 * HOUR, 2 * HOUR)),
        "admin_hold": "",
        "mode": dice.choice(("live", "live", "live", "live", "dry-run")),
    }
    own, does = bent.options, {"kill_action": first, "fallback": then} if first else {}

    def options(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
        kept = {name: value for name, value in tight.items() if rng.random() < TIGHT}
        made = {**kept, **does, **own(rng, spent)}
        if made.get("kill_duration", 0.0) <= LONG_WINDOW:  # else its length is what this life is about
            made |= {name: kept[name] for name in ("kill_duration", "grace") if name in kept}
        return made

    return bent._replace(options=options, often=bent.often + more, faults_every=OFTENER, brisk=True)


LONG_WINDOW = 900.0
"""Seconds: a longer window than that is kept in a dense life."""


TIGHT = 0.9
"""Share of the limits that every configuration of a dense life keeps."""


def both(one: Bent, other: Bent) -> Bent:
    """A life about two things."""

    def options(rng: random.Random, spent: Spent) -> Mapping[str, Any]:
        first, then = rng.sample((one, other), 2)  # what both set, now this one sets, now that one
        return {**first.options(rng, spent), **then.options(rng, spent)}

    return Bent(
        often=one.often + other.often,
        in_countdown=one.in_countdown + other.in_countdown,
        in_action=one.in_action + other.in_action,
        in_done=one.in_done + other.in_done,
        options=options,
        wrong_dates=max(one.wrong_dates, other.wrong_dates),
        wrong_for=max(one.wrong_for, other.wrong_for),
        flat=max(one.flat, other.flat),
        calm=0.0,
        days=max(one.days, other.days),
        timer=one.timer if one.timer is not None else other.timer,
        owner_every=min(one.owner_every, other.owner_every),
        steady=one.steady or other.steady,
        gpus=max(one.gpus, other.gpus),
        late=max(one.late, other.late),
    )


def drawn(dice: random.Random) -> Bent:
    """A handful of everything that other lives are about, and no more (swarm testing)."""
    others = [*BENTS.values()]
    options = dice.choice((_any, *[other.options for other in others]))
    often = sorted({happening for other in others for happening in other.often}, key=str)
    countdown = sorted({happening for other in others for happening in other.in_countdown}, key=str)
    return Bent(
        often=tuple(dice.sample(often, HANDFUL)),
        in_countdown=tuple(dice.sample(countdown, FEW)),
        options=options,
        calm=0.0,
        alone=0.3,
    )
