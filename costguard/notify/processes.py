"""Who holds the GPUs, for a message: programs, users and their container or job; never arguments or variables."""

import re
from collections import Counter
from collections.abc import Mapping

from costguard import holders
from costguard.files import names_in
from costguard.notify.job import Draft
from costguard.notify.terminal import clean

KINDS = frozenset(("warning", "would_act", "weak_sign", "kept_up", "unknown_alarm", "finding"))
"""Kinds that name the processes on the GPUs."""

SCAN_SECONDS = 0.5
SHOWN = 5
_GPU = re.compile(r"nvidia\d+")


def found_processes(draft: Draft, settings: Mapping[str, object]) -> dict[str, object]:
    """The facts ``processes``, ``more_processes`` and ``hidden_processes``; empty for other kinds, or without a GPU device."""
    procfs, devfs = str(settings.get("procfs") or "/proc"), str(settings.get("devfs") or "/dev")
    if draft.kind not in KINDS or not any(map(_GPU.fullmatch, names_in(devfs))):
        return {}
    found = holders.scan(procfs, SCAN_SECONDS)
    if not found.complete:
        return {}
    named = Counter(
        clean(f"{one.name} of {one.user}{f' ({one.place})' if one.place else ''}").replace("`", "'")
        for one in found.holders
        if not one.monitor
    )
    shown = [name if count == 1 else f"{count} × {name}" for name, count in named.most_common(SHOWN)]
    more = sum(named.values()) - sum(count for _, count in named.most_common(SHOWN))
    return {"processes": shown, "more_processes": more, "hidden_processes": found.hidden}
