"""Questions to the master about one task. Source: the bindings of the API in Determined's own client, 0.38.1."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.cloud.api import Ticket
from costguard.plans import PlanFinding, Result, Verdict
from costguard.tasks.api import Place, SchedulerError, State, Task, TaskFacts
from costguard.tasks.outcome import TaskLook, confirmed, doubted, unsent
from costguard_determined import identity
from costguard_determined.master import Master

FOLDERS = {
    "notebook": "notebooks",
    "shell": "shells",
    "command": "commands",
    "tensorboard": "tensorboards",
    "trial": "trials",
}
"""Where a kind of task stands below /api/v1."""

_WAITS = ("PENDING", "ASSIGNED", "QUEUED", "PULLING", "STARTING", "WAITING", "PAUSED")
_STOPPING = ("CANCELED", "KILLED", "COMPLETED", "ERROR")
STATES: Mapping[str, State] = {
    **dict.fromkeys(_WAITS, "waiting"),
    **dict.fromkeys(("RUNNING", "ACTIVE"), "running"),
    **dict.fromkeys(("TERMINATING", *(f"STOPPING_{how}" for how in _STOPPING)), "ending"),
    **dict.fromkeys(("TERMINATED", "CANCELED", "COMPLETED", "ERROR", "DELETED", "DELETING"), "ended"),
}
"""By Determined's word, of tasks and of trials, without ``STATE_``."""

UNKNOWN = "that it knows no such task, or none that this token may see"


class Seen(NamedTuple):
    """The task as the master shows it; ``slots``: of its whole allocation, None where it does not say."""

    said: str
    owner: str
    stamp: str
    slots: int | None

    @property
    def state(self) -> State:
        """Raises SchedulerError for a word that nobody knows: it may mean anything."""
        if self.said not in STATES:
            text = f"Determined shows an unknown state of the task: {self.said}"
            raise SchedulerError("internal", text, sent="no")
        return STATES[self.said]


