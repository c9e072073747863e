"""Drive a real NVML reader process, as the guard does."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from costguard.process.child import Child, EndedError, SilentError
from costguard.readers.nvml.job import NvmlJob


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
        self._child = Child("nvml", environment={**os.environ, **environment})
        self.pid = self._child.pid
        self._reads = 0
        self.send(NvmlJob(sysfs=str(sysfs), devfs=str(devfs), counters=counters, learnt=learnt, known=known))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill(60.0)

    def send(self, request: object) -> None:
        """Write one line. Raises EndedError."""
        self._child.send(request)

    def ask(self, request: Mapping[str, object], seconds: float = 10.0) -> Any:  # noqa: ANN401 # JSON
        """Write one line and wait for one. Raises NoAnswerError."""
        self.send(request)
        return self.take(seconds, f"answer to {request}")

    def take(self, seconds: float = 10.0, what: str = "further answer") -> Any:  # noqa: ANN401 # JSON
        """Wait for the next line. Raises NoAnswerError."""
        try:
            return json.loads(self._child.line(time.monotonic() + seconds))
        except SilentError as error:
            raise NoAnswerError(f"no {what} within {seconds} s") from error
        except EndedError as error:
            raise NoAnswerError(f"the reader ended: no {what}") from error

    def read(self, seconds: float = 10.0) -> Any:  # noqa: ANN401 # JSON
        """The answer to the next read."""
        self._reads += 1
        answer = self.ask({"read": self._reads}, seconds)
        assert answer["read"] == self._reads
        return answer

    def close(self) -> None:
        """Close its stdin, as a guard that ends does."""
        self._child.hang_up()

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()

    def wait(self, seconds: float = 10.0) -> int | None:
        """The exit code; None when it has not ended."""
        return self._child.wait(seconds)
