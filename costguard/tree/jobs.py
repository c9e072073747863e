"""What the verb, the launcher and the watcher say to each other: one job each way down, and words one way up."""

from typing import Literal, NamedTuple

BEAT_SECONDS = 2.0
"""A watcher that lives writes a line so often, an empty one where there is nothing to say."""


class Judgement(NamedTuple):
    """When the GPUs count as idle. Durations are seconds, the threshold is 0 to 1."""

    threshold: float
    interval: float
    window: float
    delay: float
    aggregate: str  # all | any

    @property
    def readings(self) -> int:
        """How many readings in a row must be below the threshold."""
        return max(1, round(self.window / self.interval))

    @property
    def judged_from(self) -> float:
        """Seconds after the start at which the first window may begin: the reading that ends the delay is its first."""
        return max(self.delay - self.interval, 0.0)


class Finish(NamedTuple):
    """How a tree is ended: a signal, and SIGKILL so many seconds later."""

    signal: int
    grace: float


class LaunchJob(NamedTuple):
    """What `costguard exec` asks of the launcher."""

    command: tuple[str, ...]
    judgement: Judgement
    finish: Finish
    idle_code: int
    require_gpu: bool
    dry_run: bool
    debug: bool
    sysfs: str = "/sys"
    devfs: str = "/dev"


class Origin(NamedTuple):
    """Where a tree comes from."""

    launcher: int
    born: int  # the launcher's start time, in clock ticks since boot: a process id alone may be used again
    session: int  # the launcher's, which has others than the tree
    # descendants of the launcher that were there before the command: number and start
    foreign: tuple[tuple[int, int], ...]


class WatchJob(NamedTuple):
    """What the launcher asks of the watcher; ``mark`` is on every member of the tree (`costguard.tree.members`)."""

    origin: Origin
    mark: int
    group: str  # the folder of the tree's control group; empty: it has none
    judgement: Judgement
    finish: Finish
    debug: bool
    sysfs: str
    devfs: str


class Launched(NamedTuple):
    """The launcher's second and last line: when the command was started, on the boot clock."""

    at: float


class WatcherReport(NamedTuple):
    """What the watcher found: it can judge, it cannot, or the GPUs are idle. ``text`` says why."""

    kind: Literal["guarded", "unguarded", "idle"]
    text: str = ""