class Remote:
    """See `costguard.tasks.api.Session`."""

    def __init__(self, place: Place, task: Task) -> None:
        self._place, self._task, self._master = place, task, Master(place)
        self._kind = task.details["kind"]
        self._path = f"/api/v1/{FOLDERS[self._kind]}/{task.id}"
        self._met = False  # whether this master is known to be of the task's cluster

    def look(self, within: float) -> TaskFacts:
        """The task, its allocation, and who asks."""
        end = time.monotonic() + within
        seen = self._seen(end)
        if seen is None:
            return TaskFacts("ended", UNKNOWN)
        gpus, elsewhere = self._where(seen.slots)
        rights = tuple(self._rights(seen.owner, end)) if seen.state == "running" else ()
        return TaskFacts(seen.state, seen.said, seen.owner, gpus, (), elsewhere, rights, seen.stamp)

    def end(self, facts: TaskFacts, ticket: Ticket) -> Result:
        """The kill of exactly this task, if it is still the same allocation of it."""
        end = time.monotonic() + ticket.deadline
        known = unsent(self._shown(end), facts.stamp)
        if known is not None:
            return known
        proof = f"POST {self._path}/kill"
        try:
            self._master.ask("POST", f"{self._path}/kill", end - time.monotonic())
        except SchedulerError as error:
            return doubted(error, lambda: self._shown(end), proof)
        return Result("accepted", f"`{proof}` was accepted by Determined", proof)

    def confirm(self, ticket: Ticket, recorded: Result | None) -> Result:
        """The state of the task; one that the master does not know any more has ended a while ago."""
        return confirmed(self._shown(time.monotonic() + ticket.deadline), recorded)

    def tell(self, text: str, within: float) -> str:
        """Determined has no place for messages of others; the watcher's own output is in the log of the task."""
        hint = "what the watcher writes is in the task's log; name a channel for its owner: [notify.channels.NAME]"
        raise SchedulerError("refused", "a task of Determined has no place for messages", hint=hint)

    def _shown(self, end: float) -> TaskLook:
        seen = self._seen(end)
        if seen is None:
            return TaskLook("Determined", self._task, "ended", UNKNOWN)
        return TaskLook("Determined", self._task, seen.state, seen.said, seen.stamp)

    def _seen(self, end: float) -> Seen | None:
        """The task; None where the master knows no such task. Raises SchedulerError, and a question leaves no doubt."""
        self._same_cluster(end)
        answer = self._ask(self._path, end)
        if answer is None:
            return None
        own = answer.get(self._kind)
        if not isinstance(own, dict) or str(own.get("id", "")) != self._task.id:
            raise SchedulerError("internal", f"Determined's answer says nothing about {self._task.words}")
        self._same_task(own)
        said = str(own.get("state", "")).removeprefix("STATE_")
        allocation = self._allocation(end)
        if STATES.get(said) in {"running", "waiting"} and _over(allocation):
            raise self._elsewhere(f"has ended, and {self._task.words} has not")
        stamp = (
            f"{self._task.id} {own.get('startTime', '')} {allocation.get('allocationId', '')} {own.get('restarts', '')}"
        )
        slots = allocation.get("slots")
        owner = str(own.get("username") or self._task.owner)
        return Seen(said or "nothing", owner, stamp, slots if isinstance(slots, int) else None)

    def _same_cluster(self, end: float) -> None:
        """A trial's number is another one's on another cluster. Raises SchedulerError where the address leads to one."""
        own = self._task.details.get("cluster", "")
        if self._met or not own:
            return
        found = (self._ask("/api/v1/master", end) or {}).get("clusterId")
        if found and found != own:
            text = f"the master that answers belongs to cluster {found}, but {self._task.words} to cluster {own}"
            raise SchedulerError("changed", text, hint="see DET_MASTER, and master under [task.determined]")
        self._met = True

    def _same_task(self, own: Mapping[str, Any]) -> None:
        """A trial says which tasks are its own. Raises SchedulerError where this container's is none of them."""
        listed = own.get("taskIds")
        tasks = {str(one) for one in (listed if isinstance(listed, list) else ())} | {str(own.get("taskId") or "")} - {
            ""
        }
        mine = self._task.details["task"]
        if tasks and mine not in tasks:
            text = f"task {mine} does not belong to {self._task.words}: DET_TRIAL_ID and DET_TASK_ID do not match"
            raise SchedulerError("changed", text, hint="start costguard from startup-hook.sh of the task")

    def _elsewhere(self, what: str) -> SchedulerError:
        hint = "start costguard with each allocation, from startup-hook.sh"
        return SchedulerError("changed", f"allocation {self._task.details['allocation']} {what}", hint=hint)

    def _ask(self, path: str, end: float) -> dict[str, Any] | None:
        """A question; None for what the master does not know. Raises SchedulerError, and a question leaves no doubt."""
        try:
            return self._master.ask("GET", path, end - time.monotonic())
        except SchedulerError as error:
            error.sent = "no"
            if error.trouble == "gone":
                return None
            raise

    def _allocation(self, end: float) -> dict[str, Any]:
        """The part of the task that runs here; without an answer of older masters, and of none with it, nothing is known of it."""
        task = (self._ask(f"/api/v1/tasks/{self._task.details['task']}", end) or {}).get("task")
        listed = task.get("allocations") if isinstance(task, dict) else None
        wanted = self._task.details["allocation"]
        found = [one for one in listed or () if isinstance(one, dict) and one.get("allocationId") == wanted]
        if not found and listed:
            raise self._elsewhere(f"no longer belongs to {self._task.words}: it restarted somewhere else")
        return found[0] if found else {}

    def _where(self, slots: int | None) -> tuple[int | None, str]:
        """How many GPUs of this container are the task's, and what of it is elsewhere."""
        here, pods = identity.slots(self._place.environ), identity.parallelism(self._place.environ)
        if pods > 1:
            return here, f"it runs in {pods} pods"
        if here is not None and slots is not None and slots > here:
            return here, f"{slots - here} of its {slots} GPUs are on other agents"
        return (slots if here is None else here), ""

    def _rights(self, owner: str, end: float) -> list[tuple[Verdict, PlanFinding]]:
        """Whether the token is the owner's or an administrator's; roles may allow it to others, which nobody can ask for."""
        try:
            user = (self._ask("/api/v1/me", end) or {}).get("user")
        except SchedulerError as error:
            if error.trouble == "denied":
                return []
            raise
        me = user if isinstance(user, dict) else {}
        if not owner or me.get("admin") is True or me.get("username") == owner:
            return []
        text = f"the task is {owner}'s and the token {me.get('username') or 'of somebody else'}'s: it is unknown whether the token may end it"
        hint = "give that user a role with the right, or name the owner's token: [task.determined] token_file"
        return [("consequences", PlanFinding("permission_unknown", text, hint))]


def _over(allocation: Mapping[str, Any]) -> bool:
    """Whether the part of the task in this container has ended; what runs under its name since then runs somewhere else."""
    return bool(allocation.get("endTime")) or allocation.get("state") == "STATE_TERMINATED"
