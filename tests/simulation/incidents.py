"""Incidents and attempts by their ids: each is new, and one that is closed stays closed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

CLOSES = frozenset(("cancelled", "came_back", "closed", "done", "would_act", "cannot", "outcome_unknown"))
"""Messages after which nothing more is done for an incident."""


class Incidents:
    """I4: ids contain the boot, so none of them comes twice; and whatever has ended is not gone on with."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._boots: dict[str, int] = {}  # in which boot an incident began
        self._attempts: set[str] = set()
        self.acting: set[tuple[str, str]] = set()
        """Of which people heard that they are being carried out: incidents, each with its action."""
        self._over: dict[str, str] = {}  # incidents that are closed, and how

    def begins(self) -> None:
        """A guard begins: what its predecessor said last, it may not have saved."""
        if (
            self._judge.story.world.start().state is None
            or self._judge.unsaved
            or self._judge.killed - self._judge.saved_at < 0.1
        ):
            self._over.clear()

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        """A message about an incident."""
        incident = facts.get("incident")
        if incident is None:
            return
        if kind == "warning":
            self._goes_on(incident)
            boot = self._boots.setdefault(incident, self._judge.story.world.boots)
            if boot != self._judge.story.world.boots:
                self._judge.breaks(f"I4: incident {incident} has the id of one of an earlier boot")
        if kind == "acting":
            self.acting.add((incident, facts["action"]))
        if kind in {"failed", "next_action"} and incident in self._judge.endings.disproved:
            self._over.pop(incident, None)
        if kind in CLOSES:
            self._over.setdefault(incident, kind)

    def works(self, job: dict[str, Any]) -> None:
        """A worker is asked for."""
        if job["job"] == "act":
            self._goes_on(job["incident"])
            if job["attempt"] in self._attempts:
                self._judge.breaks(f"I4: attempt {job['attempt']} has the id of an earlier one")
            self._attempts.add(job["attempt"])
        elif job["job"] == "confirm":
            self._goes_on(job["incident"])

    def is_over(self, incident: str) -> bool:
        """Whether people heard how it ended."""
        return incident in self._over

    def _goes_on(self, incident: str) -> None:
        if incident in self._over:
            self._judge.breaks(f"incident {incident} goes on after it was closed ({self._over[incident]})")
