"""Terminals that can do little, real ones: no escape codes where none are wanted, and nothing is cut or lost, whatever their width and locale."""

import re
from collections.abc import Mapping

import pytest

from .conftest import COMMAND, Agent
from .terminal import Terminal

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]

VERBS = {
    "status": ("status",),
    "watch": ("status", "--watch"),
    "history": ("history",),
    "notify": ("notify", "test"),
    "doctor": ("doctor",),
}
PLAIN = {"LC_ALL": "POSIX", "LANG": "C"}
POOR: dict[str, Mapping[str, str]] = {
    "no colour": {"NO_COLOR": "1"},
    "dumb": {"TERM": "dumb"},
    "POSIX": PLAIN,
    "C": {"LANG": "C"},
    "ASCII": {**PLAIN, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb", "NO_COLOR": "1"},
}
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m")


def letters(text: str) -> str:
    """What of a text no breaking of lines changes."""
    return re.sub(r"[^A-Za-z]", "", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))


@pytest.mark.parametrize("columns", [40, 120])
@pytest.mark.parametrize("poor", POOR)
def test_every_view_is_whole_on_a_terminal_that_can_do_little(agent: Agent, poor: str, columns: int) -> None:
    """Each verb that people look at."""
    agent.start()
    base = {
        name: value
        for name, value in agent.environment.items()
        if name not in {"NO_COLOR", "COLUMNS", "LANG", "LC_ALL", "LC_CTYPE"}
    }
    words = {
        "status": ("DRYRUN", "Keepsitup", "Wouldstopit", "Whodecides", "costguardhold"),
        "watch": ("DRYRUN",),
        "history": ("wouldberefused",),
        "notify": ("notify",),
        "doctor": ("GUARDED",),
    }
    said: dict[str, str] = {}
    for verb, arguments in VERBS.items():
        command = [*COMMAND, *arguments, "--state-dir", str(agent.folder / "state")]
        with Terminal(command, {**base, **POOR[poor]}, columns=columns, rows=24) as terminal:
            if verb == "watch":
                terminal.until("IDLE")
                terminal.interrupt()
            code = terminal.end()
            said[verb] = terminal.raw
        assert code in {0, 1, 3, 130}, said[verb]
        assert "Traceback" not in said[verb]
        if poor in {"no colour", "ASCII"}:
            assert not COLOUR.search(said[verb]), repr(said[verb])
        if "dumb" in POOR[poor].values():
            assert "\x1b" not in said[verb], repr(said[verb])
        if poor == "ASCII":
            assert said[verb].isascii(), said[verb]
        for one in words[verb]:
            assert one in letters(said[verb]), (verb, one, said[verb])
        if verb in {"status", "history"}:  # the others write paragraphs, which a terminal breaks itself
            too_long = [
                line
                for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said[verb]).splitlines()
                if len(line.rstrip()) > columns
            ]
            assert too_long == [], (verb, too_long)
