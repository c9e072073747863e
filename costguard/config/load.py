"""Load the settings from all sources, check them, and report every problem at once with its source."""

import difflib
import os
from collections.abc import Mapping
from typing import NamedTuple, get_args

from pydantic import ValidationError

from costguard.config import checks, drop_ins, ownership, paths
from costguard.config.options import NAME, OPTIONS, find, generic, is_table_of_tables
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.presets import PRESETS
from costguard.config.schema import Settings
from costguard.config.sources import DENIED, Layer, Problem, Value, read_command_line, read_environment
from costguard.config.types import LocalChannel
from costguard.engine.words import several
from costguard.errors import USAGE, CostguardError

RANGED = ("greater_than", "less_than")
"""Beginnings of pydantic's error types for a number out of range."""


_OF_PLUG_INS: dict[str, Mapping[str, str]] = {"cloud": CLOUDS.unfit, "task": TASKS.unfit}
"""Tables in which plug-ins have tables of their own, with those whose options cannot be read."""


class ConfigurationError(CostguardError):
    """The configuration has problems; ``problems`` are all of them, each one line. ``denied``: this user may not read it, and may be no judge of the rest."""

    def __init__(self, problems: list[str], *, denied: bool = False) -> None:
        count = several(len(problems), "problem")
        super().__init__(
            "\n  ".join([f"the configuration has {count}, so costguard does not start:", *problems]),
            "`costguard config init --full --path FILE` writes every option down; `costguard config check FILE` checks a file.",
            USAGE,
        )
        self.problems = problems
        self.denied = denied


class LoadedConfiguration(NamedTuple):
    """Checked settings; ``written`` holds what was written, and where, for each option that is not a default.

    ``source`` is the main file, ``files`` are all that were read for the settings, lowest first.
    """

    settings: Settings
    written: dict[str, Value]
    source: str
    paths: paths.Paths
    arguments: dict[str, object]
    files: tuple[str, ...]


def load(
    arguments: Mapping[str, object],
    environment: Mapping[str, str],
    system_file: str = paths.DEFAULT_CONFIG,
    *,
    run_by: int | None = None,
) -> LoadedConfiguration:
    """Merge preset < file < its drop-ins < environment < command line; raises ConfigurationError with every problem.

    ``system_file`` is read when ``arguments`` names no other; its [admin] table counts in either case, and that of its drop-ins.
    ``run_by``: the user whose agent will follow it; what others than he and root can change is then a problem too.
    """
    given = _given(arguments)
    sources = _sources(given, environment, system_file)
    problems = [problem for layer in sources.layers for problem in layer.problems]
    written = _with_preset(_written(sources, problems), problems)
    settings = _validate(written, problems)
    state_dir = given.get("state_dir")
    own = environment if run_by in {None, os.geteuid()} else _of_another(environment)
    where = paths.resolve(str(state_dir) if state_dir else None, own, run_by)
    if run_by is not None:
        read = tuple(dict.fromkeys(sources.followed))
        problems += ownership.check(settings, written, ownership.Given(read, where.state, own), run_by)
    if problems:
        denied = any(problem.text == DENIED for problem in problems)
        raise ConfigurationError([str(problem) for problem in problems], denied=denied)
    source = sources.file if os.path.exists(sources.file) else ""
    return LoadedConfiguration(settings, written, source, where, given, sources.files)


class _Sources(NamedTuple):
    """What was read: every layer, the highest last; ``outside``: those that are no file.

    ``file`` is the main one, ``files`` are all that were read for the settings; ``followed``: whoever can change these, decides.
    """

    layers: list[Layer]
    outside: list[Layer]
    file: str
    files: tuple[str, ...]
    followed: list[str]


def _given(arguments: Mapping[str, object]) -> dict[str, object]:
    """What stands on the command line, with paths that still lead there from another folder, as in a reload."""
    given = {key: value for key, value in arguments.items() if value not in (None, (), [])}
    for name in ("config", "state_dir"):
        if name in given:
            given[name] = os.path.abspath(os.path.expanduser(str(given[name])))
    return given


def _sources(given: Mapping[str, object], environment: Mapping[str, str], system_file: str) -> _Sources:
    config = given.get("config")
    file = str(config) if config else system_file
    outside = [read_environment(environment), _command_line(given)]
    read = drop_ins.read(file, required=bool(config))
    layers, followed = [*read.layers, *outside], list(read.followed)
    if os.path.realpath(file) != os.path.realpath(system_file):
        system = drop_ins.read(system_file, required=False)
        layers += [_only_admin(layer) for layer in system.layers]
        followed += system.followed
    return _Sources(layers, outside, file, tuple(read.files), followed)


