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


_QUIET = _set("kill_duration", "s", "60m")
_BELOW = _set("kill_threshold", "%", "5%")
_LOOKS = _set("interval", "s", "10s")
_GPUS = _set("gpu_devices", "", "0,1")
_ALL_OR_ANY = _set("aggregate", "", "any")
_SAMPLES = Spelling("--set kill_duration=5m", note="samples times seconds")
_DELAY = Spelling("--set delay=1m", note="samples times seconds")
_READINGS = Spelling("", note="`costguard status --watch` shows every reading")
_NO_SIGNAL = Spelling("", note="costguard signals no program; set its action with kill_action")

THEIRS: Mapping[str, Spelling] = {
    # GPU Sentinel
    "--arm-duration": _set("arm_duration", "s", "30s"),
    "--arm-threshold": _set("arm_threshold", "", "80%"),
    "--kill-duration": _set("kill_duration", "s", "30s"),
    "--kill-threshold": _set("kill_threshold", "", "70%"),
    "--kill-action": _set("kill_action", "", "stop"),
    "--gpu-devices": _GPUS,
    # GPU Idle Timeout, both forms
    "-t": _BELOW,
    "--threshhold-percentage": _BELOW,
    "--threshold-percentage": _BELOW,
    "-s": _LOOKS,
    "--sample-freq": _LOOKS,
    "-n": _SAMPLES,
    "--num-samples": _SAMPLES,
    "-d": _DELAY,
    "--delay-samples": _DELAY,
    "-a": _ALL_OR_ANY,
    "--all-or-any": _ALL_OR_ANY,
    "-x": _READINGS,
    "--debug": _READINGS,
    "--signal-name": _NO_SIGNAL,
    "--signal-children": _NO_SIGNAL,
    # gpu_mon
    "-c": Spelling("--config {}", example="FILE", note="in TOML; `costguard config init` writes a sample"),
    # other tools of the field
    "--idle-timeout": _QUIET,
    "--idle-time": _QUIET,
    "--idle-duration": _QUIET,
    "--idle-seconds": _QUIET,
    "--timeout": _QUIET,
    "--window": _QUIET,
    "--idle-minutes": _set("kill_duration", "m", "60m"),
    "--idle-minutes-to-autostop": _set("kill_duration", "m", "60m"),
    "--threshold": _BELOW,
    "--idle-threshold": _BELOW,
    "--utilization-threshold": _BELOW,
    "--poll-interval": _LOOKS,
    "--sample-interval": _LOOKS,
    "--gpus": _GPUS,
    "--gpu": _GPUS,
    "--gpu-ids": _GPUS,
    "--devices": _GPUS,
    "--action": _set("kill_action", "", "stop"),
    "--grace-period": _set("grace", "s", "10m"),
    "--startup-grace": _set("boot_grace", "s", "20m"),
    "--max-lifetime": _set("deadline.lifetime", "s", "7d"),
    "--down": Spelling("--set kill_action=terminate"),
    "--dry-run": Spelling("--mode dry-run", note="the default"),
    "--force": Spelling("--live"),
    "--verbose": Spelling("", note="`costguard status` says why the machine is up"),
    "-v": Spelling("", note="`costguard status` says why the machine is up; --version is written out"),
    "--daemon": Spelling("", note="the service in costguard/data/costguard.service does that"),
}
"""By their spelling, with hyphens for underscores."""


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
