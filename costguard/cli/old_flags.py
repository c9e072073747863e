"""Flags of other tools, and what costguard calls them. Read only after a wrong option."""

import itertools
import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from costguard.cli.argparse_spellings import expanded, spelled_out

_NUMBER = re.compile(r"\d+(\.\d+)?")


class Spelling(NamedTuple):
    """``ours`` is what to write, with {} for the value; ``unit`` that of their bare numbers; ``note`` what differs.

    ``samples``: their number counts readings, which are seconds here. ``most``: a larger number is refused here.
    ``less``: less one interval, so that the reading of that moment is the first that counts.
    """

    ours: str
    unit: str = ""
    example: str = ""
    note: str = ""
    samples: bool = False
    most: float = math.inf
    less: bool = False


def _set(option: str, unit: str = "", example: str = "", note: str = "", *, samples: bool = False) -> Spelling:
    return Spelling(f"--set {option}={{}}", unit, example, note, samples)


_SAMPLE_SECONDS = 5.0
"""Default time between two readings of GPU Idle Timeout."""

_SAMPLES = (("-n", "--num-samples", "60"), ("-d", "--delay-samples", "12"))
"""Its flags that count samples (short, long), with their defaults."""

_INTERVAL_LIMIT_SECONDS = 15.0
_ACTS = "with --live it acts, as the other tool does"


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
    (
        Spelling("--set interval={}", "s", "10s", "an interval of 15s at most", most=_INTERVAL_LIMIT_SECONDS),
        "-s --sample-freq --poll-interval --sample-interval",
    ),
    (_set("kill_duration", "s", "5m", "samples times seconds", samples=True), "-n --num-samples"),
    (_set("delay", "s", "1m", "samples times seconds", samples=True)._replace(less=True), "-d --delay-samples"),
    (_set("aggregate", "", "any"), "-a --all-or-any"),
    (Spelling("", note="`costguard status --watch` shows every reading"), "-x --debug"),
    (
        Spelling("", note="`costguard exec` starts one command and signals it: it takes these flags as they are"),
        "--signal-name --signal-children",
    ),
    # gpu_mon
    (
        Spelling(
            "--config {}",
            example="FILE",
            note="in TOML; `costguard config init` writes one; a configuration of gpu_mon is for `costguard fill -c FILE`",
        ),
        "-c --conf",
    ),
    # other tools of the field
    (_set("kill_duration", "s", "60m"), "--idle-timeout --idle-time --idle-duration --idle-seconds --timeout --window"),
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

_PRESETS: Mapping[str, frozenset[str]] = {
    "gpu-sentinel": frozenset(
        f"--{name}"
        for name in ("arm_duration", "arm_threshold", "kill_duration", "kill_threshold", "kill_action", "gpu_devices")
    ),
    "gpu-idle-timeout-any": frozenset({"-a", "--all-or-any", "--all_or_any"}),
    "gpu-idle-timeout": frozenset(
        {"-t", "-s", "-n", "-d", "--sample-freq", "--num-samples", "--delay-samples", "--threshhold-percentage"}
    ),
}
"""By spellings that one tool alone has."""

EXEC_SWITCHES = frozenset({"-x", "--debug", "--signal-children"})
EXEC_FLAGS = EXEC_SWITCHES | _PRESETS["gpu-idle-timeout"] | _PRESETS["gpu-idle-timeout-any"] | {"--signal-name"}
"""Those of GPU Idle Timeout, which `costguard exec` has, too."""

THEIRS: Mapping[str, Spelling] = {flag: spelling for spelling, flags in _BY_SPELLING for flag in flags.split()}
"""By their flag, with hyphens for underscores."""


