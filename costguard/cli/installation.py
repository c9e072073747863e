"""What `costguard install` puts on a machine, and what it remembers of it, so that `costguard uninstall` takes back exactly that."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from costguard.config.here import SEARCHED
from costguard.config.values import REFERENCE
from costguard.doctor.running import running
from costguard.doctor.service import NAME, SHIPPED
from costguard.errors import REFUSED, USAGE, CostguardError
from costguard.files import names_in, text_of
from costguard.trust import weakness

CONFIGURATION = "/etc/costguard/config.toml"
MANIFEST = "/etc/costguard/.installed.json"
UNIT = f"/etc/systemd/system/{NAME}"
DROP_INS = f"{UNIT}.d"
"""Drop-ins of the unit: the owner's own, and one for each credential."""

COMMAND = "/usr/local/bin/costguard"
OWNERS = (CONFIGURATION, COMMAND)
"""What an owner may have put there before, the very same: it stays when the rest is taken back."""

ENABLED = f"/etc/systemd/system/multi-user.target.wants/{NAME}"
COMPLETIONS: Mapping[str, str] = {
    "bash": "/usr/local/share/bash-completion/completions/costguard",
    "zsh": "/usr/local/share/zsh/site-functions/_costguard",
    "fish": "/etc/fish/completions/costguard.fish",
}
"""Where each shell looks by itself, outside of what the distribution's packages own."""

PARTIAL = ".costguard-partial"
"""Ends the name of a file that is being written: one that an interruption leaves can be told."""

ASKED_SECONDS = 30.0
"""Limit for systemd to name the process of a service."""

Fate = Literal["new", "changed", "same", "kept"]
"""``kept``: somebody else wrote or changed it, so it stays as it is."""


class Piece(NamedTuple):
    """A file, or a link where ``target`` is set."""

    path: str
    content: str = ""
    target: str = ""

    @property
    def digest(self) -> str:
        """What the manifest remembers of it."""
        return hashlib.sha256((self.target or self.content).encode()).hexdigest()


class Credential(NamedTuple):
    """A secret that systemd hands to the service alone, as ``credential:NAME`` of the configuration."""

    name: str
    path: str

    @property
    def piece(self) -> Piece:
        """Its drop-in."""
        line = f"LoadCredential={self.name}:{self.path.replace('%', '%%')}"
        text = f"# credential:{self.name} of the configuration. Written by `costguard install --credential`.\n[Service]\n{line}\n"
        return Piece(f"{DROP_INS}/credential-{self.name}.conf", text)


class Manifest(NamedTuple):
    """What is written, noted before it is: digests by path; and the folders that did not exist before, outermost first.

    ``earlier``: what else may lie there of ours while an installation is under way, or after it was interrupted.
    """

    pieces: dict[str, str]
    folders: list[str]
    earlier: dict[str, list[str]]

    @classmethod
    def read(cls, root: str) -> "Manifest":
        """Of an earlier installation; empty where there was none. Raises CostguardError."""
        text = text_of(root + MANIFEST, 1 << 18)
        try:
            found = json.loads(text) if text else {"pieces": {}, "folders": []}
            return cls(dict(found["pieces"]), list(found["folders"]), dict(found.get("earlier", {})))
        except (ValueError, KeyError, TypeError):
            hint = f"remove {MANIFEST} and run `costguard install --force`"
            raise CostguardError(f"{MANIFEST} is damaged", hint, REFUSED) from None

    def write(self, root: str) -> None:
        """Keep it beside the configuration."""
        _make(_missing(MANIFEST, root), root)
        _replace(root + MANIFEST, json.dumps(self._asdict(), indent=1) + "\n")

    def wrote(self, path: str, digest: str) -> bool:
        """Whether what lies there was written by an installation."""
        return digest != "" and digest in (self.pieces.get(path), *self.earlier.get(path, ()))

    def intending(self, planned: Sequence[Piece], fates: Mapping[str, Fate], root: str) -> "Manifest":
        """What is noted before these are written. A file that is the same is ours too, unless an owner may have made it."""
        ours = [
            p
            for p in planned
            if fates[p.path] in {"new", "changed"} or (fates[p.path] == "same" and p.path not in OWNERS)
        ]
        earlier = {p.path: [*self.earlier.get(p.path, ()), self.pieces[p.path]] for p in ours if p.path in self.pieces}
        folders = [folder for piece in ours for folder in _missing(piece.path, root)]
        return Manifest(
            {**self.pieces, **{piece.path: piece.digest for piece in ours}},
            list(dict.fromkeys([*self.folders, *_of_record(root), *folders])),
            {path: list(dict.fromkeys(known)) for path, known in earlier.items()},
        )


