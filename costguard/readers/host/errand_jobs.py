"""The jobs of the short-lived processes that this reader starts, and their answers."""

from typing import NamedTuple


class RuntimeJob(NamedTuple):
    """``folder`` is where a kernel's connection file is, ``pids`` are the processes above it, of user ``uid``."""

    proc: str
    folder: str
    pids: tuple[int, ...]
    uid: int


class RuntimeFound(NamedTuple):
    """The server's ``pid``, 0 if none of the processes is a server. ``secure``: it speaks TLS; ``sock``: it listens on no port."""

    error: str = ""
    pid: int = 0
    port: int = 0
    base: str = "/"
    token: str = ""
    secure: bool = False
    sock: bool = False


class ProbeJob(NamedTuple):
    """``run`` is the command, ``user`` whom it runs as (empty: this process's own), ``within`` its time in seconds."""

    run: tuple[str, ...]
    user: str
    within: float


class ProbeEnd(NamedTuple):
    """How it ended: ``error`` in words about the probe, else its exit code and the number that it wrote, if it did."""

    error: str = ""
    code: int = 0
    number: float | None = None
