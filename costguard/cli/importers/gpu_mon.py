"""The configuration of gpu_mon, as `costguard fill` understands it."""

import configparser
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from costguard.cli.fill_file import FillFile, content, syntax_error, wrong
from costguard.cli.importers import Imported, Note
from costguard.config import toml_text
from costguard.fill.jobs import Filler

THEIRS: Mapping[str, str] = {
    "idle_for": "gpu_mon: 0s, the first free look",
    "rest": "gpu_mon: 0s",
    "signal": "gpu_mon: KILL, to the command alone",
    "grace": "then KILL, to the whole tree",
}
"""What is otherwise here, beside the option that changes it."""

_KEYS: Mapping[str, Sequence[str]] = {
    "defaults": ("interval_seconds",),
    "gpu": ("gpus", "ignore_programs"),
    "process": ("gpus", "dir", "cmd", "log"),
    "tty": ("enabled", "whitelist", "idle_seconds"),
}
"""Which sections it knows, by their beginnings, and their keys."""

_SEVERAL = ("gpu", "process")

_INTERPRETER = re.compile(r"python[\d.]*|java|julia|node|ruby|perl|R|bash|sh")
"""Programs under whose name nearly everything on a GPU runs."""

Section = Mapping[str, str]

T = TypeVar("T")


def read(path: str) -> Imported:
    """Read one file. Raises CostguardError with all that is wrong in it, each with section, key and what is allowed."""
    parser = configparser.ConfigParser()  # with interpolation, as in gpu_mon: %% is a percent sign
    text = toml_text.decode(content(path))
    if isinstance(text, toml_text.Slip):
        raise syntax_error(path, text)
    try:
        parser.read_string(text.replace("\r", "\n"))  # gpu_mon accepts every kind of line end
    except configparser.Error as error:
        plain = " ".join(str(error).replace("<string>", path).split())
        message = f"this is not a gpu_mon configuration: {plain}"
        raise wrong(
            path, [message], "correct the file; a configuration of `costguard fill` itself ends in .toml"
        ) from error
    found = _GpuMonFile(parser)
    imported = found.imported()
    if found.problems:
        raise wrong(path, found.problems)
    return imported


class _Work(NamedTuple):
    """A section of work, and what it became; ``gpus``: those that the section names, none for ALL."""

    name: str
    filler: Filler
    gpus: tuple[str, ...]


