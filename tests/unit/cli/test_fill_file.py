"""The configuration of `costguard fill`."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from costguard.cli import fill, fill_file
from costguard.cli.main import main
from costguard.errors import CostguardError
from costguard.fill.jobs import Filler

WORK = '[[work]]\ncommand = "./work"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fill.toml"


def test_every_option_of_the_verb_has_its_name(file: Path) -> None:
    """With the values that the command line takes, quoted as TOML wants it."""
    file.write_text("""
        by = "load"
        threshold = "7%"
        ignore = ["one", "two"]
        users = "5m"
        ignore_users = ["ann"]
        interval = 0.5
        idle_for = "0s"
        rest = "1m"
        unknown_for = "3s"
        retry = 1
        once = true
        signal = "INT"
        grace = "2s"
        [[work]]
        command = "./work --name 'two words'"
        [[work]]
        command = ["./other"]
        gpus = [0, "GPU-5d"]
        together = true
        directory = "/srv/{gpu}"
        env = { NAME = "value" }
        log = "/srv/log"
        """)
    found = fill_file.read(str(file))
    assert found.options == {
        "by": "load", "threshold": 0.07, "ignore": ("one", "two"), "users": 300.0, "ignore_users": ("ann",), "interval": 0.5,
        "idle_for": 0.0, "rest": 60.0, "unknown_for": 3.0, "retry": 1.0, "once": True, "signal": 2, "grace": 2.0,
    }  # fmt: skip
    verb = {param.name for param in fill.command.params} - {"program", "config", "dry_run"} - fill.OF_WORK
    assert {fill_file.parameter(name) for name in found.options} == verb
    assert found.fillers == (
        Filler(("./work", "--name", "two words")),
        Filler(("./other",), ("0", "GPU-5d"), True, "/srv/{gpu}", {"NAME": "value"}, "/srv/log"),
    )
    assert set(Filler._fields) - {"command"} == fill.OF_WORK


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no [[work]]; allowed: "),
        ("work = 3", "there is no [[work]]"),
        ("[work]\ncommand = 'x'", "there is no [[work]]"),
        ("[[work]]", "[[work]] 1, command is missing"),
        (f"rset = 3\n{WORK}", "rset: there is no such option; did you mean 'rest'?"),
        (f"zzz = 3\n{WORK}", "zzz: there is no such option; allowed: by, threshold, "),
        (f"{WORK}comand = 3", "[[work]] 1, comand: there is no such option; did you mean 'command'?"),
        (f"interval = 0\n{WORK}", "interval: 0 is out of range; allowed: more than 0, at most 1h"),
        (f"rest = 'soon'\n{WORK}", "rest: 'soon' is not a duration; allowed: "),
        (f"threshold = 50\n{WORK}", "threshold: 50 is not a share"),
        (f"threshold = 0\n{WORK}", "threshold: it must be greater than 0"),
        (f"by = 'use'\n{WORK}", "by: 'use' is not known; allowed: "),
        (f"once = 'yes'\n{WORK}", "once: 'yes' is not true or false; allowed: true, false"),
        (f"signal = 'STOP'\n{WORK}", "signal: STOP is not a signal that ends a process; allowed: "),
        (f"ignore = 'one'\n{WORK}", "ignore: 'one' is not a list; allowed: "),
        (f"{WORK}gpus = []", "[[work]] 1, gpus: it names no GPU; allowed: "),
        (f"{WORK}directory = ''", "[[work]] 1, directory: it is empty; allowed: "),
        (f"{WORK}directory = 3", "[[work]] 1, directory: 3 is not a text; allowed: "),
        (f"{WORK}[work.env]\nCUDA_VISIBLE_DEVICES = '0'", "[[work]] 1, env: costguard sets CUDA_VISIBLE_DEVICES"),
        (f"{WORK}env = {{ 'A B' = '0' }}", "[[work]] 1, env: A B = '0' sets no variable; allowed: "),
        (f"{WORK}env = 3", "[[work]] 1, env: "),
        (f"{WORK}[[work]]\ncommand = []", "[[work]] 2, command: it is empty; allowed: "),
        ('[[work]]\ncommand = ["a", "\\u0000"]', "[[work]] 1, command: it contains a zero byte"),
        (f'{WORK}log = "\\u0000"', "[[work]] 1, log: "),
        (f'ignore = ["\\u0000"]\n{WORK}', "ignore: it contains a zero byte"),
        ("interval = 1s", "line 1: "),
    ],
)
def test_what_is_wrong_is_named(file: Path, text: str, problem: str) -> None:
    """The file, the place in it and what is allowed; exit code 2, nothing is started."""
    file.write_text(text)
    result = CliRunner().invoke(main, ["fill", "--config", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(file) in result.stderr
    assert problem in result.stderr


def test_empty_names_are_named() -> None:
    """Of a file and of a folder, as a variable that is not set leaves them."""
    assert "'' (an empty name) cannot be read" in CliRunner().invoke(main, ["fill", "-c", ""]).stderr
    result = CliRunner().invoke(main, ["fill", "--directory", "", "--", "true"])
    assert (result.exit_code, "--directory: it is empty; write a folder" in result.stderr) == (2, True)


@pytest.mark.parametrize("all_of_them", ['"all"', '["all"]'])
def test_all_gpus_are_named_in_either_form(file: Path, all_of_them: str) -> None:
    """As on the command line."""
    file.write_text(f"{WORK}gpus = {all_of_them}")
    assert fill_file.read(str(file)).fillers[0].gpus == ()


def test_all_problems_are_said_at_once(file: Path) -> None:
    """Who corrects a file does it once."""
    file.write_text("once = 1\nrest = 'x'\n[[work]]\n")
    with pytest.raises(CostguardError) as raised:
        fill_file.read(str(file))
    assert len(raised.value.message.splitlines()) == 4


def test_options_for_nothing_are_refused_in_a_file_too(file: Path) -> None:
    """As on the command line."""
    file.write_text(f'threshold = "5%"\n{WORK}')
    assert "--by load" in CliRunner().invoke(main, ["fill", "-c", str(file)]).stderr
    file.write_text(f'ignore_users = ["ann"]\n{WORK}')
    assert "--users 5m" in CliRunner().invoke(main, ["fill", "-c", str(file)]).stderr


@pytest.mark.parametrize("word", ["--gpus=0", "--together", "--directory=/", "--env=A=b", "--log=x"])
def test_with_a_file_the_work_is_that_of_the_file(file: Path, word: str) -> None:
    """What the command line says about one command belongs to none of it."""
    file.write_text(WORK)
    assert "the work comes from the file" in CliRunner().invoke(main, ["fill", "-c", str(file), word]).stderr


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["1s", "5%", "TERM", "all"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from([*fill_file._OPTIONS, *fill_file._WORK, "work"])


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_value_is_read_or_named(options: dict[str, object], work: dict[str, object]) -> None:
    """Of any option and any kind: never a traceback."""
    problems: list[str] = []
    fill_file._read(options, fill_file._OPTIONS, "", problems)
    fill_file._read(work, fill_file._WORK, "[[work]] 1, ", problems)
    assert all(": " in problem for problem in problems)
