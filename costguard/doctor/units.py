"""What systemd's files say about a unit: masked, started at boot, with which command and environment.

After a boot only the files count, so no manager is asked. Sources: systemd.unit(5), systemd.service(5),
systemd.exec(5), systemd.syntax(7).
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from costguard.engine.words import several
from costguard.files import names_in, text_of

ROOT = "default.target"
"""The target that a manager starts at boot."""

MOST_UNITS = 5000
"""Limit of the search through what units want."""

LASTING = (
    "/etc/systemd/{0}.control", "/etc/systemd/{0}", "/usr/local/lib/systemd/{0}", "/usr/lib/systemd/{0}",
    "/lib/systemd/{0}",
)  # fmt: skip
"""Folders of units that survive a boot, in order of precedence; the field is ``system`` or ``user``."""

FLEETING = ("/run/systemd/{0}.control", "/run/systemd/transient", "/run/systemd/{0}")
"""Folders of units that end with this boot."""

_PULLS = ("Wants", "Requires", "BindsTo", "Upholds")
_OF_UNIT = re.compile(r"Condition|Assert|(?:Wants|Requires|BindsTo|Upholds)$")
"""Directives of [Unit]; all others that are read here belong to [Service]."""

PREFIXES = "@-:+!|"
"""Of a command line; systemd.service(5)."""

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class UnclearError(Exception):
    """What a unit does is not clear from its files; the message says why."""


class UnseenError(UnclearError):
    """It would be clear to root: this user may not read one of its files."""


class Units:
    """The unit files of one manager, in its folders, in order of precedence."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]

    def path(self, name: str) -> str:
        """The effective file of a unit; empty when there is none."""
        for wanted in filter(None, (name, _template(name))):
            for folder in self._folders:
                if os.path.lexists(found := f"{folder}/{wanted}"):
                    return found
        return ""

    def masked(self, name: str) -> bool:
        """Whether nothing can start it: its file is empty, or /dev/null."""
        path = self.path(name)
        if not path:
            return False
        try:
            return os.path.realpath(path) == os.devnull or os.stat(path).st_size == 0
        except OSError:
            return False

    def boots_into(self) -> str:
        """The target that a boot reaches, by its own name."""
        path = self.path(ROOT)
        return os.path.basename(os.path.realpath(path)) if path else "multi-user.target"

    def starts_at_boot(self, name: str, root: str = "") -> bool:
        """Whether the default target, or another ``root``, wants it, directly or through what it wants."""
        ours = self._names(name)
        seen: set[str] = set()
        waiting = [root or (ROOT if self.path(ROOT) else "multi-user.target")]
        while waiting and len(seen) < MOST_UNITS:
            unit = waiting.pop()
            if unit in seen or self.masked(unit):
                continue
            seen.add(unit)
            if ours & self._names(unit):
                return True
            waiting += self._pulls(unit)
        return False

    def settings(self, name: str) -> Mapping[str, list[str]]:
        """Its directives with those of drop-ins: the values of each in order; an empty one clears earlier ones.

        A directive in the wrong section does not count.
        """
        found: dict[str, list[str]] = {}
        for path in (self.path(name), *self._drop_ins(name)):
            for section, key, value in _directives(text_of(path, 1 << 18)):
                if section != ("Unit" if _OF_UNIT.match(key) else "Service"):
                    continue
                if value:
                    found.setdefault(key, []).append(value)
                else:
                    found[key] = []
        return found

    def files(self, name: str) -> list[str]:
        """Its file, its drop-ins, and the folders of those."""
        drop_ins = self._drop_ins(name)
        return [self.path(name), *drop_ins, *dict.fromkeys(os.path.dirname(path) for path in drop_ins)]

    def _names(self, name: str) -> set[str]:
        """The unit's own name, and the name of the file that it links to."""
        path = self.path(name)
        target = os.path.basename(os.path.realpath(path)) if path else ""
        return {name, target} if "." in target and "@." not in target else {name}

    def _pulls(self, unit: str) -> list[str]:
        linked: dict[str, str] = {}
        for name in self._names(unit):
            for kind in ("wants", "requires", "upholds"):
                for folder in self._folders:
                    for entry in names_in(path := f"{folder}/{name}.{kind}"):
                        linked.setdefault(entry, f"{path}/{entry}")
        settings = self.settings(unit)
        written = [wanted for key in _PULLS for value in settings.get(key, ()) for wanted in value.split()]
        return [entry for entry, path in linked.items() if _counts(path)] + written

    def _drop_ins(self, name: str) -> list[str]:
        kind = name.rpartition(".")[2]
        found: dict[str, str] = {}
        names = sorted(self._names(name), key=lambda known: known != name)
        for wanted in filter(None, (*names, _template(name), *_prefixes(name), kind)):
            for folder in self._folders:
                for entry in names_in(path := f"{folder}/{wanted}.d"):
                    if entry.endswith(".conf"):
                        found.setdefault(entry, f"{path}/{entry}")
        return [found[entry] for entry in sorted(found)]


