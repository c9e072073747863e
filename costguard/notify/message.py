"""What channels get, and how they say that nobody was told."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """One message. ``level`` is info, warning or critical; ``id`` is the same for every attempt to send it."""

    id: str
    kind: str
    level: str
    title: str
    body: str
    dry_run: bool = False

    @property
    def text(self) -> str:
        """Title and body as one plain text."""
        return f"{self.title}\n\n{self.body}" if self.body else self.title


class DeliveryError(Exception):
    """A message reached nobody. ``words`` say why, ``hint`` what to do about it; neither has a secret in it."""

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(f"{words} ({hint})" if hint else words)
        self.words = words
        self.hint = hint


class Deliver(Protocol):
    """A channel is a function. It returns who was reached, in words, and raises DeliveryError when nobody was.

    The worker interrupts it at its deadline; whatever it must tidy up belongs into a ``finally``.
    ``settings`` is the ``[notify]`` section, with ``tty`` (a terminal to use instead of standard error), ``procfs``,
    ``devfs`` and ``seconds`` (how long this channel may take) added.
    """

    def __call__(self, message: Message, settings: Mapping[str, object]) -> str:
        """Hand the message over."""