def script(*, judged: bool = True) -> list[str]:
    """The command that starts this very installation, whatever the working directory and PATH.

    ``judged``: raises CostguardError where others could change what root would run.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "costguard")
    words = [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "costguard"]
    for path in (
        (words[0], os.path.realpath(sys.executable), os.path.dirname(os.path.realpath(SHIPPED))) if judged else ()
    ):
        if found := weakness(path, 0):
            hint = (
                "install it where only root can write, such as `sudo python3 -m venv /opt/costguard`; " + found.remedy
            )
            raise CostguardError(f"root would run what others can change: {found.reason}", hint, REFUSED)
    return words


def first_closed(paths: Iterable[str]) -> str:
    """The first folder or file on the way to these that users other than its owner and group cannot enter or run; empty for none."""
    for path in map(os.path.realpath, paths):
        place = "/"
        for name in path.split("/"):
            place = os.path.join(place, name)
            with suppress(OSError):
                if not os.stat(place).st_mode & stat.S_IXOTH:
                    return place
    return ""


def credential(text: str, root: str) -> Credential:
    """``NAME:/PATH``; raises CostguardError where systemd would not take it, or others could read or change it."""
    name, _, path = text.partition(":")
    wrong = ""
    if not REFERENCE.fullmatch(f"credential:{name}") or not path.startswith("/") or not path.isprintable():
        wrong = "it is not NAME:/PATH, such as pager:/etc/costguard/pager.url"
    elif not os.path.isfile(root + path):
        wrong = f"there is no file {path}, and without it the service would not start"
    elif found := weakness(root + path, 0) if not root else None:
        wrong = f"others could change it: {found.reason}; to fix it: {found.remedy}"
    elif os.stat(root + path).st_mode & 0o077:
        wrong = f"others can read or change {path}; to fix it: sudo chmod 600 {path}"
    if wrong:
        raise CostguardError(f"--credential {text!r}: {wrong}", "it names a file of root's with mode 600", USAGE)
    return Credential(name, path)


def pieces(words: list[str], configuration: str, credentials: Sequence[Credential] = ()) -> list[Piece]:
    """Everything, in the order in which it is written. ``words``: what starts costguard."""
    start = " ".join(_quoted(word) for word in [*words, "run"])
    unit = text_of(SHIPPED, 1 << 18).replace("ExecStart=/usr/bin/env costguard run", f"ExecStart={start}")
    found = [Piece(CONFIGURATION, configuration), Piece(UNIT, unit), Piece(ENABLED, target=UNIT)]
    found += [one.piece for one in credentials]
    found += [Piece(path, completion(shell)) for shell, path in COMPLETIONS.items()]
    known = shutil.which("costguard", path=SEARCHED)
    if len(words) == 1 and (known is None or known == COMMAND) and words[0] != COMMAND:
        found.append(Piece(COMMAND, target=words[0]))
    return found


def completion(shell: str) -> str:
    """The script that completes verbs and options in a shell. It asks costguard itself, so it is never out of date."""
    from click.shell_completion import get_completion_class

    from costguard.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    made = kind(main, {}, "costguard", "_COSTGUARD_COMPLETE")
    script = made.source_template % made.source_vars()
    # click's own cuts each description at its first comma
    return script.replace('(string split "," ', '(string split --max 1 "," ')


def fate(piece: Piece, root: str, before: Manifest, *, force: bool) -> Fate:
    """What becomes of it."""
    path = root + piece.path
    if not os.path.lexists(path):
        return "new"
    now = _digest(path)
    if now == piece.digest:
        return "same"
    if piece.path == CONFIGURATION:  # it is the owner's from the first moment
        return "kept"
    return "changed" if force or before.wrote(piece.path, now) else "kept"


def write(piece: Piece, root: str) -> None:
    """Write it whole, with the folders that it needs."""
    _make(_missing(piece.path, root), root)
    _replace(root + piece.path, piece.content, piece.target)


def _missing(path: str, root: str) -> list[str]:
    """The folders that a file lacks, outermost first."""
    missing: list[str] = []
    while (path := os.path.dirname(path)) not in {"", "/"} and not os.path.isdir(root + path):
        missing.insert(0, path)
    return missing


def _of_record(root: str) -> list[str]:
    """The folders that the record lacks, or that an interruption left empty."""
    beside = set(names_in(root + os.path.dirname(MANIFEST))) - {os.path.basename(MANIFEST) + PARTIAL}
    return (
        _missing(MANIFEST, root) if beside else [*_missing(os.path.dirname(MANIFEST), root), os.path.dirname(MANIFEST)]
    )


def _make(folders: Iterable[str], root: str) -> None:
    for folder in folders:
        os.mkdir(root + folder)
        os.chmod(root + folder, 0o755)  # noqa: S103 - whatever the umask: everybody may look into folders of the system


def leftovers(root: str, before: Manifest, *, purge: bool) -> Iterator[tuple[str, bool]]:
    """Each path of an installation, and whether it is removed: files that somebody has changed since stay."""
    for path in dict.fromkeys((CONFIGURATION, *before.pieces)):
        if os.path.lexists(root + path):
            yield path, purge or before.wrote(path, _digest(root + path))


def remove(root: str, path: str) -> None:
    """A file or a link."""
    with suppress(FileNotFoundError):
        os.unlink(root + path)


def remove_partial(root: str, before: Manifest) -> bool:
    """What a write that was interrupted has left, which has never been anybody's; whether there was anything."""
    found = [path for path in (MANIFEST, *before.pieces) if os.path.lexists(root + path + PARTIAL)]
    for path in found:
        remove(root, path + PARTIAL)
    empty = os.path.dirname(MANIFEST)
    alone = not before.pieces and os.path.isdir(root + empty) and not os.listdir(root + empty)
    if alone:
        os.rmdir(root + empty)
    return alone or bool(found)


