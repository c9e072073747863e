"""The process that draws: ``python -m costguard.report.worker``, one job, one answer. It ends with whoever started it.

It reads a file that may be torn, and runs a large library: whatever goes wrong is an answer in words, and costs nobody else.
"""

import base64
import contextlib
import logging
import os
import resource
import sys
import time
import warnings
from contextlib import suppress

from costguard.errors import CostguardError
from costguard.files import names_in
from costguard.history import FILE, query
from costguard.history.store import QUARTER
from costguard.masking import mask
from costguard.parent import end_with_parent
from costguard.process.worker import serve
from costguard.report import bands, timeline
from costguard.report.job import DrawJob, Drawn, PictureFormat

MEMORY_LIMIT_BYTES = 2 << 30
"""Limit of the address space: the library maps a third of it, and really uses about 80 MB."""

FIRST_TO_GO = "800"
"""oom_score_adj: when memory runs out, drawing is killed before any work, and before the guard, whose own score it would inherit."""

SLOTS = 360
"""Columns of a picture, at most: one a pixel of a phone."""

LOCKED_SECONDS = 30.0
"""Older locks of the list of fonts are left over: writing it never takes as long."""

SHORTEST_SECONDS = 1800.0
"""The shortest span that a picture is cut to where records begin late."""

_POLL_SECONDS = 0.05


def main() -> int:
    """Draw once."""
    end_with_parent()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(FIRST_TO_GO)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, resource.RLIM_INFINITY))
    return serve(DrawJob, draw, lambda error: Drawn(error=error))


def draw(job: DrawJob) -> Drawn:
    """Draw what is asked for."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # no thread for each core, each with its own stack
    if job.cache:
        _free(job.cache)
        os.environ["MPLCONFIGDIR"] = job.cache
    logging.disable()
    os.chdir("/")  # the library reads its settings from the working directory, which may be anybody's
    warnings.simplefilter("ignore")
    try:
        from costguard.report import draw as pencil
    except ModuleNotFoundError as error:
        return Drawn(error=f"{error.name} is not installed", missing=True)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, nobody else may suffer
        return Drawn(error=mask(f"matplotlib cannot be used: {type(error).__name__}: {error}")[:300])
    from costguard.report.palette import LIGHT, VARIABLES

    def picture(what: timeline.Timeline, number: int, form: PictureFormat) -> str:
        if form.kind == "svg":
            return pencil.picture(what, form.width, VARIABLES).svg(f"picture-{number}")
        return base64.b64encode(pencil.picture(what, form.width, LIGHT).png(form.scale)).decode()

    try:
        found = _read(job)
        return Drawn(tuple(picture(found, number, form) for number, form in enumerate(job.forms)))
    except CostguardError as error:
        return Drawn(error=error.message)
    except Exception as error:  # noqa: BLE001 - a torn file may hold anything
        return Drawn(error=mask(f"{type(error).__name__}: {error}")[:300])


def _free(folder: str) -> None:
    """Remove locks that one left who was ended while it wrote the list of fonts: the library would wait for it, each time."""
    for name in names_in(folder):
        path = os.path.join(folder, name)
        with suppress(OSError):
            if name.endswith(".matplotlib-lock") and time.time() - os.stat(path).st_mtime > LOCKED_SECONDS:
                os.unlink(path)


def _read(job: DrawJob) -> timeline.Timeline:
    path = os.path.join(job.folder, FILE)
    end = time.monotonic() + job.patience
    while True:
        try:
            with query.reading(path) as database:
                events = query.events(database, job.since - bands.LOOK_BACK_SECONDS)
                if not job.incident or time.monotonic() >= end or any(e.incident == job.incident for e in events):
                    since = _since(query.first(database, job.since), job)
                    return timeline.read(
                        database, events, since, job.until, SLOTS, job.machine, dict(job.pending) or None
                    )
        except query.HistoryError:
            if job.blank:
                return timeline.Timeline(job.since, job.until, timeline.MINUTE, job.machine)
            if time.monotonic() >= end:
                raise
        time.sleep(_POLL_SECONDS)


def _since(first: float, job: DrawJob) -> float:
    """From the first record on where much lies before it, but for the shortest time that is worth a picture."""
    begin = min(first, job.until - SHORTEST_SECONDS)
    return begin if first and begin - job.since > QUARTER else job.since


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
