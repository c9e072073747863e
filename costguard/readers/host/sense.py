"""What a sense is: one kind of activity that keeps a machine up though its GPUs are idle.

A sense reads times, counts, and names of users and programs. What somebody typed, and the content of a request, a file or
a notebook, is never read.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from costguard.readers.host.processes import Processes  # which takes its paths from here


class SensePaths(NamedTuple):
    """Where the system's files are; other roots only in tests and recordings."""

    proc: str = "/proc"
    dev: str = "/dev"
    sys: str = "/sys"
    etc: str = "/etc"
    run: str = "/run"


class Moment(NamedTuple):
    """Now.

    ``boot``: seconds of the clock that counts suspended time, for every duration. ``wall``: the date, only to compare with the
    times of files; it may jump. ``saving``: the owner's pre-stop hook is at work, or was a moment ago, so it may be what moves.
    """

    boot: float
    wall: float
    saving: bool = False


class Activity(NamedTuple):
    """Somebody or something that works. Every text stays the same while it lasts: no times and no changing numbers in it.

    ``who``: "ann on pts/3". ``what``: the evidence, "typed". ``since``: since when without a pause, ``last``: when it was last
    seen, both on the boot clock and not after now. ``lets_go``: what would end it, "30 min without input".
    """

    who: str
    what: str
    since: float
    last: float
    lets_go: str
    user: str = ""


class Sight(NamedTuple):
    """What one look saw.

    ``unknown``: why all or some of it cannot be seen, possibly beside activities; people are not told of `NOT_YET`. ``seen``: for
    people, when nothing is active: "2 terminals, none used".
    """

    active: tuple[Activity, ...] = ()
    unknown: str = ""
    seen: str = ""


class Sense(Protocol):
    """One sense, with a memory of its own between looks; a restart of the reader begins it anew.

    Optional: one that waits for answers has ``filenos()`` and ``go_on(now)``, called when there is something to read; one that
    wants to see something between two looks has ``wakes``, a moment of the boot clock, and ``between(now)``. One that would
    see the same again has ``rests_until``, a moment of the boot clock: before that it waits for nothing, and looks again only
    when a process is new, changed or gone.
    """

    def __init__(self, settings: Mapping[str, Any], place: SensePaths) -> None:
        """``settings``: every setting of its row in `costguard.readers.host.senses`, checked."""

    def look(self, now: Moment, processes: "Processes") -> Sight:
        """Say what goes on now. Never raises for what the world does, and never waits for it."""


NEVER = float("inf")
"""A moment that does not come."""

NOT_YET = "not yet seen"
"""What a sense that compares two looks says after the first one."""

WORDS = 300
"""Characters of each text that the guard is told."""

_AND_MORE = 24  # characters: "; and 12345 more"


def all_unknown(troubles: set[str]) -> str:
    """What is unknown, in words, of a long list its first ones; *not yet seen* is left out if there is more to say."""
    all_of_them = sorted(troubles - {NOT_YET} or troubles)
    words = "; ".join(all_of_them)
    if len(words) <= WORDS:
        return words
    ends = accumulate(len(f"{one}; ") for one in all_of_them)
    told = max(1, sum(end <= WORDS - _AND_MORE for end in ends))
    first, others = "; ".join(all_of_them[:told]), len(all_of_them) - told
    return f"{first[: WORDS - _AND_MORE]}; and {others} more" if others else first[:WORDS]
