"""What the engine decides now: the agent's own word, or what an agent that was started now would say."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costguard.agent import decode
from costguard.agent.loop import policy_from
from costguard.doctor.finding import CheckResult
from costguard.engine.events import Devices, Tick
from costguard.engine.machine import step
from costguard.engine.observation import Observation
from costguard.engine.saved import initial


def gpus(report: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Every expected GPU: key, label, known, load, words."""
    if report is not None:
        wanted = ("key", "label", "known", "load", "words")
        return [{name: gpu[name] for name in wanted} for gpu in report["gpus"]]
    info = answer.get("info") or {}
    found = []
    for key, load, _signs, _covers, words in answer.get("gpus", ()):
        about = info.get(key) or {}
        label = f"GPU {about['index']} ({about.get('name', '')})" if about.get("index") is not None else str(key)
        found.append({"key": key, "label": label, "known": load is not None, "load": load, "words": words})
    return found


def sentence(report: Mapping[str, Any] | None, effective: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """The engine's sentence; empty where nothing can be decided (no configuration, no reading)."""
    if report is not None:
        return str(report["sentence"])
    if not effective or not answer.get("gpus"):
        return ""
    try:
        keys, readings = decode.readings(answer)
        devices = decode.devices(answer) if "info" in answer else ()
    except (KeyError, TypeError, ValueError):
        return ""
    now, policy = time.clock_gettime(time.CLOCK_BOOTTIME), policy_from(effective)
    state = step(initial("doctor", "", None, now), Devices(now, devices), policy).state
    return str(step(state, Tick(now, Observation(keys, readings), time.time()), policy).sentence)


def checks(
    report: Mapping[str, Any] | None, effective: Mapping[str, Any], answer: Mapping[str, Any]
) -> Iterator[CheckResult]:
    """The sentence, and a state in which nothing would be stopped whatever the GPUs do."""
    words = sentence(report, effective, answer)
    if report is None:
        if not effective:
            yield CheckResult("note", "without rules or an answer of the agent nobody can say what is decided")
        elif words:
            yield CheckResult("note", f"an agent that was started now would say: {words}")
        return
    stuck = report["phase"] == "FAILED" or report["done"] in {"cannot", "unknown"}
    yield CheckResult(
        "bad" if stuck else "ok",
        words,
        "`costguard release` as root makes it watch again; see Actions" if stuck else "",
    )
    if report.get("admin_hold"):
        text = f"the administrator holds this machine without an end: {report['admin_hold']}"
        yield CheckResult("bad", text, "take `hold` out of [admin] when it may be stopped again")
    for veto in report["vetoes"]:
        if veto.get("hatch"):
            text = f"{veto['source']}: {veto['reason']}: nothing is stopped while that stands"
            yield CheckResult("bad", text, "take it away when the machine may be stopped again")
    for hold in report["holds"]:
        until = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(hold["until"])) if hold["until"] else "?"
        yield CheckResult(
            "note",
            f"held by {hold['owner']} until {until}: {hold['reason']}",
            "its owner or root ends it: `costguard release`",
        )
    policy = effective.get("policy", {})
    if not report["armed"] and not stuck and policy.get("unused_after", 0) is None:
        text = "no work was seen since boot and unused_after is off: an instance that never works is never stopped"
        yield CheckResult("warn", text, 'set unused_after = "4h"')
