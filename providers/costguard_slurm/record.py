"""What `scontrol show job` prints of one job, as values. Source: scontrol(1), and the output of 22.05."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from costguard.tasks.api import State

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w/:.]*)=(\S*)")
_NODES = re.compile(r"\sNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_GPUS = re.compile(r"(?:^|[,)])\(?gpu(?::[^:(),]+)?:(\d+)\(IDX:([\d,-]*)\)")
_SHARED = re.compile(r"\b(shard|mps):")
_ABSENT = ("", "(null)", "N/A", "Unknown")

_ENDED = (
    "CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
)  # fmt: skip
_WAITS = (
    "PENDING",
    "CONFIGURING",
    "SUSPENDED",
    "STOPPED",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
)
_RUNS = ("RUNNING", "RESIZING", "SIGNALING", "STAGE_OUT")

STATES: Mapping[str, State] = {
    **dict.fromkeys(_ENDED, "ended"),
    **dict.fromkeys(_WAITS, "waiting"),
    **dict.fromkeys(_RUNS, "running"),
    "COMPLETING": "ending",
}
"""By Slurm's word. A job that is suspended does not run: its GPUs are idle because somebody stopped it."""


class Record(NamedTuple):
    """One job. ``name``: exactly this one as `scancel` takes it. ``elsewhere``: what of it is not on this node, in words."""

    job: str
    name: str
    state: State | None
    said: str
    owner: str
    uid: int | None
    stamp: str
    elsewhere: str
    gpus: int | None
    numbers: tuple[int, ...]


def find(text: str, job: str, here: Callable[[str], bool]) -> Record | None:
    """The job of this number, of several of an array perhaps; None for none. ``here``: whether this node is one of a list of nodes."""
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if fields.get("JobId") == job:
            return _read(line, fields, here)
    return None


def _read(line: str, fields: Mapping[str, str], here: Callable[[str], bool]) -> Record:
    job = fields["JobId"]
    owner, _, uid = fields.get("UserId", "").partition("(")
    said = fields.get("JobState", "")
    gpus, numbers = _gpus(line, fields, here)
    stamp = [fields.get(name, "") for name in ("SubmitTime", "StartTime", "Restarts", "UserId", "BatchHost")]
    number = uid.rstrip(")")
    return Record(
        job=job,
        name=_name(fields),
        state=STATES.get(said),
        said=said or "nothing",
        owner=owner,
        uid=int(number) if number.isdecimal() else None,
        stamp=" ".join((job, *stamp)),
        elsewhere=_elsewhere(fields),
        gpus=gpus,
        numbers=numbers,
    )


def _name(fields: Mapping[str, str]) -> str:
    """Of an array the member: the last one of it has the array's own number. Of a heterogeneous job the whole: it has no part that ends alone."""
    if (whole := fields.get("HetJobId", "")) not in _ABSENT:
        return whole
    array, index = fields.get("ArrayJobId", ""), fields.get("ArrayTaskId", "")
    return f"{array}_{index}" if array not in _ABSENT and index.isdecimal() else fields["JobId"]


def _elsewhere(fields: Mapping[str, str]) -> str:
    parts = []
    nodes = fields.get("NumNodes", "1").partition("-")[0]
    if nodes.isdecimal() and int(nodes) > 1:
        parts.append(f"it runs on {nodes} nodes")
    if (whole := fields.get("HetJobId", "")) not in _ABSENT:
        parts.append(f"it is a component of heterogeneous job {whole}, which ends as a whole")
    return " and ".join(parts)


def _gpus(line: str, fields: Mapping[str, str], here: Callable[[str], bool]) -> tuple[int | None, tuple[int, ...]]:
    """How many GPUs of this node Slurm gave to the job, and which; None and none where it does not say."""
    for nodes, given in _NODES.findall(line):
        if not here(nodes):
            continue
        found = _GPUS.findall(given)
        if not found and (_SHARED.search(given) or fields.get("OverSubscribe") == "NO"):
            return None, ()  # a part of a GPU; or the whole node, with whatever is in it
        numbers = [number for _, listed in found for number in _numbers(listed)]
        return sum(int(count) for count, _ in found), tuple(numbers)
    return None, ()


def _numbers(listed: str) -> list[int]:
    """``0-2,5`` as numbers."""
    found: list[int] = []
    for part in filter(None, listed.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
