"""`costguard exec` on a stand-in NVIDIA library, and what is left of the processes that it started."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from costguard.testing.nvml import Script
from costguard.tree import processes
from costguard.tree.processes import TreeProcess

COMMAND = [sys.executable, "-m", "costguard", "exec"]
PATIENCE = 60.0
QUICK = ("-s", "0.2", "-n", "3", "-d", "0", "--grace", "0.3")
"""Idle after 0.6 s, ended for good 0.3 s later."""

UUIDS = ("GPU-5d000000-0000-4000-8000-000000000000", "GPU-5d000000-0000-4000-8000-000000000001")


def until(holds: Callable[[], object], seconds: float = PATIENCE, told: Callable[[], object] = lambda: "") -> None:
    """Wait until something holds; ``told``: what else there is, for people."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(0.02)


class Guarded:
    """One folder with two GPUs at rest, and what runs there."""

    command: Sequence[str] = COMMAND

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.gpus = Script(folder / "gpus", gpus=2, name="NVIDIA H200", util=0)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("COSTGUARD_", "CUDA_"))
        }
        self.environment |= self.gpus.environment(library) | {"PYTHONPATH": os.getcwd()}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, stdin: int = subprocess.PIPE, session: bool = True) -> subprocess.Popen[bytes]:
        """Start one, without a terminal unless it stays in this session."""
        process = subprocess.Popen(
            [*self.command, *arguments], env=self.environment, cwd=self.folder, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=session,
        )  # fmt: skip
        self._started.append(process)
        return process

    def start_on_terminal(self, *arguments: str) -> "tuple[subprocess.Popen[bytes], int]":
        """Start one as the first process of a terminal of its own; the other end of it."""
        master, slave = pty.openpty()
        with os.fdopen(slave) as terminal:
            process = subprocess.Popen(
                [*self.command, *arguments], env=self.environment, cwd=self.folder, stdin=terminal, stdout=terminal, stderr=terminal,
                start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - the tests have no threads
            )  # fmt: skip
        self._started.append(process)
        return process, master

    def run(self, *arguments: str, text: bytes | None = None) -> tuple[int, str, str]:
        """Start one and wait for it: code, output, errors."""
        process = self.start(*arguments)
        assert process.stdin is not None
        if text is not None:
            out, err = process.communicate(text, PATIENCE)
        else:  # its input stays open
            process.wait(PATIENCE)
            out, err = process.communicate(None, PATIENCE)
        return process.returncode, out.decode(), err.decode()

    def ours(self) -> list[TreeProcess]:
        """Every living process that was started here: all inherit the path of the script, or say `here` in their command line."""
        mark = str(self.folder).encode()
        found = []
        for pid, process in processes.table().items():
            try:
                told = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if mark in told and pid != os.getpid():
                found.append(process)
        return found

    def watcher(self) -> TreeProcess | None:
        """The watcher."""
        return self.running(b"costguard.tree.watcher")

    def running(self, module: bytes) -> TreeProcess | None:
        """The process that runs this module; None where it has ended, be it just now."""
        for process in self.ours():
            with suppress(OSError):
                if module in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    return process
        return None

    def until_gone(self) -> None:
        """Nothing is left."""
        until(lambda: not self.ours(), told=self.ours)

    def wait_for(self, name: str) -> str:
        """The text of a file that the command writes."""
        path = self.folder / name
        until(lambda: path.exists() and path.read_text())
        return path.read_text()

    def clean_up(self) -> None:
        """Whatever a failed test left."""
        for process in self.ours():
            processes.send(process, signal.SIGKILL)
        for started in self._started:
            started.wait()
            for pipe in (started.stdin, started.stdout, started.stderr):
                if pipe is not None:
                    pipe.close()


def python(code: str, *arguments: str) -> Sequence[str]:
    """The command line of a small program."""
    return ["--", sys.executable, "-S", "-c", code, *arguments]
