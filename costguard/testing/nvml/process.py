"""Drive a real NVML reader process, as the guard does."""

import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from costguard.agent.programs import command_lines


class NoAnswerError(Exception):
    """The reader did not answer in time."""


class ReaderProcess:
    """A reader process of its own; a context manager that leaves nothing behind."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        sysfs: str | os.PathLike[str] = "/sys",
        devfs: str | os.PathLike[str] = "/dev",
        counters: Mapping[str, object] | None = None,
        known: Sequence[str] = (),
        learnt: Mapping[str, object] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command_lines()["nvml"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._rest = b""
        self._reads = 0
        places = {"sysfs": str(sysfs), "procfs": "/proc", "devfs": str(devfs)}
        self.send({**places, "counters": counters, "learnt": learnt, "known": list(known)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # a last line that nobody reads any more
                pipe.close()

    def send(self, request: Mapping[str, object]) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, request: Mapping[str, object], seconds: float = 10.0) -> Any:  # noqa: ANN401 # JSON
        """Write one line and wait for one. Raises NoAnswerError."""
        self.send(request)
        return self.take(seconds, f"answer to {request}")

    def take(self, seconds: float = 10.0, what: str = "further answer") -> Any:  # noqa: ANN401 # JSON
        """Wait for the next line. Raises NoAnswerError."""
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                raise NoAnswerError(f"no {what} within {seconds} s")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise NoAnswerError(f"the reader ended: no {what}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def read(self, seconds: float = 10.0) -> Any:  # noqa: ANN401 # JSON
        """The answer to the next read."""
        self._reads += 1
        answer = self.ask({"read": self._reads}, seconds)
        assert answer["read"] == self._reads
        return answer

    def close(self) -> None:
        """Close its stdin, as a guard that ends does."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def wait(self, seconds: float = 10.0) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)
