"""What the guard asks a resident reader, one line for each time."""

from typing import NamedTuple


class Question(NamedTuple):
    """Read, and answer with this number.

    The rest is for the host reader: ``every`` so many seconds look again, and answer when another thing is seen, or when the boot
    clock reads ``until``; ``saving``: the owner's pre-stop hook is at work.
    """

    read: int
    every: float = 0.0
    until: float = 0.0
    saving: bool = False
