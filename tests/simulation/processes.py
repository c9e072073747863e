"""The guard's children, as the kernel has them: none lives for ever, and a reader that is gone is started again."""

from typing import TYPE_CHECKING

from costguard.testing.simhost import SimHost
from costguard.testing.simprograms import PROGRAMS

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

SHORT = {
    "notify": 300.0,
    "persist": 300.0,
    "configure": 300.0,
    "history": 300.0,
    "plan": 600.0,
    "confirm": 600.0,
    "hook": 600.0,
}
LONG = 2 * 3600.0
"""Seconds that a short-lived child may take at most, by what it does."""

CARRIED_OUT = 900.0
"""Seconds that a worker has for what was requested: much more than any time-out of a story."""

AGAIN_WITHIN = 900.0
"""Seconds in which a reader that is gone is started again, or that is tried."""

AT_REST, LEAVES_WITHIN = frozenset(("watching", "done", "failed")), 90.0
"""Stages without a countdown, and seconds in which a worker ends that was to act at the end of one."""

UNDEAD = 4
"""Readers that cannot be killed, at most: one more would hang as well."""


class Processes:
    """Looks at the children once in every tick."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._since: dict[int, float] = {}
        self._reader = 0.0  # when one ran, or was to be started, last
        self._told = False

    def begins(self) -> None:
        """Another guard."""
        self._since.clear()
        self._reader = self._judge.at

    def started(self, program: str) -> None:
        """A child is to be started."""
        if program == "nvml":
            self._reader = self._judge.at

    def tick(self) -> None:
        """Each child has a deadline."""
        judge, host, at = self._judge, self._judge.story.host, self._judge.at
        undead = len([kind for until, kind in host.undead if kind == "nvml" and until > at])
        if undead > UNDEAD:
            judge.breaks(f"{undead} readers that cannot be killed hang beside each other")
        if undead >= UNDEAD - 1:  # no further one is started meanwhile
            self._reader = at
        self._since = {child: self._since.get(child, at) for child in host.children}
        released = {attempt for tried in judge.gone.values() for _, attempt in tried}
        for child, since in self._since.items():
            kind = self._kind(host, child)
            if (
                kind not in {"nvml", "cloud"}
                and at - max(since, judge.stalled, judge.began) > SHORT.get(kind, LONG) + 2 * judge.law.interval
            ):
                judge.breaks(f"a child that does {kind} runs for {at - since:.0f} s")
            if kind == "act" and host.children[child].job["attempt"] not in released:
                begun = max(since, judge.stage_at, judge.stalled, judge.began)
                if judge.stage in AT_REST and at - begun > LEAVES_WITHIN + 2 * judge.law.interval:
                    judge.breaks(f"a worker has waited to act for {at - begun:.0f} s, and nothing is to be done")
            late = at - max(judge.went, judge.stalled, judge.began) > CARRIED_OUT + 2 * judge.law.interval
            if kind == "act" and host.children[child].job["attempt"] in released and late:
                judge.breaks(f"a worker that carries out a request runs for {at - judge.went:.0f} s")
            if kind == "nvml":
                self._reader = at
        if (
            undead < UNDEAD - 1
            and at - max(self._reader, judge.stalled, judge.began) > AGAIN_WITHIN + 2 * judge.law.interval
        ):
            judge.breaks(f"no reader runs, and none was started for {at - self._reader:.0f} s")

    @staticmethod
    def _kind(host: SimHost, child: int) -> str:
        program = host.children[child]
        name = next(name for name, made in PROGRAMS.items() if isinstance(program, made))
        return str(program.job["job"]) if name == "act" else name