def environment(settings: Mapping[str, list[str]]) -> dict[str, str]:
    """The environment of the unit's program; raises UnclearError for an EnvironmentFile that cannot be read."""
    found: dict[str, str] = {}
    for line in settings.get("Environment", ()):
        found.update(word.partition("=")[::2] for word in split_words(line) if "=" in word)
    for line, path in zip(settings.get("EnvironmentFile", ()), environment_files(settings), strict=True):
        if any(sign in path for sign in "*?["):
            raise UnclearError(f"its EnvironmentFile {path} is a pattern")
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read(1 << 20).splitlines()
        except FileNotFoundError as error:
            if line.startswith("-"):
                continue
            raise UnclearError(f"its EnvironmentFile {path} does not exist, so it does not start") from error
        except PermissionError as error:
            raise UnseenError(f"its EnvironmentFile {path} cannot be read by this user") from error
        except (OSError, UnicodeDecodeError) as error:
            raise UnclearError(f"its EnvironmentFile {path} cannot be read") from error
        for text in map(str.strip, lines):
            if text and text[0] not in "#;" and "=" in text:
                name, _, value = text.partition("=")
                found[name.strip()] = " ".join(split_words(value))
    return found


def environment_files(settings: Mapping[str, list[str]]) -> list[str]:
    """The paths of its EnvironmentFile= directives."""
    return [line.removeprefix("-").strip().strip('"') for line in settings.get("EnvironmentFile", ())]


def command(settings: Mapping[str, list[str]], variables: Mapping[str, str]) -> list[str]:
    """The command line that the unit starts; raises UnclearError where it is not clear from the files."""
    lines = settings.get("ExecStart", ())
    if len(lines) != 1:
        raise UnclearError(f"it has {several(len(lines), 'ExecStart= line')}")
    line = lines[0].lstrip()
    bare = line.lstrip(PREFIXES)
    words: list[str] = []
    for word in split_words(bare):
        if "%" in word.replace("%%", ""):
            raise UnclearError(f"its ExecStart= has a specifier that only systemd can expand: {word}")
        plain = word.replace("%%", "%")
        if words and plain.startswith("$") and plain[1:].isidentifier():
            words += variables.get(plain[1:], "").split()
        else:
            words.append(_VARIABLE.sub(lambda name: variables.get(name[1], ""), plain))
    if "@" in line[: len(line) - len(bare)]:
        del words[1:2]  # argv[0] of the program
    if not words:
        raise UnclearError("its ExecStart= is empty")
    return words


def _template(name: str) -> str:
    """``a@.service`` for ``a@b.service``."""
    stem, at, rest = name.partition("@")
    return f"{stem}@.{rest.rpartition('.')[2]}" if at else ""


def _prefixes(name: str) -> list[str]:
    """``a-b-.service`` and ``a-.service`` for ``a-b-c.service``: their drop-ins apply too."""
    stem, _, kind = name.rpartition(".")
    parts = stem.split("-")[:-1]
    return [f"{'-'.join(parts[:number])}-.{kind}" for number in range(len(parts), 0, -1)]


def _counts(link: str) -> bool:
    """Whether an entry of a ``.wants`` folder counts: a link, but not to /dev/null or an empty file."""
    try:
        return os.path.islink(link) and os.path.realpath(link) != os.devnull and os.stat(link).st_size > 0
    except OSError:
        return os.path.islink(link)  # a dangling link still names its unit


def split_words(line: str) -> list[str]:
    """The words of a line; raises UnclearError."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UnclearError(f"one of its lines cannot be read ({error}): {line[:80]}") from error


def _directives(text: str) -> list[tuple[str, str, str]]:
    """Every ``key=value`` after its section, with continued lines joined."""
    kept = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    joined = "\n".join(kept).replace("\\\n", " ")
    section, found = "", []
    for line in joined.splitlines():
        if line.strip().startswith("["):
            section = line.strip().strip("[]")
            continue
        key, equals, value = line.partition("=")
        if equals:
            found.append((section, key.strip(), value.strip()))
    return found
