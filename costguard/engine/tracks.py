"""From one observation to what every signal has done over time."""

from costguard.engine.deadline import work_over_seconds
from costguard.engine.events import Tick
from costguard.engine.observation import Device, Known, Observation, Reading, Unknown
from costguard.engine.pre_stop_hook import hook_works, without_hook_work, work_began
from costguard.engine.rules import CLOCK_NOISE_SECONDS, LOOK_SECONDS, Rules
from costguard.engine.state import Clocks, Core, Selection, Signals, State
from costguard.engine.window import Track, advance, become_unknown, begin, never_known

ANEW = frozenset({"reload", "resume"})
"""After these, what was seen before counts no more."""

NOT_LISTED = Unknown("not listed any more")


def is_busy(reading: Known, rules: Rules) -> bool:
    """Load at or above the threshold, a sign of work, or a number that is none (never quiet)."""
    return not 0.0 <= reading.load < rules.quiet_threshold or (rules.heeds_signs and bool(reading.signs))


def is_strong(readings: tuple[Reading, ...], rules: Rules) -> bool:
    """Whether there is more than one kind of weak sign: load at the threshold, or signs of two kinds."""
    kinds = set()
    for reading in readings:
        if isinstance(reading, Known):
            if not 0.0 <= reading.load < rules.quiet_threshold:
                return True
            kinds.update([sign.rpartition(": ")[2].partition(" ")[0] for sign in reading.signs])
    return len(kinds) > 1


def above_arm(readings: tuple[Reading, ...], picked: tuple[int, ...], rules: Rules) -> bool:
    """Whether the load that `aggregate` forms of the selected GPUs is above the arm threshold."""
    loads = [reading.load for i in picked if type(reading := readings[i]) is Known]
    threshold = rules.policy.arm_threshold
    if not rules.by_mean:
        return any(load > threshold for load in loads)  # the highest of them is none where one is no number
    return bool(loads) and len(loads) == len(picked) and sum(loads) / len(loads) > threshold


def observe(state: State, tick: Tick, rules: Rules) -> tuple[State, tuple[Reading, ...], bool]:
    """Carry every track over one tick; also the readings in their order, and whether a judged GPU's history began anew."""
    gpus, readings = _line_up(state.gpus, tick.observation)
    core = state.core
    if gpus != state.gpus or not core.selection.picked:
        core = pick(core, gpus, rules)
    before, window, anew = state.at, rules.policy.kill_duration, core.fresh_start in ANEW
    olds = (*state.tracks, *(None,) * (len(gpus) - len(state.gpus)))  # those that are new stand at the end
    if hook_works(core, before):
        readings = without_hook_work(readings, olds)
    tracks: list[Track] = []
    fresh_since: list[float] = []
    point = 0.0 if core.fresh_start == "restart" else rules.gap  # what the dead guard last saw may not have been saved
    hole = tick.at - before
    for position, (old, reading) in enumerate(zip(olds, readings, strict=True)):
        seen = old is not None and old.unknown_since is None and not anew
        if seen and type(reading) is Known and hole <= point:  # `_carry` for the most part
            assert old is not None
            busy = is_busy(reading, rules)
            tracks.append(old if busy is old.busy else advance(old, busy, before, window))
            continue
        last = _last_seen(old, reading, tick.at, before, ruled_anew=core.fresh_start == "reload") if anew else old
        track, restarted = _carry(last, reading, tick.at, before, rules, window, point, first=not state.gpus)
        tracks.append(track)
        if restarted and position in core.selection.judged:
            fresh_since.append(track.known_since)
    core = _machine(core, tuple(tracks), readings, tick, before, rules, max(fresh_since, default=None))
    after = State(tick.at, gpus, tuple(tracks), core)
    if (began := work_began(state.core, before, rules.gap)) < before:
        after = _outlasting_the_hook(after, olds, state.core.signals, began)
    return after, readings, bool(fresh_since)


def _outlasting_the_hook(after: State, olds: tuple[Track | None, ...], earlier: Signals, began: float) -> State:
    """With work that is seen for the first time as if it had begun at that moment: so much of it hid behind the hook."""
    signals = after.core.signals
    signals = signals._replace(
        work=_backdated(signals.work, earlier.work, began),
        mean=_backdated(signals.mean, earlier.mean, began),
        known_work=_backdated(signals.known_work, earlier.known_work, began),
    )
    tracks = [_backdated(track, old, began) or track for track, old in zip(after.tracks, olds, strict=True)]
    return after._replace(tracks=tuple(tracks), core=after.core._replace(signals=signals))


