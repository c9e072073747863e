"""What a look at a task means for its end: the same for every scheduler, in the same words."""

from collections.abc import Callable
from typing import NamedTuple

from costguard.cloud.send import unchanged
from costguard.plans import Result
from costguard.tasks.api import SchedulerError, State, Task


class TaskLook(NamedTuple):
    """The task as its scheduler shows it. ``said``: its own word for the state; ``stamp``: see `costguard.tasks.api.TaskFacts`."""

    scheduler: str
    task: Task
    state: State
    said: str
    stamp: str = ""

    @property
    def ends(self) -> bool:
        """Whether it has ended, or is on its way."""
        return self.state in {"ended", "ending"}


def unsent(seen: TaskLook, stamp: str) -> Result | None:
    """What is answered without a request; None: it may be sent. ``stamp``: of the task that was checked."""
    words = seen.task.words
    if seen.state == "ended":
        return Result("done", f"{words} had ended by itself: nothing was sent")
    if seen.stamp != stamp:
        return Result("refused", f"{words} is not the one that was checked, or has restarted: nothing was sent")
    if seen.state == "ending":
        return Result("accepted", f"{words} is being ended already: nothing was sent")
    if seen.state != "running":
        return Result("refused", f"{words} is no longer running ({seen.scheduler} says {seen.said}): nothing was sent")
    return None


def doubted(error: SchedulerError, look: Callable[[], TaskLook], proof: str) -> Result:
    """A failed request that may have been accepted, or found no task: a look decides. Raises the error where it shows no end."""
    if error.sent == "no" and error.trouble != "gone":
        raise error
    try:
        seen = look()
    except SchedulerError:
        raise error from None  # a look that fails removes no doubt
    if not seen.ends:
        raise error
    if error.trouble == "gone":
        return Result("done", f"{seen.task.words} had ended by itself")
    return Result("accepted", f"{error.told}, but {seen.scheduler} shows that it ends", proof)


def confirmed(seen: TaskLook, recorded: Result | None) -> Result:
    """What became of an attempt: `costguard.tasks.api.Session.confirm`."""
    proof = recorded.proof if recorded else ""
    if seen.state == "ended":
        return Result("done", f"closed: {seen.task.words} has ended ({seen.scheduler} says {seen.said})", proof)
    if seen.state == "ending":
        return Result("pending", f"seen ending: {seen.scheduler} says {seen.said}", proof)
    return unchanged(recorded, f"{seen.task.words} still runs ({seen.scheduler} says {seen.said})")
