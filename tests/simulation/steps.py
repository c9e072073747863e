"""The owner's programs at the steps of an incident: each at its step, once, and soon."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

SOON = 300.0
"""Seconds after its step in which a program has begun: others may run before it."""

WAITS_ITS_TURN = 300.0
"""Seconds for which the program of a step may wait for others, under the configuration in which it was reached."""

TWICE = frozenset(("undo", "pre_stop"))
"""Run once more where an end of the guard cut them off."""


TAKES_BACK = frozenset(("cancelled", "undo"))
"""Run by the configuration under which the countdown began, whatever the guard works under since."""


class Steps:
    """Which programs are due, and which have run."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._ran: dict[tuple[str, str], float] = {}  # step and incident, and when its program began last
        self._due: dict[tuple[str, str], float] = {}
        self._under: dict[str, dict[str, Any]] = {}  # the configuration under which an incident was first heard of
        self._forgotten: set[str] = (
            set()
        )  # incidents of before the state of a boot was lost, and with it what ran for them
        self._before: dict[str, Any] = {}  # the configuration before the last one
        self._perhaps_over = ""  # an incident of which a guard was killed that may just have decided how it ended

    def afresh(self) -> None:
        """A guard remembers nothing of this boot."""
        self._forgotten |= self._under.keys()

    def unsaid(self, incident: str) -> None:
        """A guard was killed as it saved what it had decided."""
        self._perhaps_over = incident

    def heard(self, incident: str | None) -> None:
        """A worker is started for this incident, or people hear of it."""
        if incident:
            self._under.setdefault(incident, self._judge.story.ruled)

    def ruled(self, job: dict[str, Any]) -> dict[str, Any]:
        """The configuration by which this program must run; one that does not breaks a rule."""
        judge = self._judge
        ruled = self._ruled(job["step"], job.get("incident", ""))
        another = job.get("hook", {}) != ruled.get("hooks", {}) or job["mode"] != ruled["policy"]["mode"]
        if another and self._before and judge.at - judge.ruled_at <= WAITS_ITS_TURN:
            ruled = self._before  # it has waited for others
        if job["mode"] != "live" and judge.at - judge.ruled_at > WAITS_ITS_TURN:  # else it refuses
            judge.breaks("a dry run runs a hook")
        if job.get("hook", {}) != ruled.get("hooks", {}):
            judge.breaks(f"the program of {job['step']} runs by settings of another configuration")
        return ruled

    def _ruled(self, step: str, incident: str) -> dict[str, Any]:
        ruled: dict[str, Any] = self._judge.story.ruled
        return self._under.get(incident, ruled) if step in TAKES_BACK else ruled

    def ruled_anew(self, before: dict[str, Any]) -> None:
        """Another configuration."""
        self._before = before
        self.disturbed()

    def disturbed(self) -> None:
        """The guard may have lost what it had to run."""
        self._due.clear()

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        """A step is reached when people hear of it."""
        judge, incident = self._judge, facts.get("incident")
        self.heard(incident)
        ruled = self._ruled("cancelled", incident or "")
        hooks = ruled.get("hooks") or {}
        if incident is None or ruled["policy"]["mode"] != "live" or facts.get("told_again"):
            return
        if incident in self._forgotten:
            return
        if kind == "warning" and hooks.get("warning"):
            self._owes("warning", incident)
        if judge.at - max(judge.guard_at, judge.stalled) <= 2 * judge.law.interval:
            return  # told of what an earlier guard, or boot, has left
        if kind == "cancelled" and judge.stage == "warned" and judge.incident == incident:
            self._due.pop(("warning", incident), None)
            if hooks.get("cancelled"):
                self._owes("cancelled", incident)
        saved = incident in judge.story.world.hooked
        if kind in {"cancelled", "failed", "cannot", "outcome_unknown"} and saved and hooks.get("undo"):
            self._owes("undo", incident)

    def _owes(self, step: str, incident: str) -> None:
        if (step, incident) not in self._ran:
            self._due.setdefault((step, incident), self._judge.at)

    def begins(self, job: dict[str, Any]) -> None:
        """A program is started."""
        judge, step, incident = self._judge, job["step"], job.get("incident", "")
        before = self._ran.get((step, incident))
        self._ran[step, incident] = judge.at
        self._due.pop((step, incident), None)
        if not incident:
            if step == "pre_stop":  # the cloud announces an end
                self._under[incident] = judge.story.ruled
            return
        if before is not None and step not in TWICE and judge.guard_at < before and not judge.unsaved:
            judge.breaks(f"the program of {step} runs again for {incident}")
        # the one before it may have been killed as it warned
        begun = judge.at - max(judge.guard_at, judge.stalled) > SOON
        if step in {"warning", "cancelled"} and incident not in judge.tried and begun and job["reason"] != "person":
            judge.breaks(f"the program of {step} runs for {incident}, of which nobody was warned")
        known = judge.incident == incident != self._perhaps_over
        if step in {"cancelled", "undo"} and known and judge.is_out():
            judge.breaks(f"the program of {step} runs for {incident}, whose request is out")

    def tick(self) -> None:
        """None is late."""
        judge = self._judge
        for (step, incident), since in self._due.items():
            if judge.at - max(since, judge.stalled) > SOON + 2 * judge.law.interval:
                judge.breaks(f"the program of {step} has not run for {incident} after {judge.at - since:.0f} s")
