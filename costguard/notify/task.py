"""The channel `task`: the output or page of the task that is guarded, where its owner looks. Used for every message of an incident in live mode."""

from collections.abc import Mapping

from costguard.masking import mask
from costguard.notify import terminal
from costguard.notify.message import AbsentError, DeliveryError, Message
from costguard.tasks.api import SchedulerError
from costguard.tasks.choose import NoTaskError, TaskAccess, choose

LONGEST = 1000
"""Characters of a message that are handed over."""


def deliver(message: Message, settings: Mapping[str, object]) -> str:
    """Hand it to the task's scheduler; returns where it stands."""
    plug_ins, section = settings.get("task_plug_ins"), settings.get("task_settings")
    given = tuple(map(str, plug_ins)) if isinstance(plug_ins, list | tuple) else ()
    own = section if isinstance(section, Mapping) else {}
    try:
        chosen = choose(TaskAccess(given, own, str(settings.get("procfs") or "/proc")))
        session = chosen.scheduler.open(chosen.place, chosen.task)
        return session.tell(in_one_line(message)[:LONGEST], terminal.seconds(settings))
    except NoTaskError as error:
        raise DeliveryError(str(error)) from error
    except SchedulerError as error:
        if error.trouble == "gone":
            raise AbsentError(mask(error.told)) from error
        raise DeliveryError(mask(error.told)) from error


def in_one_line(message: Message) -> str:
    """Title and body, each line a sentence: schedulers show one line."""
    lines = [line.strip() for line in terminal.clean(message.text).splitlines()]
    return " ".join(line if line[-1] in ".:!?" else f"{line}." for line in lines if line)
