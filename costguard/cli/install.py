"""``costguard install`` and ``costguard uninstall``: make this machine's costguard a service, and take that back."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

import click

import costguard
from costguard.cli import installation
from costguard.cli.examples import examples
from costguard.cli.installation import CONFIGURATION, DROP_INS, MANIFEST, UNIT, Manifest
from costguard.config import paths
from costguard.doctor.service import NAME, SHIPPED
from costguard.errors import REFUSED, USAGE, CostguardError
from costguard.files import names_in

STATE = ("/var/lib/costguard", "/run/costguard")
ETC = os.path.dirname(CONFIGURATION)
SHIPPED_IN = os.path.dirname(SHIPPED)
DROPPED_IN = f"{ETC}/{paths.DROP_INS}"
SECONDS = 360.0
"""For systemd to start or stop the service: more than the unit's own limits."""

_CLOSED = (
    "Only root can run this costguard: other users cannot enter {}, so nobody else could ask it or hold the machine. "
    "Install it where all may read, such as `sudo python3 -m venv /opt/costguard`."
)
_NOT_IN_IMAGE = "Warning: {0}, which the service starts, is not in {1}: install costguard there at the same path, or no guard starts."
_WORDS = {"new": "write  ", "changed": "replace", "same": "same   ", "kept": "keep   "}


@click.command(
    short_help="Install costguard as a service of this machine.",
    epilog=examples(
        "sudo costguard install --dry-run",
        "sudo costguard install",
        "sudo costguard install --credential pager:/etc/costguard/pager.url",
        "sudo costguard install --root /mnt/image",
    ),
)
@click.option("--dry-run", is_flag=True, help="Show every file, and write nothing.")
@click.option("--force", is_flag=True, help="Also replace files that were changed since, but never the configuration.")
@click.option("--no-start", is_flag=True, help="Enable the service for the next boot only: for an image.")
@click.option(
    "--root", default="", metavar="FOLDER", help="Write below FOLDER, the root of an image; nothing is started."
)
@click.option(
    "--credential",
    "given",
    multiple=True,
    metavar="NAME:/PATH",
    help="Let systemd hand this file to the service alone: `credential:NAME` in the configuration. May be given again.",
)
def install(*, dry_run: bool, force: bool, no_start: bool, root: str, given: tuple[str, ...]) -> None:
    """Make this installation of costguard a service that starts at every boot, in dry run until the configuration says live.

    It writes a short configuration where there is none, the systemd unit, and completions for bash, zsh and fish. Run it again
    after an upgrade; what is already right stays. For root.
    """
    from costguard.config.sample import short

    root = root.rstrip("/")
    _require_root(dry_run=dry_run, root=root)
    before = Manifest.read(root)
    credentials = [installation.credential(text, root) for text in given]
    words = installation.script(judged=not root)
    planned = installation.pieces(words, short(), credentials)
    fates = {piece.path: installation.fate(piece, root, before, force=force) for piece in planned}
    for piece in planned:
        click.echo(f"{_WORDS[fates[piece.path]]} {root}{piece.path}{f' -> {piece.target}' if piece.target else ''}")
        if dry_run and fates[piece.path] in {"new", "changed"} and not piece.target:
            click.echo("".join(f"    {line}\n" for line in piece.content.splitlines()), nl=False)
    if root and not os.path.lexists(root + words[0]):
        click.echo(_NOT_IN_IMAGE.format(words[0], root))
    if place := "" if root else installation.first_closed((words[0], sys.executable, SHIPPED_IN)):
        click.echo(_CLOSED.format(place))
    if dry_run:
        click.echo(
            f"Nothing was written. Next: `{_again('install', root, {'--force': force, '--no-start': no_start}, given)}`."
        )
        return
    _write(planned, fates, before, root)
    kept = [path for path, what in fates.items() if what == "kept" and path != CONFIGURATION]
    if kept:
        click.echo(
            f"Changed on this machine, and left alone: {', '.join(kept)}; `costguard install --force` replaces them."
        )
    if not root:
        of_unit = [UNIT, *(one.piece.path for one in credentials)]
        _start(changed=is_changed(of_unit, fates, before), no_start=no_start)
    click.echo(
        "Next: `sudo costguard doctor` says whether this machine is guarded; the rules are in " + CONFIGURATION + "."
    )


