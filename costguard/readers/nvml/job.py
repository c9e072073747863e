"""The job of the resident process that reads the GPUs; both ends are here. No import: every one would cost that process memory for good."""

from collections.abc import Mapping, Sequence


class NvmlJob:
    """Where the machine's files are, and what readers before this one left.

    ``known``: the keys of GPUs that must be in each answer; ``counters`` and ``learnt``: objects by key, or None; the reader checks
    them as if a stranger had written them. ``holders``: each answer also says which processes hold a GPU; ``sensors``: also how warm it is, and what it draws.
    ``background_is_idle``: what only background work of `costguard fill` does to a GPU is left out.
    """

    __slots__ = _fields = ("sysfs", "devfs", "counters", "learnt", "known", "holders", "sensors", "background_is_idle")
    _field_defaults = {  # noqa: RUF012 - as a named tuple has it, without its import
        "counters": None,
        "learnt": None,
        "known": (),
        "holders": False,
        "sensors": False,
        "background_is_idle": False,
    }

    def __init__(
        self,
        *,
        sysfs: str = "/sys",
        devfs: str = "/dev",
        counters: object = None,
        learnt: object = None,
        known: Sequence[str] = (),
        holders: bool = False,
        sensors: bool = False,
        background_is_idle: bool = False,
    ) -> None:
        self.background_is_idle = background_is_idle
        self.holders, self.sensors = holders, sensors
        self.sysfs, self.devfs, self.counters, self.learnt, self.known = sysfs, devfs, counters, learnt, tuple(known)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "NvmlJob":
        """Out of a line's object; what is missing, or makes no sense, is as if nothing had been left."""
        known = given.get("known")
        return cls(
            sysfs=str(given.get("sysfs") or "/sys"),
            devfs=str(given.get("devfs") or "/dev"),
            counters=given.get("counters"),
            learnt=given.get("learnt"),
            known=[str(key) for key in known] if isinstance(known, list) else (),
            holders=given.get("holders") is True,
            sensors=given.get("sensors") is True,
            background_is_idle=given.get("background_is_idle") is True,
        )
