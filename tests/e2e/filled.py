"""`costguard fill` on a stand-in NVIDIA library, whose lists of processes follow what really runs here."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from costguard.testing.nvml import Process as OnGpu
from costguard.tree import processes

from .guarded import PATIENCE, Guarded, until

QUICK = ("--interval", "0.2s", "--idle-for", "0.4s", "--rest", "0.6s", "--unknown-for", "1s", "--retry", "0.5s", "--grace", "0.4s")  # fmt: skip
"""Begins after 0.4 s, is gone 0.2 + 0.4 s after somebody came."""

WORK = """
import os, signal, sys, time
if '--deaf' in sys.argv:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
gpu = os.environ['CUDA_VISIBLE_DEVICES']
if '--child' in sys.argv and os.fork() == 0:
    if os.fork(): os._exit(0)
    os.setsid()
with open('begun', 'a') as file: file.write(f'{os.getpid()} {gpu}\\n')
time.sleep(1000)
"""
"""Says who it is, and where; ``--deaf`` to signals; ``--child`` beside one that left group, session and parent."""


class Filled(Guarded):
    """One folder with two GPUs on which nobody is."""

    command = (sys.executable, "-m", "costguard", "fill")
    wrapper: Sequence[str] = ()
    """What starts costguard, where it is not started directly."""

    def begin(self, *options: str, work: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        """Start one with work that waits."""
        return self.start(*QUICK, *options, "--", sys.executable, "-S", "-c", WORK, *work)

    def begun(self) -> list[tuple[int, str]]:
        """Every process of the work that began so far, and its GPUs."""
        path = self.folder / "begun"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def working(self) -> list[int]:
        """Those of them that live."""
        return [pid for pid, _ in self.begun() if processes.find(pid) is not None]

    def until_working(self, count: int) -> list[int]:
        """Wait until so many work."""
        until(lambda: len(self.working()) == count, told=lambda: (self.begun(), self.said))
        return self.working()

    def on_gpu(self, gpu: int, *pids: int) -> None:
        """Let the driver list these there."""
        self.gpus.set(gpu, processes=[OnGpu(pid) for pid in pids])

    def __init__(self, *arguments: Any) -> None:
        """The numbers that the stand-in lists are those of here, also where the tests themselves run in a container."""
        super().__init__(*arguments)
        self.environment["COSTGUARD_HOST__STANDS_FOR_HOST"] = "true"

    @property
    def said(self) -> str:
        """What the launcher said so far."""
        return (self.folder / "said").read_text()

    def start(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, session: bool = True
    ) -> "subprocess.Popen[bytes]":
        """As for one command, with its words in a file."""
        with (self.folder / "said").open("ab") as said:
            process = subprocess.Popen(
                [*self.wrapper, *self.command, *arguments], env=self.environment, cwd=self.folder,
                stdin=stdin, stdout=said, stderr=said, start_new_session=session,
            )  # fmt: skip
        self._started.append(process)
        return process

    def watcher_of_fill(self) -> processes.TreeProcess | None:
        """The watcher."""
        return self.running(b"costguard.fill.watcher")

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """As a service manager would; nothing is left."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, self.said
        self.until_gone()


@contextmanager
def somebody(name: str = "") -> "Iterator[subprocess.Popen[bytes]]":
    """A process that is none of ours; it must be there at the end."""
    code = f"import time; open('/proc/self/comm', 'w').write({name!r}) if {name!r} else None; time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
    time.sleep(0.1 if name else 0)
    try:
        yield process
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
