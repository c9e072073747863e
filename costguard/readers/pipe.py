"""A reader's end of the pipe to the guard: it writes whole answers."""

import os


def write(data: bytes, target: int = 1) -> None:
    """All of it. Raises BrokenPipeError when the guard is gone."""
    while data:
        data = data[os.write(target, data) :]
