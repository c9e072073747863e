"""Hold a share of one GPU's free memory, and compute on it, until the process ends: the load of `costguard stress`.

Run as a file, by any Python of version 3.9 or newer that has PyTorch, which need not have costguard, and on the one GPU that its
environment allows. Standard input has a `LoadJob`, one line of JSON; standard output gets one `LoadAnswer` once everything is held,
and one when it fails. The process ends with its parent.
"""

import ctypes
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Torch = Any
    """The library, which has no types here."""
    Tensor = Any
    """Numbers on a GPU."""

PERIOD_SECONDS = 0.1
"""In each the GPU computes for its share, and rests: short, so that the driver sees an even load."""

MATRIX_LIMIT = 4096
"""Rows of a matrix at most: a product takes milliseconds, so a period is kept and the process ends at once."""

_PR_SET_PDEATHSIG = 1
_FLOAT_BYTES = 4


class LoadJob(NamedTuple):
    """What a load does. ``memory``: share of what is free, ``chunk``: bytes of one allocation, ``load``: share of the time.

    ``work``: *elementwise*, *matmul* or *hold*. ``parent``: the number of the process that asks for it.
    """

    memory: float
    chunk: int
    work: str
    load: float
    parent: int = 0


class LoadAnswer(NamedTuple):
    """Bytes that are ``held``, in how many chunks, and ``why`` it is less than was asked for; or why there is no load."""

    held: int = 0
    chunks: int = 0
    why: str = ""
    missing: str = ""  # the library
    failed: str = ""


def say(answer: LoadAnswer) -> None:
    """One line to the parent."""
    sys.stdout.write(json.dumps(answer._asdict()) + "\n")
    sys.stdout.flush()


def hold(torch: "Torch", share: float, chunk: int) -> "tuple[list[Tensor], str]":
    """That share of the free memory, in chunks of so many bytes; and why it is less, where it is."""
    free, _total = torch.cuda.mem_get_info(0)
    wanted = int(free * share)
    chunks = []
    held = 0
    while held < wanted:
        size = min(chunk, wanted - held)
        size -= size % _FLOAT_BYTES
        if not size:
            break
        try:
            chunks.append(torch.empty(size // _FLOAT_BYTES, dtype=torch.float32, device="cuda:0"))
        except torch.cuda.OutOfMemoryError as error:
            return chunks, str(error).partition("\n")[0][:200]
        held += size
    return chunks, ""


class Elementwise:
    """Each number of one chunk is multiplied and added to, in place: bound by memory, and it needs no more of it."""

    def __init__(self, torch: "Torch", chunk: "Tensor") -> None:
        self._torch, self._numbers = torch, chunk
        chunk.uniform_(-1.0, 1.0)

    def __call__(self) -> None:
        """One pass."""
        self._numbers.mul_(0.999).add_(0.001)
        self._torch.cuda.synchronize()


class Matmul:
    """Products of two matrices into a third, all within one chunk: bound by arithmetic."""

    def __init__(self, torch: "Torch", chunk: "Tensor") -> None:
        rows = min(int((chunk.numel() / 3) ** 0.5), MATRIX_LIMIT)
        size = rows * rows
        self._torch = torch
        self._left, self._right, self._product = (
            chunk[at * size : (at + 1) * size].view(rows, rows) for at in range(3)
        )
        self._left.uniform_(-1.0, 1.0)
        self._right.uniform_(-1.0, 1.0)

    def __call__(self) -> None:
        """One product."""
        self._torch.matmul(self._left, self._right, out=self._product)
        self._torch.cuda.synchronize()


def compute(torch: "Torch", chunks: "list[Tensor]", work: str, load: float) -> None:
    """Compute on the first chunk for that share of the time, for ever. Memory that runs out costs one chunk, not the load."""
    while chunks:
        try:
            step = (Matmul if work == "matmul" else Elementwise)(torch, chunks[0])
            while True:
                end = time.monotonic() + PERIOD_SECONDS
                rest_from = end - PERIOD_SECONDS * (1.0 - load)
                while time.monotonic() < rest_from:
                    step()
                time.sleep(max(0.0, end - time.monotonic()))
        except torch.cuda.OutOfMemoryError:
            if len(chunks) == 1:
                raise
            chunks.pop()
            torch.cuda.empty_cache()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:300]


def main() -> None:
    """Do the job; the parent ends this process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    job = LoadJob(**json.loads(sys.stdin.readline()))
    if os.getppid() != job.parent:  # it was gone before the line above could heed that
        return
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]  # its neighbours are no libraries
    try:
        import torch
    except ImportError as error:
        say(LoadAnswer(missing=str(error)))
        return
    except Exception as error:  # noqa: BLE001 - a build that does not fit this machine fails in its own ways
        say(LoadAnswer(failed=f"PyTorch cannot be loaded: {_words(error)}"))
        return
    try:
        if not torch.cuda.is_available():
            say(LoadAnswer(failed="PyTorch finds no GPU: is it built for CUDA, and for this driver?"))
            return
        chunks, why = hold(torch, job.memory, job.chunk)
        if not chunks:
            say(LoadAnswer(failed=f"no GPU memory can be allocated: {why or 'none is free'}"))
            return
        say(LoadAnswer(sum(chunk.numel() for chunk in chunks) * _FLOAT_BYTES, len(chunks), why))
        if job.work != "hold":
            compute(torch, chunks, job.work, job.load)
        while True:
            time.sleep(3600)
    except Exception as error:  # noqa: BLE001 - the process's boundary: whatever a GPU does is for the summary
        say(LoadAnswer(failed=_words(error)))


if __name__ == "__main__":
    main()