def _written(sources: _Sources, problems: list[Problem]) -> dict[str, Value]:
    """The highest layer's value of each option; ``problems`` gets what cannot be one."""
    problems += [
        Problem(path, "only a configuration file may set it", value.source)
        for layer in sources.outside for path, value in layer.found.items() if path.startswith("admin.")
    ]  # fmt: skip
    everything: dict[str, Value] = {}
    for layer in sources.layers:
        everything.update(layer.found)
    written = {}
    for path, value in everything.items():
        if find(path) is None:
            problems.append(Problem(path, _unknown(path, value.raw), value.source))
        elif _has_zero_byte(value.raw):
            problems.append(
                Problem(path, f"it contains a zero byte (\\u0000); allowed: {_allowed(path)}", value.source)
            )
        else:
            written[path] = value
    return written


def _of_another(environment: Mapping[str, str]) -> dict[str, str]:
    """What may be taken from this environment for the agent of another user: folders and settings of libraries are its caller's own."""
    return {"PATH": os.defpath} | {name: text for name, text in environment.items() if name.startswith("COSTGUARD_")}


def _only_admin(layer: Layer) -> Layer:
    return Layer({k: v for k, v in layer.found.items() if k.startswith("admin.")}, layer.problems)


def _has_zero_byte(value: object) -> bool:
    """Whether a text in it has one, which ends it for the kernel and most libraries."""
    if isinstance(value, Mapping):
        return any(map(_has_zero_byte, (*value, *value.values())))
    if isinstance(value, list | tuple):
        return any(map(_has_zero_byte, value))
    return isinstance(value, str) and "\0" in value


def _command_line(given: Mapping[str, object]) -> Layer:
    listed = given.get("set", ())
    assignments = [str(item) for item in listed] if isinstance(listed, list | tuple) else []
    return read_command_line(assignments, {key: str(given[key]) for key in ("preset", "mode") if key in given})


def _with_preset(written: dict[str, Value], problems: list[Problem]) -> dict[str, Value]:
    chosen = written.get("preset")
    if chosen is None:
        return written
    preset = PRESETS.get(str(chosen.raw))
    if preset is None:
        text = (
            f"{chosen.raw!r} is not a preset{_similar(str(chosen.raw), list(PRESETS))}; allowed: {', '.join(PRESETS)}"
        )
        problems.append(Problem("preset", text, chosen.source))
        return written
    from_preset = {path: Value(raw, f"preset {chosen.raw}") for path, raw in preset.values.items()}
    return {**from_preset, **written}


def _validate(written: dict[str, Value], problems: list[Problem]) -> Settings:
    """The settings without wrong values, which go to ``problems``, so that logical checks still see everything else.

    What takes the place of a default is written down as well.
    """
    try:
        settings = Settings.model_validate(_tree(written))
    except ValidationError as error:
        wrong = {}
        for detail in error.errors(include_url=False):
            path = _option_path(detail["loc"])
            source = written[path].source if path in written else ""
            ranged = str(detail["type"]).startswith(RANGED) and path in written  # the input is a number by then
            given = written[path].raw if ranged else detail.get("input")
            wrong[path] = Problem(path, _message(path, str(detail["type"]), given, str(detail["msg"])), source)
        told = {problem.path for problem in problems}
        problems += [problem for path, problem in wrong.items() if path not in told]
        settings = _sound({path: value for path, value in written.items() if path not in wrong})
    else:
        if moved := checks.bounds_for_defaults(settings, written):
            written.update(moved)
            settings = Settings.model_validate(_tree(written))
    bad = {problem.path for problem in problems}
    for problem in checks.check(settings, written):
        if bad.isdisjoint((problem.path, *problem.involves)):
            source = written[problem.path].source if problem.path in written else ""
            problems.append(problem._replace(source=source))
    return settings


def _sound(written: dict[str, Value]) -> Settings:
    """Without what is wrong in it: a table goes whole where it lacks what it must have."""
    try:
        return Settings.model_validate(_tree(written))
    except ValidationError as error:
        wrong = {_option_path(detail["loc"]) for detail in error.errors(include_url=False)}
    tables = {path for path in wrong if any(name.startswith(f"{path}.") for name in written)}
    tables |= {path.rpartition(".")[0] for path in wrong - tables if path not in written}
    gone = tuple(f"{table}." for table in tables)
    kept = {path: value for path, value in written.items() if path not in wrong and not path.startswith(gone)}
    return _sound(kept if len(kept) < len(written) else {})


