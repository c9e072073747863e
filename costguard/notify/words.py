"""Small pieces of messages: money, lists, sentences. Pure."""

import re
from collections.abc import Sequence

SHOWN = 8
"""Names in a list before the rest is only counted."""


def money(amount: float, currency: str) -> str:
    """An amount, always an estimate."""
    return f"about {amount:.2f} {currency or 'USD'}"


def listed(names: Sequence[str]) -> str:
    """Names with commas and an *and*; a long list is cut and counted."""
    if len(names) > SHOWN:
        return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


_GPU = re.compile(r"GPU (\d+)(?: \((.+)\))?")


def gpus(names: Sequence[str]) -> str:
    """``GPUs 0 to 7 (NVIDIA H100)``: those of one model together; any other name as it is."""
    models: dict[str, list[int]] = {}
    others = []
    for name in names:
        match = _GPU.fullmatch(name)
        if match is None:
            others.append(name)
        else:
            models.setdefault(match[2] or "", []).append(int(match[1]))
    together = [_numbered(sorted(numbers)) + (f" ({model})" if model else "") for model, numbers in models.items()]
    return listed([*together, *others])


def _numbered(numbers: Sequence[int]) -> str:
    """``GPU 0``, ``GPUs 0 and 2``, ``GPUs 0 to 3 and 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [
        f"{run[0]} to {run[-1]}" if len(run) > 2 else listed([str(number) for number in dict.fromkeys(run)])
        for run in runs
    ]
    return f"GPU{'s' if len(set(numbers)) > 1 else ''} {listed(shown)}"


def sentence(text: str) -> str:
    """Make a text a sentence: a capital letter and a full stop. Empty text stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