def remove_folders(root: str, before: Manifest, *, purge: bool) -> None:
    """Those that were made for it and are empty now; that of a configuration that is purged, whoever made it."""
    for folder in (*reversed(before.folders), *([os.path.dirname(CONFIGURATION)] if purge else [])):
        with suppress(OSError):
            os.rmdir(root + folder)


def _digest(path: str) -> str:
    try:
        if os.path.islink(path):
            return Piece("", target=os.readlink(path)).digest
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return hashlib.sha256(file.read().encode("utf-8", "surrogateescape")).hexdigest()
    except OSError:
        return ""


def _replace(path: str, content: str, target: str = "") -> None:
    """Atomically, for everybody to read."""
    partial = path + PARTIAL
    with suppress(FileNotFoundError):
        os.unlink(partial)  # of an installation that was interrupted
    if target:
        os.symlink(target, partial)
    else:
        with open(partial, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(content)
    os.replace(partial, path)


def _quoted(word: str) -> str:
    """A word of ExecStart=; systemd.service(5)."""
    plain = word.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return (
        plain if plain.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum() else f'"{plain}"'
    )


def runs_old_code(unit: str, code: str) -> bool:
    """Whether a service was started before this file of its code was installed, so that it still runs the old code."""
    asked = ["systemctl", "show", "--property=MainPID", "--value", unit]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=ASKED_SECONDS, check=False).stdout.strip()
    return said.isdigit() and running(int(said), "/proc").since(code)