def _backdated(track: Track | None, old: Track | None, began: float) -> Track | None:
    if track is None or old is None or old.busy or not track.busy:
        return track
    return track._replace(since=min(track.since, max(began, old.since)))


def _line_up(known: tuple[str, ...], observation: Observation) -> tuple[tuple[str, ...], tuple[Reading, ...]]:
    """Every GPU ever expected in this boot has its place; one that is not listed any more is unknown."""
    if observation.gpus == known:
        return known, observation.readings
    seen = dict(zip(observation.gpus, observation.readings, strict=True))
    gpus = known + tuple(key for key in observation.gpus if key not in known)
    return gpus, tuple(seen.get(key, NOT_LISTED) for key in gpus)


def pick(core: Core, gpus: tuple[str, ...], rules: Rules) -> Core:
    """Which GPUs `gpu_devices` selects, which the action needs quiet, and which names fit none."""
    everything = tuple(range(len(gpus)))
    devices, wanted = core.selection.devices, rules.policy.gpu_devices
    if not wanted:
        return core._replace(selection=Selection(devices, everything, everything))
    by_key = {device.key: device for device in devices}
    names = [_names(by_key.get(key, Device(key))) for key in gpus]
    picked = tuple(i for i in everything if names[i] & set(wanted))
    unmatched = tuple(name for name in wanted if not any(name in own for own in names))
    return core._replace(selection=Selection(devices, picked, everything if rules.ends_machine else picked, unmatched))


def _names(device: Device) -> set[str]:
    names = {device.key, device.uuid} - {""}
    return names if device.number is None else names | {str(device.number)}


def _last_seen(old: Track | None, reading: Reading, at: float, before: float, *, ruled_anew: bool) -> Track | None:
    """Everything begins anew; of a GPU that cannot be read is kept how and when it was last seen, and no more.

    A deadline must not stop, unseen, a machine that was seen working a moment ago; what was never seen may work, and so may
    what was quiet under another policy, whose threshold may have been higher.
    """
    if old is None or not isinstance(reading, Unknown):
        return None
    worked = old.busy or never_known(old) or ruled_anew
    return Track(worked, at, at, (), before if old.unknown_since is None else old.unknown_since)


def _carry(
    old: Track | None,
    reading: Reading,
    at: float,
    before: float,
    rules: Rules,
    window: float,
    point: float,
    *,
    first: bool,
) -> tuple[Track, bool]:
    """One GPU over one tick; the second value is True when its history begins anew.

    ``point`` is for how many seconds a momentary value stands.
    """
    if isinstance(reading, Unknown):
        if old is None:
            return Track(False, at, at, (), at), True
        return become_unknown(old, before), False
    busy = is_busy(reading, rules)
    reach = max(reading.covers, point)
    # else nothing but `_last_seen`
    if old is not None and (old.unknown_since is None or old.unknown_since >= old.known_since):
        last = before if old.unknown_since is None else old.unknown_since
        # a momentary value after unknown says nothing about the hole; evidence that reaches across it does
        if at - last <= (reach if old.unknown_since is None else reading.covers + LOOK_SECONDS):
            return advance(old, busy, last, window), False
    hole = at - before if old is not None or not first else rules.policy.interval
    # evidence that does not reach across the hole counts no further than a reading: alike in a guard that watched it
    return begin(busy, at - min(rules.policy.interval, hole)), True


