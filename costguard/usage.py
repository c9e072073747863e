"""The current mean GPU load, for programs that tick a `Sentinel` themselves."""

import threading
from collections.abc import Sequence

from costguard.clocks import boot_clock
from costguard.errors import CostguardError
from costguard.readers.nvml.reader import Reader

_lock = threading.Lock()
_reader: Reader | None = None


class GpuUnreadableError(CostguardError):
    """A GPU could not be read; unknown is not a number and never idle."""


def get_gpu_usage(device_ids: Sequence[int] | None = None) -> float:
    """The mean load of some GPUs, or of all.

    The load of a GPU is that of its busiest engine since the last call, from the driver's sample ring where it
    has one. The first call opens the driver and keeps it open; a call may hang with the driver (which is why the
    agent reads in a process of its own).

    Args:
        device_ids: NVML indices of the GPUs; None means all.

    Returns:
        0 to 1.

    Raises:
        GpuUnreadableError: one of these GPUs does not exist or cannot be read, or there is none at all.
    """
    global _reader  # noqa: PLW0603  # opening and closing the driver for every call would wake and block it
    with _lock:
        if _reader is None or _reader.failed:
            _reader = Reader()
        answer = _reader.read(0, boot_clock())
        numbers = {key: gpu["index"] for key, gpu in _reader.info().items()}
    rows = {numbers.get(str(row[0])): row for row in answer["gpus"]}  # type: ignore[attr-defined]  # as read() makes it
    wanted = list(rows) if device_ids is None else list(device_ids)
    loads = [_load(rows.get(number), number) for number in wanted]
    if not loads:
        raise GpuUnreadableError(f"no GPU can be read: {answer.get('error', 'none is listed')}", _HINT)
    return sum(loads) / len(loads)


_HINT = "see `nvidia-smi -L`"


def _load(row: list[object] | None, number: object) -> float:
    if row is None:
        raise GpuUnreadableError(f"there is no GPU {number}", _HINT)
    load = row[1]
    if not isinstance(load, float | int):
        raise GpuUnreadableError(f"GPU {number if number is not None else row[0]} cannot be read: {row[4]}", _HINT)
    return float(load)
