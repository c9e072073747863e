"""The history as a page and as a picture, each written as one file."""

import errno
import os
import stat
import time
from typing import NamedTuple

import click

from costguard.errors import REFUSED, USAGE, CostguardError
from costguard.files import write_whole
from costguard.history import query
from costguard.money import Rate

DESK_SCALE = 2.0
"""Dots to a pixel of a picture that is written alone."""


class AgentRules(NamedTuple):
    """What the running agent goes by: the load below which a GPU is quiet (None: nobody knows it now), and how long a stop counts as money."""

    threshold: float | None = None
    saving_limit: float | None = None


def check(path: str) -> None:
    """Whether a report can be written there. Raises CostguardError, before anything is done."""
    folder = os.path.dirname(path) or "."
    try:
        kind = os.lstat(path).st_mode
    except OSError as error:
        kind = 0
        if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EACCES}:
            raise CostguardError(f"{path}: {error.strerror}", "name another file", USAGE) from None
    if not path or stat.S_ISDIR(kind) or path.endswith("/"):
        raise CostguardError(
            f"{path or 'the empty name'} is a folder, not a file", "name a file in it: report.html", USAGE
        )
    if kind and not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
        raise CostguardError(f"{path} is not a regular file", "name a file: report.html", USAGE)
    if not os.path.isdir(folder):
        raise CostguardError(f"there is no folder {folder} to write {path} into", f"mkdir -p {folder}", USAGE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CostguardError(
            f"{folder}: permission denied: no file can be written there", "name a folder of your own", USAGE
        )


def write_page(history: str, path: str, since: float, price: Rate | None, settings: AgentRules) -> None:
    """Read the history and write the page. Raises CostguardError."""
    from costguard.report import facts, page
    from costguard.report.job import DrawJob, PictureFormat
    from costguard.report.picture import install, pictures

    now = time.time()
    try:
        with query.reading(history) as database:
            found = facts.read(database, history, since, now, price, limit=settings.saving_limit)
            found = found._replace(threshold=found.threshold if settings.threshold is None else settings.threshold)
    except (TypeError, ValueError, OverflowError) as error:
        hint = "`costguard history --json` shows what it holds"
        raise CostguardError(f"{history} holds unexpected values: {error}", hint, REFUSED) from error
    drawn_why = ""
    shown: tuple[str, ...] = ()
    if not found.empty:
        folder = os.path.dirname(os.path.abspath(history))
        job = DrawJob(folder, found.since, now, found.machine, pending={"threshold": found.threshold})
        drawn = pictures(job, [PictureFormat("svg", page.WIDE), PictureFormat("svg", page.NARROW)])
        drawn_why, shown = drawn.error, drawn.pictures
        if drawn.missing:
            drawn_why = f"{drawn.error}: `{install()}`"
    _write(path, page.page(found, shown, drawn_why).encode())
    click.echo(f"Wrote {path}: open it in a browser.")
    if drawn_why:
        click.echo(f"The picture is left out: {drawn_why}.", err=True)


def write_picture(history: str, path: str, since: float, threshold: float | None = None) -> None:
    """Read the history and write the picture alone; ``threshold``: of the running agent. Raises CostguardError."""
    from costguard.report.job import DrawJob, PictureFormat
    from costguard.report.page import WIDE
    from costguard.report.picture import ASKED_FOR_WITHIN_SECONDS, Drawer, install

    now = time.time()
    with query.reading(history) as database:
        begin = max(since, query.first(database, since))
        machine = database.execute("SELECT machine FROM events ORDER BY id DESC LIMIT 1").fetchone()
    folder = os.path.dirname(os.path.abspath(history))
    form, name = PictureFormat("png", WIDE, DESK_SCALE), str(machine[0]) if machine else ""
    job = DrawJob(folder, begin, now, name, (form,), {"threshold": threshold})
    with Drawer(job) as drawer:
        drawn = drawer.png(time.monotonic() + ASKED_FOR_WITHIN_SECONDS)
    if not drawn.data:
        hint = install() if drawn.missing else "`costguard history --html FILE` has the same in words"
        raise CostguardError(f"no picture was drawn: {drawn.why}", hint, REFUSED)
    _write(path, drawn.data)
    click.echo(f"Wrote {path}.")


def _write(path: str, data: bytes) -> None:
    """With the mode that the user's umask gives."""
    try:
        write_whole(path, data, 0o666)
    except OSError as error:
        raise CostguardError(
            f"{path} cannot be written: {error.strerror or error}", "name another file", USAGE
        ) from None
