"""A process that can open no further file."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def starved() -> Iterator[None]:
    """As this one meanwhile."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
