"""What a channel gets, and how it reports that nobody was reached."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """One message. ``level`` is info, warning or critical; ``id`` is the same for every try to deliver it."""

    id: str
    kind: str
    level: str
    title: str
    body: str
    dry_run: bool = False

    @property
    def text(self) -> str:
        """Title and body as plain text."""
        return f"{self.title}\n\n{self.body}" if self.body else self.title


class DeliveryError(Exception):
    """A channel reached nobody: why, and what to do about it. Neither may hold a secret."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)


class AbsentError(DeliveryError):
    """A channel leads to nobody here, and that is no fault: costguard has no terminal, nobody sits at one, or the task has ended."""


class Deliver(Protocol):
    """A channel: a function that delivers one message. The worker interrupts it at its deadline: tidy up in a ``finally``."""

    def __call__(self, message: Message, settings: Mapping[str, object]) -> str:
        """Deliver the message.

        Args:
            message: what to deliver.
            settings: the section ``[notify]``, with ``tty`` (a terminal to use instead of standard error), ``procfs``,
                ``devfs`` and ``seconds`` (how long this channel may take) added.

        Returns:
            Who was reached, as people read it: ``2 terminals (pts/0, pts/1)``.

        Raises:
            DeliveryError: nobody was reached. AbsentError: because nobody is there.
        """
