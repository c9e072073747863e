"""What ``costguard status`` shows, as JSON values."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from costguard.engine import deadline
from costguard.engine.deadline import Situation
from costguard.engine.idleness import weak_sign_alone
from costguard.engine.machine import Step
from costguard.engine.observation import Known, Observation
from costguard.engine.obstacles import due_at
from costguard.engine.policy import Policy
from costguard.engine.reasons import OWN_REASONS
from costguard.engine.rules import Rules, rules_of
from costguard.engine.standstill import standstills, unmatched_names
from costguard.engine.state import Core, State
from costguard.engine.turn import action_of, label
from costguard.engine.window import NEVER

Findings = Mapping[str, tuple[str, str]]
"""What the reader found out about a GPU, by its key: a code and a text."""

Date = Callable[[float | None], float | None]


def report(
    step: Step, seen: Observation, policy: Policy, wall: float, findings: Findings = MappingProxyType({})
) -> dict[str, Any]:
    """The engine's part of the status; ``wall`` is the date of its last step."""
    state, core, rules = step.state, step.state.core, rules_of(policy)
    situation, date = Situation(state, rules, wall, core.clocks.synced), partial(_date, wall, state.at)
    return {
        "sentence": str(step.sentence),
        "state": step.sentence.word,
        "phase": core.phase,
        "mode": policy.mode,
        "action": action_of(core.incident, rules),
        "armed": core.signals.armed_at is not None or policy.arm_duration is None,
        "gpus": _gpus(state, seen, findings, date),
        "lacking": unmatched_names(core, state.gpus) if core.selection.unmatched else "",
        "standstill": [cause._asdict() for cause in standstills(core, state.gpus, rules)],
        "policy": policy._asdict(),
        "window": policy.kill_duration,
        "threshold": rules.quiet_threshold,
        **{f"{reason.name}_at": date(reason.at(situation)) for reason in OWN_REASONS},
        "started": date(core.clocks.started),
        "boot_grace_until": date(core.clocks.started + policy.boot_grace) if rules.ends_machine else None,
        "grace": policy.grace,
        "admin_hold": policy.admin_hold,
        "price_per_hour": policy.price_per_hour,
        "currency": policy.currency,
        "incident": _incident(core, rules, date),
        "done": core.ending.done,
        "wish": _stop_request(core, date),
        "holds": [
            {"owner": h.owner, "reason": h.reason, "until": date(h.until), "uid": h.uid} for h in core.people.holds
        ],
        "deadline": _deadline(situation, date),
        "hold_left": max(0.0, policy.hold_total - core.people.charged),
        "vetoes": [
            {"source": v.source, "reason": v.reason, "hatch": v.hatch, "unknown": v.unknown, "lets_go": v.lets_go}
            for v in core.vetoes
        ],
        "kept_since": date(core.alarms.kept.since if core.alarms.kept is not None else None),
        "plans": [
            {"action": p.action, "verdict": p.verdict, "findings": [list(f) for f in p.findings], "at": date(p.at)}
            for p in core.plans.verdicts
        ],
        "weak_since": date(weak.since if (weak := weak_sign_alone(core)) is not None else None),
        "unknown_since": date(core.signals.unknown_since),
        "time": wall,
    }


def _date(wall: float, at: float, boot: float | None) -> float | None:
    """A moment of the boot clock as a date, where ``wall`` is the date of ``at``."""
    return None if boot is None or abs(boot) == NEVER else wall + boot - at


def _gpus(state: State, seen: Observation, findings: Findings, date: Date) -> list[dict[str, Any]]:
    core, readings = state.core, dict(zip(seen.gpus, seen.readings, strict=True))
    rows = []
    for position, (key, track) in enumerate(zip(state.gpus, state.tracks, strict=True)):
        reading, (code, text) = readings.get(key), findings.get(key, ("", ""))
        known = isinstance(reading, Known)
        unknown_since = track.unknown_since
        row = {
            "key": key,
            "label": label(core, key),
            "state": "unknown" if unknown_since is not None else "works" if track.busy else "quiet",
            "since": date(track.since if unknown_since is None else unknown_since),
            "load": reading.load if isinstance(reading, Known) else None,
            "signs": list(reading.signs) if isinstance(reading, Known) else [],
            "words": reading.evidence if isinstance(reading, Known) else getattr(reading, "reason", "not listed"),
            "known": known,
            "finding": code or None,
            "finding_words": text,
            "judged": position in core.selection.judged,
        }
        rows.append(row)
    return rows


def _deadline(situation: Situation, date: Date) -> dict[str, Any] | None:
    """The limit that ends the machine's time, and who moved it; None where there is none."""
    first = deadline.first(situation)
    if not first.name:
        return None
    extension = situation.state.core.deadline.extension
    moved = None if extension is None or extension.until <= first.at else extension
    by = {"owner": moved.owner, "reason": moved.reason, "until": date(moved.until), "uid": moved.uid} if moved else None
    return {"limit": first.name, "at": date(first.at), "extended": by}


def _incident(core: Core, rules: Rules, date: Date) -> dict[str, Any] | None:
    incident = core.incident
    if incident is None:
        return None
    return {
        "id": incident.id,
        "reason": incident.reason,
        "opened": date(incident.opened),
        "warned": date(incident.warned),
        "due": date(due_at(core, rules)),
        "reached": incident.announcement.reached,
        "unreached": incident.announcement.exhausted,
        "tries": incident.announcement.attempts,
        "detail": incident.detail,
        "owner": incident.owner,
        "action": action_of(incident, rules),
        "proof": incident.proof,
        "receipt": incident.receipt,
    }


def _stop_request(core: Core, date: Date) -> dict[str, Any] | None:
    request = core.stop_request
    if request is None:
        return None
    return {
        "incident": request.incident,
        "owner": request.owner,
        "asked": date(request.asked),
        "fate": request.fate,
        "words": request.message,
        "ended": date(request.ended or None),
    }
