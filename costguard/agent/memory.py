"""Saves the engine's state for a restart, and commitments that outlive a boot.

The state goes into memory (a runtime directory on tmpfs); the commitments too and, through a process of their own, to
the disk, which may hang.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costguard.agent.disk import CommitmentWriter
from costguard.agent.reader import HANDOVER
from costguard.engine.policy import Policy
from costguard.engine.saved import Commitments, alike, commitments, dump, initial, load, with_commitments
from costguard.engine.state import OPEN, Core, State
from costguard.engine.window import Track
from costguard.host.files import Start
from costguard.host.ports import Host, Instant, Report
from costguard.process.lean_json import encode
from costguard.process.wire import from_line, plain, to_line

SAVE_EVERY_SECONDS = 30.0
"""Between saves of a state in which only windows and times moved."""

STILL_EVERY_SECONDS = 120.0
"""The same when only the time is new: energy counters bridge what a guard that is killed then leaves unsaved."""

COMMIT_EVERY_SECONDS = 3600.0
"""Between saves of the commitments (unused and running time) to the disk: each costs a process."""

COUNTED_EVERY_SECONDS = 600.0
"""The same where running time counts against a budget or a lifetime."""

SAME_SECONDS = 1.0
"""Two beginnings of unused time that differ by less are the same."""

UNUSABLE = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a malformed document may raise."""

ApplyTags = Callable[[object], Policy]


class SavedParts(NamedTuple):
    """What the state file keeps of the guard's parts besides the engine; the next guard's parts resume from it.

    Each part reads what it wrote; what it cannot read costs that part alone.
    """

    counters: object = None  # from the nvml reader, as ``learnt``; one that changed is another object
    learnt: object = None
    detached: bool = False
    tags: object = None  # `CloudSide.memory`
    told: object = None  # `Workers.kept`
    hooks: object = None  # `HookRunner.kept`
    found: object = None  # `GpuSide.findings_told`
    order: int = 0  # number of the save

    @property
    def handover(self) -> dict[str, object]:
        """What is handed to the next nvml reader."""
        return {name: getattr(self, name) for name in HANDOVER}


class SavedEngine(NamedTuple):
    """What the same file keeps of the engine: the rules it was made under, a checksum of what its plans depend on, and its state."""

    rules: tuple[object, ...] = ("",)
    ground: int | None = None
    engine: Mapping[str, object] = {}


class Restored(NamedTuple):
    """What an earlier process left. ``fresh_starts`` are the reasons for which the engine begins again, in this order.

    ``proven``: the basis of its plans is unchanged.
    """

    state: State
    parts: SavedParts = SavedParts()
    fresh_starts: tuple[str, ...] = ()
    proven: bool = True


def plan_basis(config: Mapping[str, Any]) -> int:
    """Checksum of what the plans of actions depend on in this configuration."""
    sections = {
        name: config.get(name) for name in ("providers", "cloud", "actions", "sink", "heartbeat", "host", "task")
    }
    return zlib.crc32(json.dumps([config["policy"]["mode"], sections], sort_keys=True).encode())


def quiet_ended(work: Track, since: float) -> bool:
    """Whether quiet that began then has ended: by work, by unknown readings, or by a resume, which counts as a start."""
    return work.busy or work.unknown_since is not None or max(work.since, work.known_since) > since


