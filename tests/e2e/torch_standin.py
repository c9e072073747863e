"""A stand-in for PyTorch: it has the calls that the load makes, and writes down each of them. Copied as ``torch.py`` for the child to find."""

import json
import os
import signal
import time
from typing import Any

_MIB = 1 << 20
_free = int(os.environ.get("TORCH_FREE_MIB", "4096")) * _MIB
_most = int(os.environ.get("TORCH_MOST_MIB", "1000000")) * _MIB
_had = {"bytes": 0}

if "TORCH_DEAF" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

if "TORCH_BROKEN" in os.environ:
    raise OSError("libcudart.so.12: cannot open shared object file")

if "TORCH_CLOSES" in os.environ:
    os.close(1)
    time.sleep(1000)

if "TORCH_SLOW" in os.environ:
    time.sleep(1000)

if "TORCH_HELPER" in os.environ and os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)

float32 = "float32"


def _note(call: str, *facts: object) -> None:
    line = json.dumps([time.monotonic(), os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), call, *facts])
    fd = os.open(os.environ["TORCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode() + b"\n")
    os.close(fd)


class Tensor:
    """So many numbers."""

    def __init__(self, count: int) -> None:
        self._count = count

    def numel(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> "Tensor":
        assert 0 <= part.start <= part.stop <= self._count
        return Tensor(part.stop - part.start)

    def view(self, rows: int, columns: int) -> "Tensor":
        assert rows * columns == self._count
        return self

    def uniform_(self, _low: float, _high: float) -> "Tensor":
        return self

    def mul_(self, _by: float) -> "Tensor":
        if "TORCH_FULL" in os.environ and _had["bytes"] > _most - 512 * _MIB:
            raise cuda.OutOfMemoryError("CUDA out of memory.\nmore words")
        _note("mul", self._count)
        return self

    def add_(self, _number: float) -> "Tensor":
        return self


def empty(count: int, *, dtype: str, device: str) -> Tensor:
    assert (dtype, device) == ("float32", "cuda:0")
    if _had["bytes"] + 4 * count > _most and "TORCH_FULL" not in os.environ:
        raise cuda.OutOfMemoryError("CUDA out of memory.\nmore words")
    _had["bytes"] += 4 * count
    _note("empty", 4 * count)
    return Tensor(count)


def matmul(left: Tensor, right: Tensor, *, out: Tensor) -> Tensor:
    assert left.numel() == right.numel() == out.numel()
    _note("matmul", left.numel())
    return out


class cuda:  # noqa: N801 - as PyTorch has it
    """The part of it that is about GPUs."""

    class OutOfMemoryError(RuntimeError):
        """There is no more."""

    @staticmethod
    def is_available() -> bool:
        return "TORCH_BLIND" not in os.environ

    @staticmethod
    def mem_get_info(_device: int) -> tuple[int, int]:
        return _free, 2 * _free

    @staticmethod
    def synchronize() -> None:
        if os.environ.get("TORCH_BREAKS_ON", "none") == os.environ.get("CUDA_VISIBLE_DEVICES"):
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore words")
        time.sleep(float(os.environ.get("TORCH_STEP", "0.005")))
        _note("done")

    @staticmethod
    def empty_cache() -> None:
        _had["bytes"] -= 512 * _MIB


def __getattr__(name: str) -> Any:
    raise AttributeError(f"the load asks for torch.{name}, which is not written down here")
