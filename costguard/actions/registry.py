"""All actions by name."""

from typing import Any, get_args

from costguard.actions.base import Action
from costguard.actions.cloud import CloudAction
from costguard.actions.command import Command
from costguard.actions.end_process import EndProcess
from costguard.actions.provider import Verb
from costguard.actions.reboot import Reboot
from costguard.actions.shutdown import Shutdown

_ALL: tuple[Action[Any], ...] = (  # Any: each action has facts of its own kind, which only it reads
    *(CloudAction(name) for name in get_args(Verb)),
    Shutdown(),
    Reboot(),
    Command(),
    EndProcess(),
)

ACTIONS = {action.name: action for action in _ALL}