class _GpuMonFile:
    """One file; ``problems`` are those that were found so far."""

    def __init__(self, parser: configparser.ConfigParser) -> None:
        self.problems: list[str] = []
        self._notes: list[Note] = []
        self._sections: dict[str, Section] = {name: parser[name] for name in parser.sections()}
        self._everywhere = parser.defaults()
        self._raw = [text for name in parser.sections() for _key, text in parser.items(name, raw=True)]

    def imported(self) -> Imported:
        """What it asks for; only where there are no problems."""
        found = [(name, self._filler(name, section)) for name, section in self._of_kind("process")]
        works = [_Work(name, one, one.gpus) for name, one in found if one is not None]
        if not self._of_kind("process"):
            self.problems.append("there is no section [process…], so there is no work; allowed: [process-all] with gpus, dir and cmd")  # fmt: skip
        options = {"interval": self._interval(), "ignore": self._ignored(), **self._people()}
        options |= {"idle_for": 10.0, "rest": 30.0, "signal": 15, "grace": 5.0}  # the defaults of `fill`
        self._unknown_names()
        works.sort(key=lambda work: work.filler.gpus != ())  # gpu_mon tries work for all GPUs first
        works = self._within(works)
        self._tell_groups(works)
        return Imported(FillFile(tuple([work.filler for work in works]), options), tuple(self._notes), dict(THEIRS))

    def _of_kind(self, kind: str) -> list[tuple[str, Section]]:
        return [(name, section) for name, section in self._sections.items() if _kind(name) == kind]

    def _value(self, name: str, section: Section, key: str, allowed: str) -> str | None:
        """A key that must be there; None where it is not."""
        if key not in section:
            self.problems.append(f"[{name}] {key} is missing; allowed: {allowed}")
        return self._get(name, section, key, None)

    def _get(self, name: str, section: Section, key: str, default: T) -> str | T:
        """A key that may be there. A value that is half an interpolation is none, and no second problem."""
        try:
            return section.get(key, default)
        except configparser.InterpolationError as error:
            plain = " ".join(str(error).split())
            self.problems.append(f"[{name}] {key} cannot be read ({plain}); allowed: %% for a percent sign")
            return default

    def _filler(self, name: str, section: Section) -> Filler | None:
        words = self._command(name, section)
        directory = self._value(name, section, "dir", "a folder")
        if directory == "":
            self.problems.append(f"[{name}] dir is empty; allowed: a folder")
        gpus = self._gpus(name, section)
        log = self._get(name, section, "log", "")
        if not words or not directory or gpus is None:
            return None
        for key, text in (("dir", directory), ("log", log)):
            if "{gpu}" in text:
                self._notes.append(Note("changed", f"[{name}] {key}: {{gpu}} becomes the number of the GPU here"))
        return Filler(words, gpus, len(gpus) != 1, directory, log=log)

    def _command(self, name: str, section: Section) -> tuple[str, ...]:
        """The words; none where there is an error."""
        allowed = "a command, quoted as in a shell"
        written = self._value(name, section, "cmd", allowed)
        if written is None:
            return ()
        try:
            words, why = shlex.split(written), "is empty"
        except ValueError as error:
            words, why = [], f"cannot be split ({error})"
        if not words or not words[0]:
            self.problems.append(f"[{name}] cmd = {written} {why}; allowed: {allowed}")
            return ()
        if words != written.split():
            self._notes.append(Note("changed", f"[{name}] cmd: quotes and backslashes count, as in a shell"))
        return tuple(words)

    def _gpus(self, name: str, section: Section) -> tuple[str, ...] | None:
        """Numbers; none for ALL. None where that is not understood."""
        allowed = "ALL, or numbers with commas"
        text = self._value(name, section, "gpus", allowed)
        if text is None or text.strip().upper() == "ALL":
            return None if text is None else ()
        found = _list(text)
        if not found or not all(_is_number(one) for one in found):
            self.problems.append(f"[{name}] gpus = {text} is not understood; allowed: {allowed}")
            return None
        return tuple(dict.fromkeys([str(int(one)) for one in found]))

    def _tell_groups(self, works: Sequence["_Work"]) -> None:
        """Which work has several GPUs at once here, where theirs had one each; and which waits for another."""
        for work in works:
            if len(work.gpus) > 1 and len(work.filler.gpus) > 1:
                gpus = _together(work.filler.gpus)
                self._notes.append(Note("changed", f"[{work.name}] is one process with {gpus}, and begins while all of them are free; gpu_mon started one for each"))  # fmt: skip
        for place, later in enumerate(works):
            first = next((one for one in works[:place] if _never_beside(one.filler, later.filler)), None)
            other = next((one for one in works[:place] if one.gpus and _shared(one.filler, later.filler)), None)
            if first is not None:
                self._notes.append(Note("changed", f"[{later.name}] never begins: [{first.name}] comes first and takes {_together(first.filler.gpus)} whenever it can; give them GPUs of their own"))  # fmt: skip
            elif other is not None:  # as in gpu_mon, work for all GPUs makes way
                gpus = _together(_shared(other.filler, later.filler))
                self._notes.append(Note("changed", f"[{later.name}] begins only while [{other.name}] does not run: both want {gpus}, and [{other.name}] comes first"))  # fmt: skip

    def _within(self, works: list["_Work"]) -> list["_Work"]:
        """The work on those GPUs alone that [gpu…] sections name, where they do not name all."""
        named = [self._gpus(name, section) for name, section in self._of_kind("gpu")]
        only = tuple(dict.fromkeys([number for gpus in named for number in gpus or ()]))
        if not all(named) or not only:
            return works
        are = "is" if len(only) == 1 else "are"
        self._notes.append(Note("changed", f"only {_together(only)} {are} used, as the [gpu] sections say"))
        found = []
        for work in works:
            gpus = tuple([number for number in work.gpus if number in only]) if work.gpus else only
            found.append(work._replace(filler=work.filler._replace(gpus=gpus)))
            if not gpus:
                self.problems.append(f"[{work.name}] has no GPU that a [gpu] section allows; allowed: {', '.join(only)}")  # fmt: skip
        return found

    def _ignored(self) -> tuple[str, ...]:
        """Programs whose use of a GPU does not count."""
        lists = []
        for name, section in self._of_kind("gpu"):
            text = self._value(name, section, "ignore_programs", "names with commas, or nothing")
            lists.append(tuple(_list(text or "")))
        if len(set(lists)) > 1:
            self._notes.append(Note("changed", "ignore_programs of one [gpu] section counts for all GPUs here"))
        names = tuple(dict.fromkeys([one for names in lists for one in names]))
        if names:
            self._notes.append(Note("changed", "names in ignore_programs are exact here; gpu_mon also ignored longer names that begin with one"))  # fmt: skip
        for one in names:
            if _INTERPRETER.fullmatch(one):
                self._notes.append(Note("never_yields", f"to a program called {one}, whatever it runs (ignore_programs)"))  # fmt: skip
        return names

    def _interval(self) -> float:
        text = self._value("defaults", self._sections.get("defaults", {}), "interval_seconds", "1 to 3600")
        if text is not None and (not _is_number(text) or not 0 < int(text) <= 3600):
            self.problems.append(f"[defaults] interval_seconds = {text} is out of range; allowed: 1 to 3600")
            return 0.0
        return float(text or 0)

    def _people(self) -> dict[str, object]:
        """For how long a key that was pressed counts, and whose does not; nothing where no key does."""
        section = self._sections.get("tty", {})
        states = configparser.ConfigParser.BOOLEAN_STATES
        enabled = self._value("tty", section, "enabled", "yes, no")
        if enabled is not None and enabled.strip().lower() not in states:
            self.problems.append(f"[tty] enabled = {enabled} is not understood; allowed: yes, no")
        seconds = self._get("tty", section, "idle_seconds", "0").strip()
        if not _is_number(seconds) or len(seconds) > 9:
            self.problems.append(f"[tty] idle_seconds = {seconds} is out of range; allowed: 0 to 999999999")
            return {}
        if enabled is not None and not states.get(enabled.strip().lower()):
            self._notes.append(Note("never_yields", f"to people at terminals ([tty] enabled = {enabled})"))
        elif not int(seconds):
            self._notes.append(Note("never_yields", "to people at terminals, though [tty] is enabled: idle_seconds is 0, so no keystroke is recent enough"))  # fmt: skip
        else:
            return {"users": float(seconds), "ignore_users": tuple(_list(self._get("tty", section, "whitelist", "")))}
        return {}

    def _unknown_names(self) -> None:
        """Sections and keys that nothing here knows; gpu_mon does not read them either."""
        for key in self._everywhere:
            used = any(f"%({key})s" in text for text in self._raw)
            self._lose(f"[DEFAULT] {key}", used or key in {one for keys in _KEYS.values() for one in keys})
        for name, section in self._sections.items():
            if not _kind(name):
                self._lose(f"[{name}]", known=False)
                continue
            for key in section:
                self._lose(f"[{name}] {key}", key in _KEYS[_kind(name)] or key in self._everywhere)

    def _lose(self, what: str, known: bool) -> None:
        if not known:
            self._notes.append(Note("lost", f"{what}: gpu_mon knows no such name"))


def _kind(name: str) -> str:
    """Which of the four kinds a section is; empty for another one."""
    return next((kind for kind in _KEYS if name == kind or (kind in _SEVERAL and name.startswith(kind))), "")


def _never_beside(earlier: Filler, later: Filler) -> bool:
    """Whether the later one needs all that the earlier one needs: then the earlier one always has it."""
    if not earlier.gpus:
        return not later.gpus  # else the later one begins where some are taken, as in gpu_mon
    return set(earlier.gpus) <= set(later.gpus)


def _shared(earlier: Filler, later: Filler) -> tuple[str, ...]:
    return tuple([gpu for gpu in later.gpus if gpu in earlier.gpus])


def _together(gpus: Sequence[str]) -> str:
    """``GPU 0``, ``GPUs 0 and 1``."""
    if len(gpus) < 2:
        return f"GPU {gpus[0]}" if gpus else "all GPUs"
    return f"GPUs {', '.join(gpus[:-1])} and {gpus[-1]}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[0-9]+\s*", text) is not None


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
