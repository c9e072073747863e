"""How to speak of each action, and of what it happens to: the one place that knows whether that is a machine or a task.

What only a scheduler knows (how its tasks are ended, shown and begun again) its plug-in says: `costguard.tasks.api.Advice`.
"""

from collections.abc import Callable
from typing import NamedTuple

from costguard.engine.policy import CLOUD_ACTIONS, END_TASK, MACHINE_ACTIONS

WATCHES = "watching resumes when work is seen"


class GuardedWording(NamedTuple):
    """How to speak of what is guarded, whatever happens to it: the machine, or one task on it."""

    noun: str
    name: str  # from ``task`` and ``machine``
    stays: str  # that nothing happens to it
    stays_on: str  # the same of its name
    kept: str  # the same, because of what senses see
    but_for: str  # what would have happened without that
    begins_anew: str  # of a guard that has lost its state
    unneeded: str  # what to do where nobody needs it
    guard_again: str  # how
    any_end: str  # *before …*: whatever would end it
    past: str  # *has … it*
    keeps: str  # title in the status: what keeps it
    would: str  # title in the status: what would end it
    still: str  # what a hold means until its end
    billed: bool  # its end may end the bill, so its price belongs into its messages


MACHINE = GuardedWording(
    noun="machine",
    name="{machine}",
    stays="the machine stays up and billed",
    stays_on="{} stays up",
    kept="{} has been kept up",
    but_for="Without that it would have been stopped. It stays up and billed.",
    begins_anew="it stops nothing until it sees work again, or the machine has been unused for long enough",
    unneeded="If nobody needs the machine: {stop}.",
    guard_again="To guard the machine again: `sudo systemctl start costguard`.",
    any_end="any stop",
    past="stopped",
    keeps="Keeps it up",
    would="Would stop it",
    still="so the machine is billed at least until then",
    billed=True,
)
TASK = GuardedWording(
    noun="task",
    name="{task} on {machine}",
    stays="the task goes on",
    stays_on="{} goes on",
    kept="{} has been kept running",
    but_for="Without that it would have been ended. It goes on.",
    begins_anew="it ends nothing until it sees work again",
    unneeded="If nobody needs the task, end it with {end}.",
    guard_again="To guard the task again: start `costguard run` for it as before.",
    any_end="its end",
    past="ended",
    keeps="Keeps it running",
    would="Would end it",
    still="so it goes on, and keeps its GPUs, at least until then",
    billed=False,
)


class ActionWording(NamedTuple):
    """How to speak of an action."""

    guarded: GuardedWording
    word: str  # in the sentence of a tick
    base: str  # *be stopped*
    doing: str  # *is being stopped*
    noun: str  # *stop*
    subject: str = "{}"  # what it happens to, from the name of what is guarded
    none: str = "nothing is stopped"
    no: str = "no stop"
    ends_bill: bool = False  # it is meant to end the bill of the machine
    bill_is_yours: bool = False  # whether a bill ends with it depends on what the owner makes of it
    begins: str = "{} has begun to stop"  # the first that is seen of it
    not_done: str = "the machine began to stop but has not stopped"
    accepted_then: str = ""  # who knows the outcome of a request that was accepted
    begun_then: str = ""  # the same once it has begun
    in_doubt: str = "Check in the cloud's console whether the machine is still billed."
    begun: str = ""  # to who comes too late to hold it
    ended: str = ""  # the same once it is done
    done: str = ""  # where its noun and *done* would be clumsy
    now: str = "`sudo costguard stop`"  # how a person has it done at once
    after: str = WATCHES  # what follows, in live mode
    before: str = ""  # before what a new warning comes, if not before any end of what is guarded
    left: str = ""  # what became of it where the guard ended in its countdown, if not just that it does not come


