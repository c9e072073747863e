"""One action worker, driven by a person at the command line instead of the guard."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from costguard.agent.identity import boot_id, instance_id
from costguard.agent.programs import command_lines
from costguard.cli.instance import instance_of
from costguard.engine import deadlines
from costguard.engine.state import PERSON
from costguard.errors import REFUSED, CostguardError
from costguard.trust import clean


def job(effective: Mapping[str, Any], action: str, owner: str) -> dict[str, Any]:
    """The job of a person's own attempt; its ids cannot be those of an agent."""
    procfs = effective["host"]["procfs"]
    name = f"{boot_id(procfs)[:8]}-p{time.clock_gettime(time.CLOCK_BOOTTIME) * 1000:.0f}"
    settings = effective["actions"].get(action, {})
    return {
        "job": "act",
        "action": action,
        "mode": effective["policy"]["mode"],
        "attempt": name + "a",
        "incident": name + "i",
        "reason": PERSON,
        "asks": True,
        "sentence": f"{owner} said `costguard stop`",
        "settings": settings,
        "cloud": effective["cloud"],
        "sink": effective["sink"],
        "hook": effective["hooks"],
        "host": effective["host"],
        "providers": effective["providers"],
        "results": effective["paths"]["runtime"] + "/results",
        "context": {"instance": instance_of(effective) or instance_id(effective["host"]["sysfs"])},
        "deadline": float(settings.get("timeout") or deadlines.ACTION),
    }


class Attempt:
    """A worker that plans at once, and acts when it is told to. Left without `go`, it ends without an effect."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._child = subprocess.Popen(
            command_lines()["act"],
            env=clean(os.environ, os.geteuid())[0],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Let go of it: the end of its input ends a worker that waits, one that acts finishes by itself."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(2.0)

    def plan(self) -> dict[str, Any]:
        """What the action would do. Raises CostguardError when the worker cannot say."""
        self._send(self._given)
        found = self._answer("plan", deadlines.prepare(0.0).killed)
        assert isinstance(found, dict)  # as the worker says it
        return found

    def go(self) -> dict[str, Any]:
        """Act, and say what became of it. Raises CostguardError when nobody knows."""
        self._answer("ready", deadlines.MARGIN)
        self._send({"go": True})
        hook = self._given["hook"]
        saving = float(hook["timeout"]) if hook["pre_stop"] else 0.0
        found = self._answer("outcome", saving + deadlines.act(float(self._given["deadline"])).killed)
        assert isinstance(found, dict)  # as above
        return found

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it says why, or its end does
            self._child.stdin.write(json.dumps(message).encode() + b"\n")

    def _answer(self, name: str, seconds: float) -> object:
        end = time.monotonic() + seconds
        while True:
            line = self._line(end)
            said = json.loads(line or b"{}")
            if name in said:
                return said[name]
            if not line or "error" in said:
                words = str(said.get("error") or "the worker of the action ended or did not answer")
                hint = (
                    "`costguard doctor` shows what each action would do; look in the cloud's console if it was released"
                )
                raise CostguardError(words, hint, REFUSED)

    def _line(self, end: float) -> bytes:
        assert self._child.stdout is not None
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._child.stdout], [], [], left)[0]:
                return b""
            data = self._child.stdout.read(65536)
            if not data:
                return b""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line
