"""What the engine decides now: the agent's decision, or the one that an agent started now would make."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costguard.agent import decode
from costguard.agent.loop import policy_from
from costguard.clocks import boot_clock
from costguard.doctor.finding import CheckResult, bad, note, warn
from costguard.engine.events import Devices, Tick
from costguard.engine.machine import step
from costguard.engine.observation import Observation
from costguard.engine.saved import initial
from costguard.engine.standstill import ADMIN_HOLD, GPU_DEVICES
from costguard.engine.words import date


def gpus(report: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Every expected GPU: key, label, known, load, words (its evidence)."""
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
    """The engine's sentence; empty without a configuration or a reading."""
    if report is not None:
        return str(report["sentence"])
    if not effective or not answer.get("gpus"):
        return ""
    try:
        keys, readings = decode.readings(answer)
        devices = decode.devices(answer) if "info" in answer else ()
    except (KeyError, TypeError, ValueError):
        return ""
    now, policy = boot_clock(), policy_from(effective)
    state = step(initial("doctor", "", None, now), Devices(now, devices), policy).state
    return str(step(state, Tick(now, Observation(keys, readings), time.time()), policy).sentence)


def checks(
    report: Mapping[str, Any] | None, effective: Mapping[str, Any], answer: Mapping[str, Any]
) -> Iterator[CheckResult]:
    """The engine's sentence, and whatever would prevent a stop even if the GPUs were idle."""
    words = sentence(report, effective, answer)
    if report is None:
        if not effective:
            yield note("unknown without a valid configuration or an answer of the agent")
        elif words:
            yield note(f"an agent started now would say: {words}")
        return
    stuck = report["phase"] == "FAILED" or report["done"] in {"cannot", "unknown"}
    yield CheckResult(
        "bad" if stuck else "ok", words, "`sudo costguard release` makes it watch again; see Actions" if stuck else ""
    )
    yield from _standstill(report)
    for hold in report["holds"]:
        until = date(hold["until"]) if hold["until"] else "?"
        yield note(
            f"held by {hold['owner']} until {until}: {hold['reason']}",
            "its owner or root can end it: `costguard release`",
        )
    policy = effective.get("policy", {})
    if not report["armed"] and not stuck and policy.get("unused_after", 0) is None:
        text = "no work was seen since boot and unused_after is off: a machine that never works is never stopped"
        yield warn(text, 'set unused_after = "4h"')


def _standstill(report: Mapping[str, Any]) -> Iterator[CheckResult]:
    """Whatever the engine itself says that it makes every stop impossible."""
    if "standstill" not in report:
        text = "the agent is an earlier version and does not say what makes every stop impossible"
        yield bad(text, "start it again, such as `sudo systemctl restart costguard`")
        return
    for cause in report["standstill"]:
        yield bad(f"{cause['words']}; it blocks every stop", _remedy(cause, report))


def _remedy(cause: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    if cause["code"] == ADMIN_HOLD:
        return "remove `hold` from [admin] when it may be stopped again"
    if cause["code"] == GPU_DEVICES:
        labels = ", ".join(str(gpu["label"]) for gpu in report["gpus"])
        return f"correct gpu_devices, or remove it: then every GPU counts ({labels}); then reload the agent"
    if cause["lets_go"]:
        return f"set standalone = true in [senses.{cause['source']}] if nothing is scheduled here"
    return "remove it when the machine may be stopped again"