def ours(flag: str, arguments: Sequence[str], command: str, known: Collection[str] = ()) -> str:
    """The hint for a command line with a flag of another tool: all such flags as `command` takes them; empty for an unknown flag.

    ``known``: options of `command` itself, which stay.
    """
    typed = arguments
    arguments = _with_all_samples(spelled_out(arguments, {*known, *THEIRS}))
    flag = expanded(flag, {*known, *THEIRS})
    if _spelling(flag) is None:
        return ""
    words, notes = _preset(arguments), []
    for name in dict.fromkeys((*[argument.partition("=")[0] for argument in _options(arguments)], flag)):
        spelling = _spelling(name) if name not in known else None
        if spelling is not None:
            words += [spelling.ours.format(_value(spelling, name, arguments))] if spelling.ours else []
            notes += [spelling.note] if spelling.note and _told(spelling, _given(name, arguments)) else []
    notes += [_ACTS] if _preset(arguments) and not {"--live", "--mode"} & set(_options(arguments)) else []
    notes += [f"around one command: `costguard exec {shlex.join(typed[1:])}`"] if _around_a_command(arguments) else []
    note = "; ".join(dict.fromkeys(notes))
    if not words:
        return note
    return f"write `{command} {' '.join(words)}`" + (f" ({note})" if note else "")


def _preset(arguments: Sequence[str]) -> list[str]:
    """The preset with the other values of the tool whose very flags these are; none where one is named."""
    typed = {argument.partition("=")[0] for argument in _options(arguments)}
    found = [preset for preset, flags in _PRESETS.items() if typed & flags]
    return [f"--preset {found[0]}"] if found and "--preset" not in typed else []


def _with_all_samples(arguments: list[str]) -> list[str]:
    """With the numbers of samples that GPU Idle Timeout has by itself, where another time between them is given: they make it longer, too."""
    preset = next(iter(_preset(arguments)), "")
    every = _given("-s", arguments) or _given("--sample-freq", arguments)
    if "idle-timeout" not in preset or not _NUMBER.fullmatch(every) or float(every) == _SAMPLE_SECONDS:
        return arguments
    there = {argument.partition("=")[0] for argument in _options(arguments)}
    missing = [words for words in _SAMPLES if not there & {words[0], words[1]}]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:end], *[word for short, _long, number in missing for word in (short, number)], *arguments[end:]]


def _around_a_command(arguments: Sequence[str]) -> bool:
    """Whether a command follows flags of GPU Idle Timeout alone, which `costguard exec` takes as they are."""
    rest = list(arguments[1:])
    flags = 0
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flag, equals, _value = rest.pop(0).partition("=")
        if flag not in EXEC_FLAGS:
            return False
        flags += 1
        if not equals and flag not in EXEC_SWITCHES:
            rest = rest[1:]
    return bool(flags and [word for word in rest if word != "--"])


def _options(arguments: Sequence[str]) -> list[str]:
    """What stands before a command, and begins with a hyphen."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [argument for argument in arguments[:end] if argument.startswith("-")]


def _spelling(flag: str) -> Spelling | None:
    name = flag if not flag.startswith("--") else flag.lower().replace("_", "-")
    return THEIRS.get(name) or _option(name)


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else 0.0


def _told(spelling: Spelling, value: str) -> bool:
    """Whether the note applies to this value."""
    return spelling.most == math.inf or _number(value) > spelling.most


def _value(spelling: Spelling, flag: str, arguments: Sequence[str]) -> str:
    """The given value in our units and spelling; an example where none was given, or it cannot be one."""
    value = _given(flag, arguments, several=spelling is THEIRS["--gpu-devices"])
    if spelling.less and value.startswith("-"):
        value = "0"  # a negative number of samples is none, in the other tool too
    if _NUMBER.fullmatch(value):
        number = min(float(value), spelling.most)
        if spelling.samples:
            seconds = _number(_given("-s", arguments) or _given("--sample-freq", arguments)) or _SAMPLE_SECONDS
            number *= seconds
            number -= min(seconds, _INTERVAL_LIMIT_SECONDS, number) if spelling.less else 0.0
        value = f"{number:.10g}" if spelling.samples or number != float(value) else value
        value += spelling.unit
    return value if re.fullmatch(r"[\w.%,/:-]+", value) else spelling.example


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


def _is_value(word: str) -> bool:
    """A negative number is one, too."""
    return not word.startswith("-") or bool(_NUMBER.fullmatch(word[1:]))


def _given(flag: str, arguments: Sequence[str], *, several: bool = False) -> str:
    """The value that was given with the flag, ``--flag=value`` or ``--flag value``; ``several``: with commas. Empty for none."""
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag:
            rest = arguments[place + 1 :]
            values = list(itertools.takewhile(_is_value, rest if several else rest[:1]))
            return ",".join(values)
    return ""