class Memory:
    """Saves what changed, no more often than needed. ``report`` gets the subjects *state* and *commitments*."""

    def __init__(
        self, host: Host, disk: CommitmentWriter, config: Mapping[str, Any], policy: Policy, now: float, report: Report
    ) -> None:
        self._host, self._disk, self._report, self._version = host, disk, report, str(config.get("version"))
        self.plan_basis = plan_basis(config)
        self._essence: tuple[object, ...] = ()
        self._saved_at = -SAVE_EVERY_SECONDS
        self._lasting: tuple[object, ...] = ()
        self._committed_at = now
        self._unused_since: float | None = float("-inf")  # as saved; an earlier process may have saved any
        self._written: tuple[State | None, str] = (None, "")  # the last saved state of the engine, and its JSON
        self._learnt: object = None  # by the reader, as saved
        self._order = 0  # number of the last save, of either file: the higher one is the newer one
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """Work under this policy."""
        self._policy = policy
        text = json.dumps([self._version, *policy])
        # what a saved state was made under, as JSON reads it back
        self._rules: tuple[object, ...] = tuple(json.loads(text))
        self._mark = zlib.crc32(text.encode())  # a checksum of that
        self._written = (None, "")
        self._essence = ()  # saved with the next step: under another policy than this one no state is gone on with

    def restore(self, boot: Start, now: float, apply_tags: ApplyTags) -> Restored:
        """The state of this boot if it can be used, else a fresh one with the commitments.

        ``apply_tags`` takes the saved tags and returns the policy under which the state goes on.
        """
        if boot.state is not None:
            try:
                parts, saved = from_line(SavedParts, boot.state), from_line(SavedEngine, boot.state)
                state = self._newest(load(saved.engine), parts.order, boot)
                self.adopt(apply_tags(parts.tags))
                # another policy, version or basis of its plans: a running warning is taken back
                proven, rules = saved.ground == self.plan_basis, saved.rules or ("",)
                changed = "upgrade" if rules[0] != self._version else "reconfigured"
                again = ("restart",) if proven and rules == self._rules else ("restart", changed)
                if changed in again and state.core.fresh_start not in {"boot", "lost"}:
                    # quiet under another policy is no unused time, whatever is committed before the first tick
                    state = state._replace(core=state.core._replace(fresh_start="reload"))
                return Restored(state, parts, again, proven)
            except UNUSABLE as error:
                self._host.say(f"<3>the saved state is unusable ({error}); starting without it")
        lost = boot.lost or boot.state is not None
        return Restored(self._fresh(boot, now, lost=lost))

    def _newest(self, state: State, order: int, boot: Start) -> State:
        """The saved state; with the commitments where it could not be saved any more, and they could."""
        self._order = order
        try:
            lasting = from_line(Commitments, boot.commitments) if boot.commitments else None
            if lasting is None or lasting.boot_id != boot.boot_id or lasting.order <= order:
                return state
            state, self._order = with_commitments(state, lasting), lasting.order
        except UNUSABLE as error:
            self._host.say(f"<3>the saved commitments are unusable ({error}); using the saved state alone")
        return state

    def _fresh(self, boot: Start, now: float, *, lost: bool) -> State:
        """A state from the commitments alone; ``lost``: there was one of this boot, so people are warned."""
        try:
            lasting = from_line(Commitments, boot.commitments) if boot.commitments else None
            if lasting is not None and lasting.rules != self._mark:
                # quiet under another policy: a full time is needed under this one
                lasting = lasting._replace(unused=0.0)
            state = initial(boot.boot_id, boot.instance, lasting, now)
            self._order = lasting.order if lasting is not None else 0
        except UNUSABLE as error:
            self._host.say(f"<3>the saved commitments are unusable ({error}); holds and deadlines are lost")
            lost = True
            state = initial(boot.boot_id, boot.instance, None, now)
        core = state.core._replace(fresh_start="lost") if lost and not state.core.fresh_start else state.core
        if core.fresh_start == "lost":  # time asleep is no running time, whatever is committed before the first tick
            instant = self._host.clock()
            core = core._replace(clocks=core.clocks._replace(suspended=instant.boot - instant.mono))
        return state._replace(core=core)

    def nothing_to_save(self, before: Core, state: State, learnt: object) -> bool:
        """Whether a step left nothing for `save_changes` to save; ``learnt``: what the reader has learnt so far."""
        return state.core is before and state.at - self._saved_at < STILL_EVERY_SECONDS and learnt is self._learnt

    def save_changes(self, before: Core, state: State, parts: SavedParts, *, outcome: bool) -> None:
        """Save what is worth it after a step; ``outcome``: its event was the outcome of an effect."""
        core, at = state.core, state.at
        learnt = parts.learnt
        if self.nothing_to_save(before, state, learnt):
            return
        clocks = (core.clocks.started, core.clocks.suspended, core.clocks.synced)
        people = (core.people.holds, core.deadline.extensions, core.plans.verdicts, core.alarms.unknown)
        hatches = tuple([veto for veto in core.vetoes if veto.hatch])  # a tag that forbids outlives who heard of it
        essence = (core.serial, core.phase, core.ending.done, core.signals.armed_at, clocks, people, hatches)
        if (
            outcome
            or essence != self._essence
            or at - self._saved_at >= SAVE_EVERY_SECONDS
            or learnt is not self._learnt
        ):
            self._essence = essence
            self.save(state, parts)
        # while the disk still has unused time: a crash of the machine must not lose that it is over
        work, saved = core.signals.work, self._unused_since
        worked = saved is not None and (
            core.signals.armed_at is not None or (work is not None and quiet_ended(work, saved))
        )
        now_open = core.incident.id if core.incident is not None and core.phase in OPEN else ""
        promised = (core.people.holds, core.deadline.extensions)
        lasting = (promised, core.ledger.stops, now_open, core.phase if now_open else "")
        if worked or lasting != self._lasting:
            self._lasting = lasting
            self.commit(state, self._host.clock())

    def save(self, state: State, parts: SavedParts) -> None:
        """Save the state for a restart now."""
        written, text = self._written
        if written is None or not alike(state, written):
            same = {name: value for name, value in dump(state).items() if name != "at"}
            text = encode(plain(SavedEngine(self._rules, self.plan_basis, same)))[1:-2]
        self._written = (state, text)
        self._learnt = parts.learnt
        self._order += 1
        beside = encode(plain(parts._replace(order=self._order)))[:-1]
        # in a tick that changes nothing only the time is new
        failure = self._host.save(f'{beside},{text},"at":{state.at!r}}}}}'.encode())
        self._saved_at = state.at
        self._report("state", failure)

    def commit_due(self, at: float) -> bool:
        """Whether the commitments are due to be saved: running time adds up in them."""
        policy = self._policy
        counts = policy.budget is not None or policy.lifetime is not None
        return at - self._committed_at >= (COUNTED_EVERY_SECONDS if counts else COMMIT_EVERY_SECONDS)

    def commit(self, state: State, now: Instant) -> None:
        """Save the commitments: now in memory, soon on the disk."""
        self._order += 1
        lasting = commitments(state, now.boot, now.wall, self._policy.price_per_hour)
        lasting = lasting._replace(rules=self._mark, order=self._order)
        self._unused_since = state.at - lasting.unused + SAME_SECONDS if lasting.unused else None
        data = to_line(lasting)
        self._committed_at = now.boot
        self._report("commitments", self._host.save_commitments(data))
        self._disk.save(data, now)
