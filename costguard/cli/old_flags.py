"""Flags of other tools, and what costguard calls them. Read only after a wrong option."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"\d+(\.\d+)?")


class Spelling(NamedTuple):
    """``ours`` is what to write, with {} for the value; ``unit`` that of their bare numbers; ``note`` what differs."""

    ours: str
    unit: str = ""
    example: str = ""
    note: str = ""


def _set(option: str, unit: str = "", example: str = "", note: str = "") -> Spelling:
    return Spelling(f"--set {option}={{}}", unit, example, note)


_BY_SPELLING: Sequence[tuple[Spelling, str]] = (
    # GPU Sentinel
    (_set("arm_duration", "s", "30s"), "--arm-duration"),
    (_set("arm_threshold", "", "80%"), "--arm-threshold"),
    (_set("kill_duration", "s", "30s"), "--kill-duration"),
    (_set("kill_threshold", "", "70%"), "--kill-threshold"),
    (_set("kill_action", "", "stop"), "--kill-action --action"),
    (_set("gpu_devices", "", "0,1"), "--gpu-devices --gpus --gpu --gpu-ids --devices"),
    # GPU Idle Timeout, both forms, and tools with the same flags
    (
        _set("kill_threshold", "%", "5%"),
        "-t --threshhold-percentage --threshold-percentage --threshold --idle-threshold --utilization-threshold",
    ),
    (_set("interval", "s", "10s"), "-s --sample-freq --poll-interval --sample-interval"),
    (Spelling("--set kill_duration=5m", note="samples times seconds"), "-n --num-samples"),
    (Spelling("--set delay=1m", note="samples times seconds"), "-d --delay-samples"),
    (_set("aggregate", "", "any"), "-a --all-or-any"),
    (Spelling("", note="`costguard status --watch` shows every reading"), "-x --debug"),
    (
        Spelling("", note="`costguard exec` starts one command and signals it: it takes these flags as they are"),
        "--signal-name --signal-children",
    ),
    # gpu_mon
    (Spelling("--config {}", example="FILE", note="in TOML; `costguard config init` writes one"), "-c"),
    # other tools of the field
    (
        _set("kill_duration", "s", "60m"),
        "--idle-timeout --idle-time --idle-duration --idle-seconds --timeout --window",
    ),
    (_set("kill_duration", "m", "60m"), "--idle-minutes --idle-minutes-to-autostop"),
    (_set("grace", "s", "10m"), "--grace-period"),
    (_set("boot_grace", "s", "20m"), "--startup-grace"),
    (_set("deadline.lifetime", "s", "7d"), "--max-lifetime"),
    (Spelling("--set kill_action=terminate"), "--down"),
    (Spelling("--mode dry-run", note="the default"), "--dry-run"),
    (Spelling("--live"), "--force"),
    (Spelling("", note="`costguard status` says why the machine is up"), "--verbose"),
    (Spelling("", note="`costguard status` says why the machine is up; --version is written out"), "-v"),
    (Spelling("", note="the service in costguard/data/costguard.service does that"), "--daemon"),
)

THEIRS: Mapping[str, Spelling] = {flag: spelling for spelling, flags in _BY_SPELLING for flag in flags.split()}
"""By their flag, with hyphens for underscores."""


def ours(flag: str, arguments: Sequence[str], command: str) -> str:
    """The hint for a flag of another tool: what to write for `command`, with its value; empty for an unknown flag."""
    name = flag if not flag.startswith("--") else flag.lower().replace("_", "-")
    spelling = THEIRS.get(name) or _option(name)
    if spelling is None:
        return ""
    note = f" ({spelling.note})" if spelling.ours and spelling.note else spelling.note
    value = _given(flag, arguments) or ""
    if _NUMBER.fullmatch(value):
        value += spelling.unit
    value = value if re.fullmatch(r"[\w.%,/:-]+", value) else spelling.example
    return f"write `{command} {spelling.ours.format(value)}`{note}" if spelling.ours else note


def _option(name: str) -> Spelling | None:
    """An option of the configuration, written as a flag: ``--grace``, ``--hold-max``, ``--deadline.lease``."""
    from costguard.config.options import OPTIONS

    wanted = name.removeprefix("--").replace("-", "_")
    if not name.startswith("--"):
        return None
    found = [path for path in OPTIONS if wanted in {path.replace("-", "_"), path.replace(".", "_")}]
    found = found or [path for path in OPTIONS if path.rpartition(".")[2] == wanted]
    return _set(found[0], "", _example(OPTIONS[found[0]].example)) if len(found) == 1 else None


def _example(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def _given(flag: str, arguments: Sequence[str]) -> str:
    """The value that was given with the flag, ``--flag=value`` or ``--flag value``."""
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and place + 1 < len(arguments) and not arguments[place + 1].startswith("-"):
            return arguments[place + 1]
    return ""
