"""What the readers saw in one tick: values with evidence, or unknown with a reason."""

from typing import NamedTuple


class Known(NamedTuple):
    """A GPU that could be read.

    ``load`` is 0 to 1, the highest of all engines over the interval. ``signs`` names every sign of
    work other than load, in words. ``covers`` is how many seconds back the evidence reaches without
    a hole (sample ring, energy counter); 0 for a momentary value.
    """

    load: float
    signs: tuple[str, ...] = ()
    covers: float = 0.0
    evidence: str = ""


class Unknown(NamedTuple):
    """A GPU that could not be read, and why. Never idle, never a number."""

    reason: str


Reading = Known | Unknown


class Device(NamedTuple):
    """What is fixed about a GPU; ``key`` is its PCI address, or its UUID where there is none."""

    key: str
    number: int | None = None  # the index that NVML gives it
    uuid: str = ""
    name: str = ""


class Veto(NamedTuple):
    """A reader says that somebody or something needs the machine (a login, a transfer).

    ``hatch``: it is an escape hatch of the owner (a tag of the machine, a kernel parameter), which blocks every
    action like the administrator's hold, deadlines too; or the machine belongs to a cluster. ``sense``: a sense saw it;
    ``lets_go`` is what would end it, in words. ``unknown``: a sense cannot see whether somebody does.
    """

    source: str
    reason: str
    hatch: bool = False
    sense: bool = False
    lets_go: str = ""
    unknown: bool = False


class Observation(NamedTuple):
    """Everything one tick knows. ``readings`` stand in the order of ``gpus``.

    ``gpus`` holds every *expected* GPU, readable or not. ``quiet_host`` is three-valued: True when
    GPU holders, host and terminals were all seen quiet, False when one was not, None when unknown.
    """

    gpus: tuple[str, ...]
    readings: tuple[Reading, ...]
    vetoes: tuple[Veto, ...] = ()
    quiet_host: bool | None = None
