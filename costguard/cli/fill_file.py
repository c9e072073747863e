"""The configuration of `costguard fill`: TOML with the names of its options, and a table [[work]] for each command."""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.cli.starting import interval_seconds, share, signal_number
from costguard.config import toml_text, values
from costguard.config.toml_text import toml
from costguard.engine.words import several
from costguard.errors import USAGE, CostguardError
from costguard.files import open_file
from costguard.fill.jobs import Filler
from costguard.tree.ending import short_name

VARIABLE = re.compile(r"[A-Za-z_]\w*")
"""The name of a variable of the environment."""


class FillFile(NamedTuple):
    """The work of a file, and the options that stand in it, by the names of the command line."""

    fillers: tuple[Filler, ...]
    options: Mapping[str, Any]


class _Option(NamedTuple):
    """How a value is read and written, and what is allowed, for people."""

    read: Callable[[object], Any]
    show: Callable[[Any], object]
    allowed: str


def _switch(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError(f"{value!r} is not true or false")
    return value


def _by(value: object) -> str:
    if value not in ("processes", "load"):
        raise ValueError(f"{value!r} is not known")
    return str(value)


def _words(value: object) -> tuple[str, ...]:
    names = [name for name in values.names(value) if name]
    if "\0" in "".join(names):
        raise ValueError("it contains a zero byte")
    return tuple(names)


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not a text")
    return value


def _folder(value: object) -> str:
    if not (found := _text(value)):
        raise ValueError("it is empty")
    return found


def _gpus(value: object) -> tuple[str, ...]:
    """Numbers or UUIDs; none for all."""
    if value in ("all", ["all"]):
        return ()
    names = _words(value)
    if not names:
        raise ValueError("it names no GPU")
    return tuple(dict.fromkeys(names))


def _command(value: object) -> tuple[str, ...]:
    words = values.command(value)
    if not words or "\0" in "".join(words):
        raise ValueError("it is empty" if not words else "it contains a zero byte")
    return words


def _variables(value: object) -> dict[str, str]:
    found: Mapping[str, Any] = value if isinstance(value, dict) else {"": value}
    for name, one in found.items():
        if not VARIABLE.fullmatch(name) or not isinstance(one, str) or "\0" in one:
            raise ValueError(f"{name} = {one!r} sets no variable")
        if name == "CUDA_VISIBLE_DEVICES":
            raise ValueError(f"costguard sets {name}; gpus chooses the GPUs")
    return dict(found)


def _time(read: Callable[[object], float]) -> _Option:
    return _Option(read, values.show_seconds, '"0.5s", "10s", "5m"')


_NAMES = _Option(_words, list, '["one", "two"]')
_SWITCH = _Option(_switch, bool, "true, false")

_OPTIONS: Mapping[str, _Option] = {
    "by": _Option(_by, str, '"processes", "load"'),
    "threshold": _Option(share, values.show_share, '"5%", more than 0'),
    "ignore": _NAMES,
    "users": _time(values.seconds),
    "ignore_users": _NAMES,
    "interval": _time(interval_seconds),
    "idle_for": _time(values.seconds),
    "rest": _time(values.seconds),
    "unknown_for": _time(values.seconds),
    "retry": _time(values.seconds),
    "once": _SWITCH,
    "signal": _Option(signal_number, short_name, '"TERM", "INT" or another signal that ends a process'),
    "grace": _time(values.seconds),
}
"""Options of the command line that apply to all work."""

_WORK: Mapping[str, _Option] = {
    "command": _Option(_command, list, '["./work", "--all"], or one text, quoted as in a shell'),
    "gpus": _Option(_gpus, list, '"all", or a list of numbers and UUIDs'),
    "together": _SWITCH,
    "directory": _Option(_folder, str, '"/folder"'),
    "env": _Option(_variables, dict, '{ NAME = "value" }'),
    "log": _Option(_text, str, '"/file"'),
}
"""Options of one ``[[work]]``."""

_FIELDS = {"env": "variables"}
"""Fields of `Filler` that are not named like their option."""


def parameter(name: str) -> str:
    """The click parameter that an option of the file stands for."""
    return "number" if name == "signal" else name


def wrong(path: str, problems: Sequence[str], hint: str = "correct it in the file") -> CostguardError:
    """An error that lists every problem of one file."""
    if len(problems) == 1:
        return CostguardError(f"{path}: {problems[0]}", hint, USAGE)
    return CostguardError("\n  ".join([f"{path} has {several(len(problems), 'problem')}:", *problems]), hint, USAGE)


def content(path: str) -> bytes:
    """The content of a file, cut one byte after the limit, so that the caller can tell that it is too large. Raises CostguardError."""
    try:
        with open_file(path) as file:
            return file.read(toml_text.MOST_BYTES + 1)
    except OSError as error:
        name = path or "'' (an empty name)"
        raise CostguardError(f"{name} cannot be read: {error.strerror}", "name a file that is there", USAGE) from error


def syntax_error(path: str, slip: toml_text.Slip) -> CostguardError:
    """The mistake of syntax after which nothing of a file can be read."""
    return wrong(path, [f"line {slip.line}: {slip.text}" if slip.line else slip.text])


def read(path: str) -> FillFile:
    """Read one file. Raises CostguardError with every problem, each with its place and what is allowed."""
    found = toml_text.read(content(path))
    if isinstance(found, toml_text.Slip):
        raise syntax_error(path, found)
    problems: list[str] = []
    _text_of_file, table = found
    work = table.pop("work", None)
    options = _read(table, _OPTIONS, "", problems)
    if not isinstance(work, list) or not work or not all(isinstance(one, dict) for one in work):
        problems.append("there is no [[work]]; allowed: a table [[work]] with command = … for each command")
        work = []
    works = [_read(one, _WORK, f"[[work]] {number}, ", problems) for number, one in enumerate(work, 1)]
    problems += [f"[[work]] {number}, command is missing" for number, one in enumerate(work, 1) if "command" not in one]
    if problems:
        raise wrong(path, problems)
    return FillFile(tuple([Filler(**{_FIELDS.get(name, name): one[name] for name in one}) for one in works]), options)


def _read(table: Mapping[str, object], known: Mapping[str, _Option], where: str, problems: list[str]) -> dict[str, Any]:
    """The valid values of one table; ``problems`` gets the others."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        option = known.get(name)
        if option is None:
            problems.append(f"{where}{name}: there is no such option{_meant(name, known)}")
            continue
        try:
            found[name] = option.read(value)
        except ValueError as error:
            allowed = "" if "allowed:" in str(error) else f"; allowed: {option.allowed}"
            problems.append(f"{where}{name}: {error}{allowed}")
    return found


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; allowed: {', '.join(known)}"


def written(file: FillFile, head: Sequence[str], remarks: Mapping[str, str]) -> str:
    """The file as text; ``head``: its first remarks, ``remarks``: those beside an option."""
    return "".join(f"{line}\n" for line in _lines(file, head, remarks))


def _lines(file: FillFile, head: Sequence[str], remarks: Mapping[str, str]) -> Iterator[str]:
    yield from (f"# {_one_line(text)}" for text in head)
    yield ""
    for name, value in file.options.items():
        line = f"{name} = {toml(_OPTIONS[name].show(value))}"
        yield f"{line.ljust(_COLUMN)} # {remarks[name]}" if name in remarks else line
    for filler in file.fillers:
        yield "\n[[work]]"
        for name, option in _WORK.items():
            value = getattr(filler, _FIELDS.get(name, name))
            if value or name == "together":
                yield f"{name} = {toml(option.show(value))}"


_COLUMN = 24
"""Where remarks begin."""


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)