_STOP = ActionWording(
    MACHINE,
    "stop",
    "be stopped",
    "is being stopped",
    "stop",
    ends_bill=True,
    accepted_then="Not confirmed yet: only a check from another machine shows whether the bill has ended.",
    begun_then="Not confirmed yet: the next start, or `costguard stop --verify`, shows when the bill ended.",
)
_COMMAND = ActionWording(
    MACHINE,
    "the command",
    "be run",
    "is being run",
    "command",
    subject="{}: the configured command",
    none="the command is not run",
    no="no command",
    bill_is_yours=True,
    begins="{}: the command has started",
    not_done="the command started but has not finished",
    in_doubt="See whether the command ran, and what it did.",
    begun="the command has already been started",
    ended="the command was run",
    before="the command",
)
_END_PROCESS = ActionWording(
    MACHINE,
    "the exit of costguard",
    "end with exit code 0",
    "is ending with exit code 0",
    "exit of costguard",
    subject="{}: costguard",
    none="costguard does not exit",
    no="no exit of costguard",
    bill_is_yours=True,
    begins="{}: costguard has begun to exit",
    not_done="costguard began to exit but has not exited",
    in_doubt="See whether costguard still runs.",
    begun="costguard is already exiting",
    ended="costguard has exited",
    done="costguard has ended",
    now="`sudo costguard stop --action stop`",
    after="nothing is watched any more",
    before="that",
    left="costguard was stopped before the countdown ended",
)
_END_TASK = ActionWording(
    TASK,
    "the end of the task",
    "be ended",
    "is being ended",
    "end of the task",
    none="the task is not ended",
    no="no end of the task",
    begins="{} has begun to end",
    not_done="the task began to end but has not ended",
    accepted_then="Not confirmed yet: {show} shows whether it has ended.",
    begun_then="Not confirmed yet: {show} shows when it has ended.",
    in_doubt="See whether it still runs: {show}.",
    begun="the end of the task has already been requested",
    ended="the task has ended",
)
_ANY = ActionWording(MACHINE, "the action", "be acted on", "is being acted on", "action")

WORDINGS = {
    "stop": _STOP,
    "terminate": _STOP._replace(
        word="terminate", base="be terminated (deleted)", doing="is being terminated (deleted)", noun="termination"
    ),
    "hibernate": _STOP._replace(
        word="hibernate", base="be hibernated", doing="is being hibernated", noun="hibernation"
    ),
    "shutdown": _STOP._replace(word="shutdown", base="be shut down", doing="is being shut down", noun="shutdown"),
    "reboot": ActionWording(
        MACHINE,
        "reboot",
        "be rebooted",
        "is being rebooted",
        "reboot",
        none="the machine is not rebooted",
        no="no reboot",
        begins="{} has begun to reboot",
        not_done="the machine began to reboot but has not rebooted",
        in_doubt="See whether it was rebooted: `uptime`.",
        before="the reboot",
        now="`sudo costguard stop --action stop`",
    ),
    "command": _COMMAND,
    "end_process": _END_PROCESS,
    END_TASK: _END_TASK,
}
"""By the action's name in the configuration."""

STARTABLE = (CLOUD_ACTIONS - {"terminate"}) | {"shutdown"}
"""After these the machine can be started again."""


def start_after(action: str, said: Callable[[str], object]) -> str:
    """The command that starts the machine again after this action; empty where there is none, or none is known.

    ``said``: what the cloud's plug-in says under a name: ``start``, and ``resume`` where a hibernated machine needs another one.
    """
    resume = said("resume") if action == "hibernate" else ""
    return str(resume or said("start") or "") if action in STARTABLE else ""


def wording_of(action: str, *, in_task: bool = False) -> ActionWording:
    """How to speak of an action; ``in_task``: where costguard was started for a task. Any other name is *the action*."""
    wording = WORDINGS.get(action, _ANY)
    if in_task and action not in MACHINE_ACTIONS and wording.guarded is MACHINE:
        return wording._replace(guarded=TASK)
    return wording


def may_end_bill(action: str) -> bool:
    """Whether the bill of the machine ends with this action, by itself or by what the owner makes of it."""
    wording = wording_of(action)
    return wording.ends_bill or wording.bill_is_yours
