"""What ``costguard status`` shows, as JSON values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from costguard.engine.machine import Step
from costguard.engine.narrate import unmatched_names
from costguard.engine.observation import Known, Observation
from costguard.engine.obstacles import due_at
from costguard.engine.policy import Policy
from costguard.engine.reasons import OWN, Moment
from costguard.engine.rules import rules_of
from costguard.engine.turn import action_of, label
from costguard.engine.window import NEVER


def report(
    step: Step,
    seen: Observation,
    policy: Policy,
    wall: float,
    found: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The engine's part of the status; ``found`` is what the reader has found out about a GPU: a code and words."""
    state, core, rules = step.state, step.state.core, rules_of(policy)
    incident, moment = core.incident, Moment(state, rules, wall, None)
    readings = dict(zip(seen.gpus, seen.readings, strict=True))

    def date(boot: float | None) -> float | None:
        return None if boot is None or abs(boot) == NEVER else wall + boot - state.at

    gpus = []
    for position, (key, track) in enumerate(zip(state.gpus, state.tracks, strict=True)):
        reading = readings.get(key)
        known = isinstance(reading, Known)
        gpus.append(
            {
                "key": key,
                "label": label(core, key),
                "state": "unknown" if track.unknown_since is not None else "works" if track.busy else "quiet",
                "since": date(track.since if track.unknown_since is None else track.unknown_since),
                "load": reading.load if isinstance(reading, Known) else None,
                "signs": list(reading.signs) if isinstance(reading, Known) else [],
                "words": reading.evidence if isinstance(reading, Known) else getattr(reading, "reason", "not listed"),
                "known": known,
                "finding": found.get(key, ("", ""))[0] or None,
                "finding_words": found.get(key, ("", ""))[1],
                "judged": position in core.selection.judged,
            }
        )
    return {
        "sentence": str(step.sentence),
        "state": step.sentence.word,
        "phase": core.phase,
        "mode": policy.mode,
        "action": action_of(incident, rules),
        "armed": core.signals.armed_at is not None or policy.arm_duration is None,
        "gpus": gpus,
        "lacking": unmatched_names(core, state.gpus) if core.selection.unmatched else "",
        "policy": policy._asdict(),
        "window": policy.kill_duration,
        "threshold": rules.quiet_threshold,
        **{f"{reason.name}_at": date(reason.at(moment)) for reason in OWN},
        "started": date(core.clocks.started),
        "boot_grace_until": date(core.clocks.started + policy.boot_grace) if rules.ends_machine else None,
        "grace": policy.grace,
        "admin_hold": policy.admin_hold,
        "price_per_hour": policy.price_per_hour,
        "currency": policy.currency,
        "incident": None
        if incident is None
        else {
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
        },
        "done": core.ending.done,
        "wish": None
        if core.stop_request is None
        else {
            "incident": core.stop_request.incident,
            "owner": core.stop_request.owner,
            "asked": date(core.stop_request.asked),
            "fate": core.stop_request.fate,
            "words": core.stop_request.message,
            "ended": date(core.stop_request.ended or None),
        },
        "holds": [
            {"owner": h.owner, "reason": h.reason, "until": date(h.until), "uid": h.uid} for h in core.people.holds
        ],
        "hold_left": max(0.0, policy.hold_total - core.people.charged),
        "vetoes": [{"source": v.source, "reason": v.reason, "hatch": v.hatch} for v in core.vetoes],
        "plans": [
            {"action": p.action, "verdict": p.verdict, "findings": [list(f) for f in p.findings], "at": date(p.at)}
            for p in core.plans.verdicts
        ],
        "weak_since": date(core.alarms.weak_sign.since if core.alarms.weak_sign is not None else None),
        "unknown_since": date(core.signals.unknown_since),
        "time": wall,
    }
