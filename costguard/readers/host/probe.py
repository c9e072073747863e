"""The sense `probe`: a program of the owner says whether the machine is needed.

Exit codes are those of Nagios: 0 (OK) says that nothing needs it, 1 and 2 (WARNING, CRITICAL) that something does; 3 and every
other one is unknown. With ``above`` it exits with 0 and writes one number and nothing else; a higher one says that the machine is
needed. It only looks, so it runs in a dry run too. A short-lived process runs it (`costguard.readers.host.probe_run`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import NEVER, NOT_YET, Activity, Moment, SensePaths, Sight
from costguard.readers.host.text import printable

if TYPE_CHECKING:
    from costguard.readers.host.errand import Errand
    from costguard.readers.host.errand_jobs import ProbeEnd

QUIET, NEEDED = 0, (1, 2)
"""Exit codes; see the module."""

CLEANING_SECONDS = 15.0
"""Time beyond the probe's own, to start it and to end what it leaves behind."""

NO_PROBE = Sight(seen="no probe is configured")


class Probe:
    """See the module."""

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:  # noqa: ARG002 - every sense has it
        self._run = tuple(settings["run"])
        self._user = str(settings["user"])
        self._every, self._timeout = float(settings["every"]), float(settings["timeout"])
        self._above: float | None = settings["above"]
        self._due = 0.0
        self._errand: Errand[ProbeEnd] | None = None
        self._unknown = NOT_YET
        self._active: Activity | None = None
        self.rests_until = 0.0 if self._run else NEVER

    @property
    def _who(self) -> str:
        name = self._run[0].rpartition("/")[2] if self._run else ""
        return "probe" if name == "probe" else f"probe {printable(name)}"

    def look(self, now: Moment, processes: Processes) -> Sight:  # noqa: ARG002 - every sense has them
        """See `costguard.readers.host.sense.Sense`."""
        if not self._run:
            return NO_PROBE
        self.go_on(now)
        if self._errand is None and now.boot >= self._due:
            self._begin(now.boot)
        seen = "" if self._unknown or self._active else "the probe says that nothing needs the machine"
        return Sight((self._active,) if self._active else (), self._unknown, seen)

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `go_on` has something to do."""
        return [self._errand.fileno()] if self._errand is not None else []

    def go_on(self, now: Moment) -> None:
        """Take the answer, if there is one."""
        from costguard.readers.host.errand import ErrandError, collect

        collect(now.boot)
        if self._errand is None:
            return
        try:
            found = self._errand.look(now.boot)
        except ErrandError as error:
            self._errand = None
            self._say_unknown(str(error))
            return
        if found is not None:
            self._errand = None
            self._take(now.boot, found)

    def _begin(self, now: float) -> None:
        from costguard.readers.host.errand import Errand, ErrandError
        from costguard.readers.host.errand_jobs import ProbeEnd, ProbeJob

        self._due = now + self._every
        try:
            job = ProbeJob(self._run, self._user, self._timeout)
            self._errand = Errand("probe", job, ProbeEnd, now, self._timeout + CLEANING_SECONDS)
        except ErrandError as error:
            self._say_unknown(str(error))

    def _say_unknown(self, words: str) -> None:
        self._active, self._unknown = None, f"the {self._who} {words}"

    def _take(self, now: float, found: "ProbeEnd") -> None:
        """Judge how the probe ended."""
        if found.error:
            self._say_unknown(found.error)
            return
        code = found.code
        if code < 0:
            self._say_unknown(f"died of signal {-code}")
        elif self._above is None:
            self._judge(now, code in NEEDED, "" if code in (QUIET, *NEEDED) else f"ended with exit code {code}")
        elif code != QUIET:
            self._say_unknown(f"ended with exit code {code}")
        else:
            number = found.number
            self._judge(
                now,
                number is not None and number > self._above,
                "did not write one number and nothing else" if number is None else "",
            )

    def _judge(self, now: float, needed: bool, trouble: str) -> None:
        if trouble:
            self._say_unknown(trouble)
            return
        self._unknown = ""
        if not needed:
            self._active = None
            return
        since = self._active.since if self._active else now
        lets_go = "exit code 0" if self._above is None else f"a number of at most {self._above:g}"
        self._active = Activity(self._who, "says that the machine is needed", since, now, lets_go)
