"""Questions to Slurm about one job, through its own programs: each with a deadline, since a controller that is down lets them wait for 9 s."""

import os
import time

from costguard.cloud.api import Ticket
from costguard.plans import PlanFinding, Result, Verdict
from costguard.tasks.api import Place, SchedulerError, State, Task, TaskFacts
from costguard.tasks.commands import run
from costguard.tasks.outcome import TaskLook, confirmed, doubted, unsent
from costguard_slurm import identity
from costguard_slurm.errors import explain
from costguard_slurm.record import Record, find

CALL_SECONDS = 5.0
"""For one call of a program. A controller that answers at all does so in less than one."""

ROOT = 0

UNKNOWN = "that it knows no such job"


class Job:
    """See `costguard.tasks.api.Session`."""

    def __init__(self, place: Place, task: Task) -> None:
        self._folder = str(place.settings.get("programs") or "")
        self._environ, self._task = place.environ, task
        self._node = task.details.get("node") or identity.node(place.environ)

    def look(self, within: float) -> TaskFacts:
        """One question to the controller."""
        record = self._record(within)
        if record is None:
            return TaskFacts("ended", UNKNOWN)
        return TaskFacts(
            _state(record),
            record.said,
            record.owner,
            record.gpus,
            record.numbers,
            record.elsewhere,
            tuple(_rights(record)),
            record.stamp,
        )

    def end(self, facts: TaskFacts, ticket: Ticket) -> Result:
        """`scancel` of exactly this job, if it is still the same one."""
        end = time.monotonic() + ticket.deadline
        record = self._record(ticket.deadline)
        known = unsent(self._shown(record), facts.stamp)
        if known is not None or record is None:
            return known or Result("done", UNKNOWN)
        _state(record)  # a word that nobody knows is no permission
        within = min(CALL_SECONDS, end - time.monotonic())
        proof = f"scancel {record.name}"
        said = run(["scancel", record.name], within, folder=self._folder, environ=self._environ)
        if said.late or said.code != 0:
            error = explain("scancel", said, within)
            if error.trouble == "gone":
                return Result("done", f"{self._task.words} had ended by itself")
            return doubted(error, lambda: self._shown(self._record(end - time.monotonic())), proof)
        return Result("accepted", f"`{proof}` was accepted by Slurm", proof)

    def confirm(self, ticket: Ticket, recorded: Result | None) -> Result:
        """The state of the job; one that Slurm does not know any more has ended a while ago."""
        return confirmed(self._shown(self._record(ticket.deadline)), recorded)

    def tell(self, text: str, within: float) -> str:
        """`scontrol notify`: to the output of a batch job, to the terminal of `srun` or `salloc`."""
        record = self._record(within)
        if record is None or record.state == "ended":
            raise SchedulerError("gone", f"{self._task.words} has ended")
        self._ask(["notify", record.name, " ".join(text.split())], within)
        return f"the output of {self._task.words}" + (f" of {record.owner}" if record.owner else "")

    def _record(self, within: float) -> Record | None:
        """The job as the controller knows it; None where it knows no such job. Raises SchedulerError."""
        job = self._task.details["job"]
        try:
            text = self._ask(["-o", "-d", "show", "job", job], within)
        except SchedulerError as error:
            if error.trouble == "gone":
                return None
            raise
        record = find(text, job, self._is_here)
        if record is None:
            raise SchedulerError("internal", f"`scontrol show job {job}` says nothing about that job", sent="no")
        named = self._task.id
        if named not in {job, record.name} and "_" in record.name:
            raise SchedulerError(
                "changed", f"the environment names job {named}, but Slurm calls job {job} {record.name}"
            )
        return record

    def _ask(self, words: list[str], within: float) -> str:
        """One question or message. Raises SchedulerError; a mere question leaves no doubt."""
        limit = max(0.1, min(CALL_SECONDS, within))
        said = run(["scontrol", *words], limit, folder=self._folder, environ=self._environ)
        if said.late or said.code != 0:
            error = explain(
                f"scontrol {' '.join(words[:4])}" if words[0] != "notify" else "scontrol notify", said, limit
            )
            error.sent = "no"
            raise error
        return said.output

    def _shown(self, record: Record | None) -> TaskLook:
        if record is None:
            return TaskLook("Slurm", self._task, "ended", UNKNOWN)
        return TaskLook("Slurm", self._task, record.state or "running", record.said, record.stamp)

    def _is_here(self, nodes: str) -> bool:
        if nodes == self._node:
            return True
        if not any(sign in nodes for sign in "[,"):
            return False
        said = run(["scontrol", "show", "hostnames", nodes], CALL_SECONDS, folder=self._folder, environ=self._environ)
        return self._node in said.output.split()


def _state(record: Record) -> State:
    """Raises SchedulerError for a word that nobody knows: it may mean anything."""
    if record.state is None:
        raise SchedulerError("internal", f"Slurm shows an unknown state of the job: {record.said}")
    return record.state


def _rights(record: Record) -> list[tuple[Verdict, PlanFinding]]:
    """Slurm lets root and the owner cancel a job; who else may is for no program to see."""
    me = os.geteuid()
    if me in {ROOT, record.uid}:
        return []
    text = f"job {record.name} is {record.owner or 'somebody else'}'s, and this agent runs as uid {me}, which may not cancel it"
    return [("refuse", PlanFinding("not_permitted", text, "run costguard as the owner of the job, or as root"))]
