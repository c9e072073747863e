"""What the verb, the launcher and the watcher of background work say to each other."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from costguard.tree.jobs import Finish, Origin


class Filler(NamedTuple):
    """One kind of background work. ``gpus``: numbers or UUIDs, none for all; ``together``: one process has all of them, else each its own.

    ``log`` and ``directory`` may hold ``{gpu}``. An empty ``log`` leaves the output to costguard's own.
    """

    command: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    together: bool = False
    directory: str = "."
    variables: Mapping[str, str] = {}
    log: str = ""


class Patience(NamedTuple):
    """How long each thing must last, in seconds.

    ``idle_for``: a GPU must be free before work begins; ``rest``: after it had to yield; ``unknown_for``: work stays where the GPU
    cannot be seen; ``retry``: the pause after work that ended soon, doubled each time. ``once``: work that ended with 0 is done.
    """

    idle_for: float
    rest: float
    unknown_for: float
    retry: float
    once: bool


class WatchRules(NamedTuple):
    """How the watcher looks, and at what; ``users_for``: seconds for which a key that was pressed counts, 0 for never."""

    interval: float
    by: Literal["processes", "load"]
    threshold: float
    ignore: tuple[str, ...]
    users_for: float
    ignore_users: tuple[str, ...]
    sysfs: str = "/sys"
    devfs: str = "/dev"


class FillJob(NamedTuple):
    """What `costguard fill` asks of the launcher."""

    fillers: tuple[Filler, ...]
    patience: Patience
    look: WatchRules
    finish: Finish
    dry_run: bool


class FillWatchJob(NamedTuple):
    """What the launcher asks of the watcher."""

    origin: Origin
    look: WatchRules
    finish: Finish


class StartedRun(NamedTuple):
    """The launcher started a command: the mark that its tree bears, and its control group, where it has one."""

    mark: int
    folder: str = ""


State = Literal["free", "taken", "unknown"]


class GpuView(NamedTuple):
    """One GPU as the watcher sees it. *free*: nobody is on it but our own tree, and whoever is ignored. ``why`` says who, or why not known."""

    key: str
    uuid: str
    number: int
    state: State
    why: str = ""


class View(NamedTuple):
    """One look: every GPU that may be used; ``users``: who is at a terminal; ``error``: why there is no GPU at all."""

    gpus: tuple[GpuView, ...] = ()
    users: str = ""
    error: str = ""
