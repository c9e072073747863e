"""A program in a process of its own that begins where this one is: nothing is started and imported anew, so that a test costs milliseconds."""

import gc
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress

LIMIT = 4096  # descriptors that a child may have inherited


class Forked:
    """What a test uses of `subprocess.Popen`: the program runs as ``python -c`` would, in a session of its own."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        theirs, ours = os.pipe()
        answers, into = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _run(program, env, theirs, into)
        os.close(theirs)
        os.close(into)
        self.stdin: io.BufferedWriter | None = os.fdopen(ours, "wb")
        self.stdout: io.BufferedReader | None = os.fdopen(answers, "rb")

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Its end. Raises subprocess.TimeoutExpired."""
        end, pause = time.monotonic() + timeout, 0.0005
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked program", timeout)
            time.sleep(pause)
            pause = min(0.02, 2.0 * pause)
        return code

    def communicate(self, input: bytes, timeout: float = 60.0) -> tuple[bytes, None]:  # noqa: A002 - as subprocess has it
        """Say this, and hear everything to the end."""
        assert self.stdin is not None
        assert self.stdout is not None
        with suppress(BrokenPipeError):
            self.stdin.write(input)
            self.stdin.flush()
        with suppress(BrokenPipeError):
            self.stdin.close()
        end, found = time.monotonic() + timeout, b""
        while select.select([self.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            data = self.stdout.read1(65536)
            if not data:
                self.stdout.close()
                self.wait(max(0.1, end - time.monotonic()))
                return found, None
            found += data
        raise subprocess.TimeoutExpired("a forked program", timeout)

    def send_signal(self, number: int) -> None:
        """To it alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(program: str, env: Mapping[str, str], source: int, target: int) -> None:
    """In the child: leave the test behind, run, and never return."""
    code = 1
    try:
        gc.disable()  # what the test left is not looked through
        sys.settrace(None)
        threading.settrace(None)
        os.setsid()
        os.dup2(source, 0)
        os.dup2(target, 1)
        os.closerange(3, LIMIT)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        os.environ.clear()
        os.environ.update(env)
        sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(":") if path not in {"", *sys.path}]
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - for its whole life
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does at the end of a program
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code & 0xFF)