@click.command(
    short_help="Undo what `install` did.",
    epilog=examples(
        "sudo costguard uninstall --dry-run", "sudo costguard uninstall", "sudo costguard uninstall --purge"
    ),
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--purge", is_flag=True, help="Also remove the configuration, the history and what was changed since.")
@click.option("--root", default="", metavar="FOLDER", help="Look below FOLDER, the root of an image.")
def uninstall(*, dry_run: bool, purge: bool, root: str) -> None:
    """Stop the service and remove every file that `costguard install` wrote, but not what somebody has changed since.

    Configuration and history stay unless --purge is given. costguard itself is removed by whatever installed it. For root.
    """
    root = root.rstrip("/")
    _require_root(dry_run=dry_run, root=root)
    before = Manifest.read(root)
    if not before.pieces:
        _end_partial(root, before, dry_run=dry_run)
        return
    gone = dict(installation.leftovers(root, before, purge=purge))
    folders = [
        path for path in (*STATE, DROPPED_IN) if os.path.isdir(root + path) and (purge or path.startswith("/run/"))
    ]
    for path, goes in gone.items():
        click.echo(f"{'remove ' if goes else 'keep   '} {root}{path}{'' if goes else '  (changed since)'}")
    for path in folders:
        click.echo(f"remove  {root}{path}/")
    if dry_run:
        click.echo(f"Nothing was removed. Next: `{_again('uninstall', root, {'--purge': purge})}`.")
        return
    if not root and _systemd():
        _systemctl("stop", NAME)
    _remove(root, before, gone, folders, purge=purge)
    if not root and _systemd():
        _systemctl("daemon-reload")
        _systemctl("reset-failed", NAME)
    left = _left(root, [path for path, goes in gone.items() if not goes])
    click.echo(
        f"Left: {', '.join(left)}; `sudo rm -r` removes them."
        if left
        else "Nothing of it is left but costguard itself."
    )


def _end_partial(root: str, before: Manifest, *, dry_run: bool) -> None:
    """Take back an installation that was interrupted before its first file. Raises CostguardError where there is none."""
    if dry_run or not installation.remove_partial(root, before):
        hint = (
            "a unit that was copied by hand is removed by hand: `sudo systemctl disable --now costguard`, then its file"
        )
        raise CostguardError("`costguard install` has installed nothing here", hint, REFUSED)
    click.echo("An installation was interrupted before it had written anything; nothing of it is left.")


def _remove(root: str, before: Manifest, gone: Mapping[str, bool], folders: Sequence[str], *, purge: bool) -> None:
    """Remove what goes, and last of all the record of what was installed, so that an interruption can be made good."""
    for path, goes in gone.items():
        if goes:
            installation.remove(root, path)
    installation.remove_partial(root, before)
    for path in folders:
        shutil.rmtree(root + path, ignore_errors=True)
    installation.remove_folders(root, before, purge=False)
    installation.remove(root, MANIFEST)
    installation.remove_folders(root, before, purge=purge)


def _left(root: str, changed: Sequence[str]) -> list[str]:
    """What stays: files that were changed since, and those of the owner, such as addresses and tokens."""
    owned = [f"{ETC}/{name}" for name in names_in(root + ETC) if f"{ETC}/{name}" not in changed]
    return [*changed, *owned, *(path for path in (*STATE, DROP_INS) if os.path.isdir(root + path))]


def _again(verb: str, root: str, switches: Mapping[str, bool], credentials: Sequence[str] = ()) -> str:
    """The same command without --dry-run."""
    words = [name for name, on in switches.items() if on] + [
        word for one in credentials for word in ("--credential", one)
    ]
    return shlex.join(["sudo", "costguard", verb, *(["--root", root] if root else []), *words])


def _require_root(*, dry_run: bool, root: str) -> None:
    if root and not os.path.isdir(root):
        raise CostguardError(
            f"there is no folder {root}", "name the root of an image, which has /etc and /usr in it", USAGE
        )
    if root and not any(os.path.isdir(f"{root}/{name}") for name in ("etc", "usr")):
        raise CostguardError(
            f"{root} is not the root of a system", "name the root of an image, which has /etc and /usr in it", USAGE
        )
    if not dry_run and not root and os.geteuid() != 0:
        raise CostguardError(
            "only root can change the services of this machine",
            "run it with sudo; --dry-run shows what it does",
            REFUSED,
        )
    if not root and shutil.which("systemctl") is None:
        hint = "have the service manager of this machine start `costguard run` (docs/history.md says what doctor knows)"
        raise CostguardError("this machine has no systemd", hint, REFUSED)


def _write(planned: list[installation.Piece], fates: dict[str, installation.Fate], before: Manifest, root: str) -> None:
    """What is to be written is noted first, so that an installation that is interrupted anywhere can be taken back."""
    intended = before.intending(planned, fates, root)
    done = intended._replace(earlier={})
    if done == before and not {"new", "changed"} & set(fates.values()):
        return
    intended.write(root)
    for piece in planned:
        if fates[piece.path] in {"new", "changed"}:
            installation.write(piece, root)
    done.write(root)


def is_changed(of_unit: Sequence[str], fates: Mapping[str, installation.Fate], before: Manifest) -> bool:
    """Whether what runs may be of other files: an upgrade that was interrupted has written some, and restarted nothing."""
    return any(fates[path] in {"new", "changed"} or path in before.earlier for path in of_unit)


def _start(*, changed: bool, no_start: bool) -> None:
    if not _systemd():
        click.echo("No systemd runs here: the service starts at the next boot.")
        return
    _systemctl("daemon-reload")
    if no_start:
        return
    _systemctl("restart" if changed or installation.runs_old_code(NAME, costguard.__file__) else "start", NAME)


def _systemd() -> bool:
    return os.path.isdir("/run/systemd/system")


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode and words[0] not in {"stop", "reset-failed"}:
        said = " ".join(done.stderr.split())
        hint = f"`journalctl -u {NAME} -n 20` shows why"
        raise CostguardError(f"`systemctl {' '.join(words)}` failed: {said}", hint, REFUSED)
