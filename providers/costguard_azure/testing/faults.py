"""What goes wrong, as data: the next requests of one operation meet the fault, then all is well again."""

import threading
from typing import Literal, NamedTuple

Kind = Literal[
    "throttle", "deny", "error", "cut_before", "cut_after", "nothing", "fails_but_acts", "slow", "drip", "garbage",
]  # fmt: skip
"""
- ``throttle``: 429, with Retry-After when ``seconds`` is set
- ``deny``: 403 AuthorizationFailed; for a few requests only, this is a right that arrives late
- ``error``: ``status`` and ``code`` as given; nothing happens
- ``cut_before``, ``cut_after``: the connection ends without an answer, before or after the request took effect
- ``nothing``: accepted, and nothing happens
- ``fails_but_acts``: ``status`` and ``code`` as given, but the request took effect
- ``slow``: the answer takes ``seconds``
- ``drip``: the answer comes one byte a second, after the effect
- ``garbage``: 200 with a body that is no JSON
"""

OPERATIONS = (
    *(
        "get",
        "instance_view",
        "deallocate",
        "delete",
        "permissions",
        "locks",
        "scale_set",
        "autoscale",
        "operation",
        "tags",
    ),
    *("instance", "token", "events"),
    "secret",
)
"""Of the Resource Manager; in the last rows of the metadata service, and of a key vault."""


class Fault(NamedTuple):
    """One fault for one request."""

    operation: str
    kind: Kind
    seconds: float = 0.0
    status: int = 500
    code: str = "InternalServerError"
    message: str = "an error for a test"


class Faults:
    """The faults that wait for their requests, first come first served. Safe for threads."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._lock = threading.Lock()

    def add(
        self,
        operation: str,
        kind: Kind,
        *,
        times: int = 1,
        seconds: float = 0.0,
        status: int = 500,
        code: str = "InternalServerError",
        message: str = "an error for a test",
    ) -> None:
        """Let the next ``times`` requests of this operation meet a fault."""
        if operation not in OPERATIONS:
            raise ValueError(f"{operation} is none of {', '.join(OPERATIONS)}")
        with self._lock:
            self._waiting += [Fault(operation, kind, seconds, status, code, message)] * times

    def take(self, operation: str) -> Fault | None:
        """The fault that this request meets."""
        with self._lock:
            found = next((fault for fault in self._waiting if fault.operation == operation), None)
            if found is not None:
                self._waiting.remove(found)
            return found
