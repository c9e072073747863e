"""What every configured action would do, and whether it may: asked of the action worker, which has no effect."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.actions.base import VERDICT_WORDS
from costguard.actions.marks import CHECK_SECONDS
from costguard.agent.preflight import DENIED, UNKNOWN
from costguard.doctor.child import first_answer
from costguard.doctor.finding import Check, Level

CLOUD_SECONDS = 20.0
"""For a cloud to be asked; then the worker names what did not answer."""

PLAN_SECONDS = CLOUD_SECONDS + CHECK_SECONDS + 8.0
"""For the whole of a plan: also the start of the worker with the cloud's library, and the question for the tags."""

TOLD = frozenset((DENIED, UNKNOWN))
"""Findings that need somebody although the action itself may be carried out."""


class Plan(NamedTuple):
    """``findings`` are (code, text, hint); ``seen_by`` is who asked: the agent, or this user."""

    action: str
    verdict: str
    findings: tuple[tuple[str, str, str], ...]
    seen_by: str


def plans(effective: Mapping[str, Any], report: Mapping[str, Any] | None) -> list[Plan]:
    """One for each action: the agent's own where one runs, because it acts with its own rights and settings."""
    found = {plan["action"]: plan for plan in (report["plans"] if report else ())}
    policy = effective.get("policy")
    listed = [policy["kill_action"], *policy.get("fallback", ())] if policy else []
    result = []
    for action in dict.fromkeys(listed):
        if action in found:
            findings = tuple((str(c), str(t), str(h)) for c, t, h in found[action]["findings"])
            result.append(Plan(action, str(found[action]["verdict"]), findings, "agent"))
        elif report is None or action == "end_process":  # which the agent does by itself, with nothing to check
            result.append(_ask(action, effective))
    return result


def _ask(action: str, effective: Mapping[str, Any]) -> Plan:
    job = {
        "job": "plan",
        "action": action,
        "mode": effective["policy"]["mode"],
        "fallback": action in effective["policy"]["fallback"],
        "settings": effective.get("actions", {}).get(action, {}),
        "cloud": effective.get("cloud", {}),
        "sink": effective.get("sink", {}),
        "heartbeat": effective.get("heartbeat", {}),
        "host": effective.get("host", {}),
        "providers": effective.get("providers", []),
        "deadline": CLOUD_SECONDS,
    }
    answer = first_answer("act", [job], PLAN_SECONDS)
    plan = (answer or {}).get("plan")
    who = f"uid {os.geteuid()}"
    if not isinstance(plan, dict):
        words = "the plan took too long" if answer is None else str(answer.get("error") or "the worker said nothing")
        return Plan(action, "failed", (("failed", words, "see the agent's journal: `journalctl -u costguard`"),), who)
    findings = tuple((str(f["code"]), str(f["text"]), str(f.get("hint", ""))) for f in plan.get("findings", ()))
    return Plan(action, str(plan["verdict"]), findings, who)


def plan_checks(found: Sequence[Plan], actions: Sequence[str]) -> Iterator[Check]:
    """In words, and whether the list of actions leads to one that may be carried out."""
    by_action = {plan.action: plan for plan in found}
    # as the engine does: what points to another action is passed over, a refusal is a veto
    first = next((by_action[a] for a in actions if a in by_action and by_action[a].verdict != "another"), None)
    for plan in found:
        good = plan.verdict in {"go", "consequences"}
        decides = plan is first or (first is None and plan is found[0])
        level: Level = "ok" if good else "bad" if decides and plan.verdict != "failed" else "warn"
        seen = "" if plan.seen_by == "agent" else " (as this user sees it; the agent may have other rights)"
        yield Check(level, f"{plan.action}: {VERDICT_WORDS.get(plan.verdict, plan.verdict)}{seen}")
        for code, text, hint in plan.findings:
            yield Check("warn" if not good or code in TOLD else "note", text, hint)
    if not found:
        level = "bad" if actions else "note"
        yield Check(level, "whether the action may be carried out is not known yet", "look again in a minute")
