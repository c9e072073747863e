"""One step in the making: the core as it changes, and the effects that it asks for."""

from typing import Generic, TypeVar, cast

from costguard.engine import deadline
from costguard.engine.deadline import Situation
from costguard.engine.effects import Effect, Tell
from costguard.engine.idleness import concerned
from costguard.engine.observation import Device
from costguard.engine.reasons import reason_of
from costguard.engine.rules import Rules
from costguard.engine.state import (
    CONFIRMING,
    WATCHING,
    Alarms,
    Announcement,
    Attempt,
    Clocks,
    Core,
    Deadline,
    Ending,
    Incident,
    Interruption,
    Ledger,
    PendingMessage,
    People,
    Plans,
    Selection,
    Signals,
    State,
)
from costguard.engine.window import NEVER

MADE_ANEW = frozenset((
    "warning", "countdown", "unguarded", "acting", "next_action",
    "done", "would_act", "cannot", "outcome_unknown", "failed", "reminder",
))  # fmt: skip
"""Messages that a guard which begins again makes anew: of a countdown, of a request, and of what came of them."""

REQUESTED = frozenset(("accepted", "asking", "stopping"))
"""Messages about a request that was sent. The last is repeated while nothing else is known: the machine may end before there is more."""

PENDING_LIMIT = 16
"""Pending messages that are kept; of more, the oldest are not told again."""

TOLD_AGAIN_WITHIN_SECONDS = 3600.0
"""What is older is no news, and nobody knows any more who has taken it."""

Value = TypeVar("Value")


class CorePart(Generic[Value]):
    """One part of the core, read and replaced as if it were the turn's own."""

    def __init__(self, of: str = "core") -> None:
        self._of = of  # the attribute of a turn that holds it

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, turn: "Turn", owner: type) -> Value:
        return cast("Value", getattr(getattr(turn, self._of), self._name))

    def __set__(self, turn: "Turn", value: Value) -> None:
        setattr(turn, self._of, getattr(turn, self._of)._replace(**{self._name: value}))