def _machine(
    core: Core,
    tracks: tuple[Track, ...],
    readings: tuple[Reading, ...],
    tick: Tick,
    before: float,
    rules: Rules,
    restarted: float | None,
) -> Core:
    """The machine as a whole: its clocks and vetoes, and what its signals have done over time."""
    policy, at, seen, window = rules.policy, tick.at, tick.observation, rules.policy.kill_duration
    picked, judged, unmatched = core.selection[1:]
    unknown, busy = not judged or bool(unmatched), False
    for i in judged:
        if tracks[i].unknown_since is not None:
            unknown = True
        elif tracks[i].busy:
            busy = True
    known_work = _known_work(core, at, before, rules, busy=busy)
    if core.fresh_start in ANEW:
        core = _forget(core)
    old = core.signals
    look = at - min(policy.interval, at - before)  # what a reading that begins anew stands for
    start = look - core.ledger.unused if old.work is None else look
    unused_window = policy.unused_after or window
    work = _advance_joint(
        old.work, busy, before, unused_window, unknown=unknown, restarted=restarted, start=start, at=at
    )
    # unknown: evidence for each part does not tell what their mean was
    mean = old.mean if old.mean is not None and old.mean.unknown_since is None else None
    if rules.judges_mean:
        high = _mean_is_busy(readings, picked, rules)
        mean = _advance_joint(mean, high, before, window, unknown=unknown, restarted=restarted, start=look, at=at)
    strong = _advance_known(old.strong_work, busy and is_strong(readings, rules), before, window, before)
    watched = old.host if at - before <= rules.gap else None
    signals = Signals(
        work=work,
        mean=mean,
        known_work=known_work,
        strong_work=strong if rules.heeds_signs else None,
        host=_advance_known(watched, seen.quiet_host is not True, before, window, at),
        unknown_since=None if not unknown else before if old.unknown_since is None else old.unknown_since,
        above_arm_since=old.above_arm_since,
        armed_at=old.armed_at,
    )
    clocks = _clocks(core.clocks, tick)
    return core._replace(signals=signals, clocks=clocks, vetoes=seen.vetoes, quiet_host=seen.quiet_host)


def _known_work(core: Core, at: float, before: float, rules: Rules, *, busy: bool) -> Track:
    """Work that is known; what ended a moment ago, under another policy, has ended now: a deadline waits for that."""
    old = core.signals.known_work
    if core.fresh_start not in ANEW:
        return _advance_known(old, busy, before, rules.policy.kill_duration, before)
    pause = work_over_seconds(rules)
    if not busy and old is not None and (old.busy or (_ended(old) and at - old.since < pause)):
        return Track(busy=False, since=at, known_since=before)
    return begin(busy, before)


def _ended(track: Track) -> bool:
    """Whether the track saw a level end."""
    return track.since > track.known_since


def _forget(core: Core) -> Core:
    """Under another policy, and after a sleep, nothing that was seen before counts."""
    signals = core.signals._replace(work=None, mean=None, strong_work=None)
    if core.fresh_start == "resume":
        signals = signals._replace(host=None, unknown_since=None)
    alarms, ledger = core.alarms._replace(weak_sign=None, kept=None), core.ledger._replace(unused=0.0)
    return core._replace(signals=signals, alarms=alarms, ledger=ledger)


def _mean_is_busy(readings: tuple[Reading, ...], picked: tuple[int, ...], rules: Rules) -> bool:
    loads = [reading.load for i in picked if type(reading := readings[i]) is Known]
    return not (loads and 0.0 <= sum(loads) / len(loads) < rules.quiet_threshold)


def _advance_known(old: Track | None, busy: bool, before: float, window: float, start: float) -> Track:
    """A signal that is never unknown, over one tick; a new one begins at ``start``."""
    return begin(busy, start) if old is None else advance(old, busy, before, window)


def _clocks(clocks: Clocks, tick: Tick) -> Clocks:
    """What the clocks say, as long as they part by no more than noise: the fast path must find what this left."""
    if not abs(tick.suspended - clocks.suspended) <= CLOCK_NOISE_SECONDS:
        clocks = clocks._replace(suspended=tick.suspended)
    if not abs(tick.wall - clocks.wall - tick.at + clocks.wall_at) <= CLOCK_NOISE_SECONDS:
        clocks = clocks._replace(wall=tick.wall, wall_at=tick.at)
    return clocks if clocks.synced is tick.synced else clocks._replace(synced=tick.synced)


def _advance_joint(
    old: Track | None,
    busy: bool,
    before: float,
    window: float,
    *,
    unknown: bool,
    restarted: float | None,
    start: float,
    at: float,
) -> Track:
    """A signal made of several GPUs: unknown when one of them is, begun anew when one of them was."""
    if unknown:
        if old is None:
            return Track(busy, at, at, (), at)
        if busy and not old.busy:  # work that is seen beside what is not: nothing before it counts any more
            return Track(True, before, before, (), before)
        if restarted is not None and not old.busy:  # nor does what was before a hole that ends while another one lasts
            return Track(False, restarted, restarted, (), restarted)
        return become_unknown(old, before)
    if old is None or (old.unknown_since is not None and old.busy):
        return begin(busy, start)
    if restarted is not None:
        return begin(busy, restarted)
    return advance(old, busy, before if old.unknown_since is None else old.unknown_since, window)
