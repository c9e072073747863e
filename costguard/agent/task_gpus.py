"""The GPUs of the task in which the agent was started: found with the first answer that shows them, and fixed then.

What the task's scheduler lets this process see, or what its environment names, is the whole scope: no other GPU is judged,
shown or waited for. As long as it is not certain which they are, there is none, which is unknown and never idle.
"""

from collections.abc import Mapping

from costguard.agent.granted import WITHHELD, granted
from costguard.engine.observation import Device, Known, Observation, Unknown
from costguard.host.ports import Report

NOBODY = Observation((), ())


class TaskGpus:
    """See the module. ``report`` gets the subject *task*."""

    def __init__(self, environment: Mapping[str, str], report: Report) -> None:
        self._environment, self._report = environment, report
        self.keys: tuple[str, ...] | None = None
        """The task's GPUs; None as long as that is not known."""
        self.other_gpus = 0
        """How many others can be read here."""
        self._last: tuple[Observation, Observation] = NOBODY, NOBODY

    def narrow(self, seen: Observation, devices: Mapping[str, Device]) -> Observation:
        """The same of the task's GPUs alone; one that is not listed any more is unknown, as ever."""
        if seen is self._last[0]:
            return self._last[1]  # the same value as before: the engine's quick path rests on that
        if self.keys is None:
            self._find(seen, devices)
        chosen = [(key, one) for key, one in zip(seen.gpus, seen.readings, strict=True) if key in (self.keys or ())]
        found = seen._replace(gpus=tuple([key for key, _ in chosen]), readings=tuple([one for _, one in chosen]))
        self._last = seen, found
        return found

    def _find(self, seen: Observation, devices: Mapping[str, Device]) -> None:
        readable = [key for key, one in zip(seen.gpus, seen.readings, strict=True) if not _withheld(one)]
        if not any(type(one) is Known for one in seen.readings):
            return  # the reader has shown nothing yet
        found = granted(seen, [devices[key] for key in seen.gpus if key in devices], self._environment)
        if found.doubt or not found.keys:
            self._report(
                "task", f"it is unclear which GPUs belong to this task, so none is judged: {found.doubt or found.why}"
            )
            return
        self._report("task", None)
        self.keys, self.other_gpus = found.keys, len(readable) - len(found.keys)


def _withheld(reading: object) -> bool:
    return isinstance(reading, Unknown) and reading.reason.startswith(WITHHELD)