def _tree(written: Mapping[str, Value]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, value in written.items():
        *tables, key = path.split(".")
        node = tree
        for table in tables:
            child = node.setdefault(table, {})
            assert isinstance(child, dict)  # only tables have inner names
            node = child
        node[key] = value.raw
    return tree


def _option_path(location: tuple[int | str, ...]) -> str:
    """The option of pydantic's location, without the index in a list."""
    return ".".join(str(part) for part in location if isinstance(part, str))


def _message(path: str, kind: str, value: object, message: str) -> str:
    """What is wrong and what is allowed, for one error of pydantic; ``value`` as it was written."""
    if kind == "value_error":
        text = message.removeprefix("Value error, ")
    elif kind.startswith(RANGED):
        text = f"{value} is out of range"
    elif value in ("", None):
        text = "it is empty"
    elif kind == "literal_error" and isinstance(value, str):
        text = f"unknown value {value!r}{_similar(value, _allowed(path).replace(',', ' ').split())}"
    elif kind.startswith(("bool", "int")) and isinstance(value, str):
        text = f"{value!r} is text; remove the quotation marks"
    else:
        text = f"{value!r} is not valid"
    return f"{text}; allowed: {_allowed(path)}"


def _allowed(path: str) -> str:
    option = find(path)
    return option.allowed if option is not None else "see `costguard config show`"


def _unknown(path: str, value: object) -> str:
    """What is wrong with a path that is no option's."""
    return (
        _no_value(path, value)
        or _no_name(path)
        or _no_plug_in(generic(path))
        or f"there is no such option{_meant(path)}"
    )


def _tables() -> set[str]:
    return {known.rpartition(".")[0] for known in OPTIONS if "." in known} | {"actions"}


def _no_value(path: str, value: object) -> str:
    """Of a table that was written as a value, or as a list of tables."""
    if path not in _tables():
        return ""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[[{path}]] is a list of tables; allowed: [{path}]"
    keys = [known for known in OPTIONS if known.startswith(f"{path}.")]
    return f"this is a table, not a value; allowed: {', '.join(keys)}"


def _no_name(path: str) -> str:
    """Of a table that people name, and with a name that they cannot give it."""
    outer, _, name = path.rpartition(".")[0].rpartition(".")
    if not is_table_of_tables(outer) or generic(path) != path:
        return ""
    *taken, last = get_args(LocalChannel)
    return f"{name!r} is not a valid name; allowed: lowercase letters, digits, - and _, but not {', '.join(taken)} or {last}"


def _no_plug_in(path: str) -> str:
    """Of a table of a plug-in that is not installed, or whose options cannot be read."""
    table, tables = path.rpartition(".")[0], _tables()
    kind, _, plug_in = table.partition(".")
    if not plug_in or kind not in _OF_PLUG_INS or table in tables:
        return ""
    if why := _OF_PLUG_INS[kind].get(plug_in.partition(".")[0]):
        return f"the options of this plug-in cannot be read ({why}); allowed: none, until it is fixed"
    with_own = sorted(known.removeprefix(f"{kind}.") for known in tables if known.startswith(f"{kind}."))
    return f"no installed plug-in with that name has its own options; allowed: {', '.join(with_own) or 'none'}"


def _meant(path: str) -> str:
    """The option that was perhaps meant: one like it in the same table, its key in another one, or any one like it."""
    table, _, key = path.rpartition(".")
    if table and key in OPTIONS and generic(path) not in OPTIONS:
        return f"; did you mean the top-level '{key}'? It stands above the first [table]"
    named = f".{NAME}." in generic(path)
    name = table.rpartition(".")[2] if named else NAME
    table = generic(path).rpartition(".")[0]
    siblings = {known.rpartition(".")[2]: known for known in OPTIONS if known.rpartition(".")[0] == table}
    elsewhere = [known for known in OPTIONS if known.rpartition(".")[2] == key]
    alike = [siblings[close] for close in difflib.get_close_matches(key, siblings, 1, 0.75)]
    close = alike or elsewhere or difflib.get_close_matches(generic(path), OPTIONS, 1)
    if not close:
        return "; see `costguard config show`"
    return f"; did you mean '{close[0].replace(f'.{NAME}.', f'.{name}.')}'?"


def _similar(word: str, words: list[str]) -> str:
    close = difflib.get_close_matches(word, words, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