class Turn:
    """A scratch pad for one event. It lives for one call of `step` and is never shared."""

    __slots__ = ("at", "core", "effects", "gpus", "hook_works", "looked_wall", "rules", "synced", "tracks", "wall")

    def __init__(self, state: State, rules: Rules, at: float, wall: float, *, synced: bool | None) -> None:
        self.at = at
        self.gpus = state.gpus
        self.tracks = state.tracks
        self.core: Core = state.core
        self.rules = rules
        self.wall = wall
        self.looked_wall = wall  # the date of ``at``, which only a look moves
        self.synced = synced
        self.hook_works = False  # whether what this tick saw may be the doing of the pre-stop hook
        self.effects: list[Effect] = []

    clocks: "CorePart[Clocks]" = CorePart()
    selection: "CorePart[Selection]" = CorePart()
    signals: "CorePart[Signals]" = CorePart()
    alarms: "CorePart[Alarms]" = CorePart()
    ending: "CorePart[Ending]" = CorePart()
    people: "CorePart[People]" = CorePart()
    notice: "CorePart[Interruption]" = CorePart()
    plans: "CorePart[Plans]" = CorePart()
    ledger: "CorePart[Ledger]" = CorePart()
    deadline: "CorePart[Deadline]" = CorePart()
    announcement: "CorePart[Announcement]" = CorePart("incident")
    attempt: "CorePart[Attempt]" = CorePart("incident")

    @property
    def state(self) -> State:
        """The state as it stands."""
        return State(self.at, self.gpus, self.tracks, self.core)

    @property
    def situation(self) -> Situation:
        """What reasons are judged by."""
        return Situation(self.state, self.rules, self.looked_wall, self.synced)

    @property
    def live(self) -> bool:
        """Whether actions have an effect."""
        return self.rules.policy.mode == "live"

    @property
    def incident(self) -> Incident:
        """The open incident. Raises LookupError when there is none."""
        if self.core.incident is None:
            raise LookupError("there is no incident")
        return self.core.incident

    @incident.setter
    def incident(self, incident: Incident) -> None:
        self.core = self.core._replace(incident=incident)

    def watch(self) -> None:
        """Go back to WATCHING: nothing is open, and nothing is latched."""
        self.core = self.core._replace(phase=WATCHING, incident=None)
        self.ending = self.ending._replace(done="", remind_at=NEVER, retry_at=NEVER, disproved_at=NEVER)

    def expect(self, seconds: float) -> None:
        """What is under way counts as failed when nothing was heard of it for so long."""
        self.incident = self.incident._replace(outcome_deadline=self.at + seconds)

    def cost(self, seconds: float) -> float | None:
        """What the machine costs in so much time; None where nobody knows its price."""
        price = self.rules.policy.price_per_hour
        return None if price is None else seconds / 3600.0 * price

    def serial(self, prefix: str) -> str:
        """A new effect or incident id; ids of another boot differ by the boot id."""
        number = self.core.serial + 1
        self.core = self.core._replace(serial=number)
        return f"{self.core.boot_id[:8]}-{prefix}{number}"

    def tell(self, kind: str, level: str, **facts: object) -> str:
        """Ask for a message; gives the effect id under which its outcome will be reported."""
        effect_id = self.serial("m")
        message = Tell(effect_id, kind, level, {**self.facts(), **facts})
        self.effects.append(message)
        if kind not in MADE_ANEW:
            before = [one for one in self.core.pending_messages if not (kind in REQUESTED and one.kind in REQUESTED)]
            kept = (*before, PendingMessage(effect_id, kind, level, message.facts, self.at))
            self.core = self.core._replace(pending_messages=kept[-PENDING_LIMIT:])
        return effect_id

    def settle_message(self, effect_id: str) -> None:
        """Forget a pending message: it is known whether it arrived."""
        if any(one.effect == effect_id for one in self.core.pending_messages):
            left = tuple(one for one in self.core.pending_messages if one.effect != effect_id)
            self.core = self.core._replace(pending_messages=left)

    def tell_again(self, at: float) -> None:
        """Send the pending messages of the guard before this one once more; whoever has taken one is spared."""
        out = self.core.phase == CONFIRMING
        recent = tuple(
            one
            for one in self.core.pending_messages
            if at - one.at <= TOLD_AGAIN_WITHIN_SECONDS and (out or one.kind not in REQUESTED)
        )
        self.core = self.core._replace(pending_messages=recent)
        again = [(one, {**one.facts, "told_again": True, "told_at": one.at}) for one in recent]
        self.effects += [Tell(one.effect, one.kind, one.level, facts) for one, facts in again]

    def facts(self) -> dict[str, object]:
        """What every message may need; `costguard.notify.compose` says what it makes of each."""
        policy, core = self.rules.policy, self.core
        incident = core.incident
        common: dict[str, object] = {
            "mode": policy.mode,
            "instance": core.instance,
            "phase": core.phase,
            "action": action_of(incident, self.rules),
            "gpus": [label(core, self.gpus[position]) for position in concerned(self.state, self.rules)],
            "threshold": self.rules.quiet_threshold,
            "window": reason_of(incident).window(policy) if incident is not None else policy.kill_duration,
            "grace": policy.grace,
            "wall": self.wall,
            "stop_below_load": policy.stop_below_load and self.rules.ends_machine,
            "price_per_hour": policy.price_per_hour,
            "currency": policy.currency,
            "hold_left": max(0.0, policy.hold_total - core.people.charged),
        }
        if incident is not None:
            plan = core.plans.last(incident.action)
            common.update(incident=incident.id, reason=incident.reason, owner=incident.owner)
            findings = plan.findings if plan is not None else ()
            common["findings"] = [list(finding) for finding in (*findings, *incident.hook_failed)]
            if incident.announcement.exhausted:
                common["unreached_tries"] = incident.announcement.attempts
                if incident.announcement.reached:
                    common["unreached_only"] = incident.announcement.reached
            if reason_of(incident).by_date:
                movable = deadline.movable_seconds(self.situation, self.at)
                common.update(limit=deadline.first(self.situation).name, stop_busy=policy.stop_busy, movable=movable)
            if incident.receipt:
                common["receipt"] = incident.receipt
        return common


def action_of(incident: Incident | None, rules: Rules) -> str:
    """The action that an incident has come to in its fall-back list."""
    return incident.action if incident is not None else rules.actions[0]


def label(core: Core, key: str) -> str:
    """What people call a GPU: its index and name where known, else its PCI address."""
    device: Device | None = next((d for d in core.selection.devices if d.key == key), None)
    if device is None or device.number is None:
        return key
    return f"GPU {device.number}" + (f" ({device.name})" if device.name else "")
