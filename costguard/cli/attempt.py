"""One action worker, driven by a verb instead of the guard."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

from costguard.actions.base import Context
from costguard.actions.job import ActionAnswer, Release
from costguard.cli.guarded import instance_of
from costguard.clocks import boot_clock
from costguard.engine import time_limits
from costguard.engine.state import PERSON
from costguard.errors import REFUSED, CostguardError
from costguard.host.identity import boot_id, instance_id
from costguard.plans import Plan, Result
from costguard.process.child import Child, EndedError, SilentError
from costguard.process.wire import MalformedError, from_line

T = TypeVar("T")


def job(effective: Mapping[str, Any], action: str, owner: str) -> Context:
    """The job of an attempt without the agent; its ids cannot be those of an agent."""
    host = effective["host"]
    name = f"{boot_id(host['procfs'])[:8]}-p{boot_clock() * 1000:.0f}"
    wanted = Context.of(effective, action)
    return wanted._replace(
        job="act",
        attempt=name + "a",
        incident=name + "i",
        reason=PERSON,
        asks=True,
        sentence=f"{owner} ran `costguard stop`",
        instance=instance_of(effective) or instance_id(host["sysfs"]),
        deadline=float(str(wanted.settings.get("timeout") or time_limits.ACTION_SECONDS)),
        fallback=False,  # a person has chosen this action
    )


class LocalAttempt:
    """A worker that plans at once and acts on `go`; without it, the worker ends without an effect."""

    def __init__(self, given: Context) -> None:
        self._given = given
        self._child = Child("act")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input: that ends a worker that waits; one that acts finishes by itself."""
        self._child.close()

    def plan(self) -> Plan:
        """What the action would do. Raises CostguardError when the worker fails."""
        self._send(self._given)
        return self._answer(lambda answer: answer.plan, time_limits.prepare(0.0).killed)

    def go(self) -> Result:
        """Act, and return the outcome. Raises CostguardError when it is unknown."""
        self._answer(lambda answer: answer.ready or None, time_limits.MARGIN_SECONDS)
        self._send(Release(True))
        hook = self._given.hook
        saving = float(str(hook["timeout"])) if hook["pre_stop"] else 0.0
        return self._answer(lambda answer: answer.outcome, saving + time_limits.act(self._given.deadline).killed)

    def _send(self, value: Context | Release) -> None:
        with suppress(EndedError):  # its answer says why, or its end does
            self._child.send(value)

    def _answer(self, part: Callable[[ActionAnswer], T | None], seconds: float) -> T:
        """The first answer that has this part."""
        end, error = time.monotonic() + seconds, ""
        while not error:
            try:
                answer = from_line(ActionAnswer, self._child.line(end))
            except (SilentError, EndedError):
                error = "the action worker ended or did not answer"
            except MalformedError as malformed:
                error = f"internal error: malformed answer of the action worker ({malformed}); please report it"
            else:
                if (found := part(answer)) is not None:
                    return found
                error = answer.error
        hint = "`costguard doctor` shows what each action would do; check the cloud's console if you confirmed the stop"
        raise CostguardError(error, hint, REFUSED)
