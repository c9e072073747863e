"""`costguard import`: what it makes of a configuration of gpu_mon, and what it says about it."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from costguard.cli import fill_file
from costguard.cli.importers import Imported, gpu_mon
from costguard.cli.importing import IMPORTERS
from costguard.cli.main import main
from costguard.errors import CostguardError
from costguard.fill.jobs import Filler

WHOLE = """
[defaults]
interval_seconds = 10
[gpu-all]
gpus = ALL
ignore_programs = Xorg, python-miner
[process-all]
gpus = ALL
dir = /srv
cmd = ./run.sh --name 'two words'
log = /srv/log.txt
[process-one]
gpus = 1
dir = /one
cmd = one
[process-pair]
gpus = 0, 2
dir = /pair
cmd = pair
[tty]
enabled = True
whitelist = ann, bob
idle_seconds = 300
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpu_mon.conf"
    path.write_text(WHOLE)
    return path


def read(file: Path) -> Imported:
    return gpu_mon.read(str(file))


def told(file: Path, kind: str) -> list[str]:
    return [note.text for note in read(file).notes if note.kind == kind]


def typed(*words: str | Path) -> Any:
    return CliRunner().invoke(main, ["import", "gpu-mon", *map(str, words)])


# -- what it reads -------------------------------------------------------------------------------------------


def test_every_key_has_its_place(file: Path) -> None:
    """gpu_mon: interval, ignore list without blanks, work for all, for one and for a set, folder, log, quoting, users."""
    found = read(file).file
    assert (found.options["interval"], found.options["ignore"]) == (10.0, ("Xorg", "python-miner"))
    assert (found.options["users"], found.options["ignore_users"]) == (300.0, ("ann", "bob"))
    everything, one, pair = found.fillers
    assert everything.command == ("./run.sh", "--name", "two words")
    assert (everything.gpus, everything.together) == ((), True)
    assert (everything.directory, everything.log) == ("/srv", "/srv/log.txt")
    assert (pair.gpus, pair.together) == (("0", "2"), True)
    assert (one.gpus, one.together, one.log) == (("1",), False, "")


def test_sections_of_gpus_limit_the_work(file: Path) -> None:
    """Work for all is work for those of the [gpu] sections, which is said."""
    file.write_text(WHOLE.replace("gpus = ALL\nignore", "gpus = 0,1,2\nignore", 1))
    assert read(file).file.fillers[0].gpus == ("0", "1", "2")
    assert "only GPUs 0, 1 and 2 are used, as the [gpu] sections say" in told(file, "changed")
    file.write_text(WHOLE.replace("gpus = ALL\nignore", "gpus = 0\nignore", 1))
    with pytest.raises(CostguardError, match=r"\[process-one\] has no GPU that a \[gpu\] section allows; allowed: 0"):
        read(file)


def test_a_percent_sign_is_what_it_was(file: Path) -> None:
    """gpu_mon reads %% and %(name)s as its library does; what is half of one is an error there, too, and named."""
    file.write_text(
        "[DEFAULT]\nbase = /srv\n"
        + WHOLE.replace("dir = /one", "dir = %(base)s/one").replace("cmd = one", "cmd = date +%%F")
    )
    found = read(file).file.fillers[1]
    assert (found.directory, found.command) == ("/srv/one", ("date", "+%F"))
    assert told(file, "lost") == []
    file.write_text(WHOLE.replace("dir = /one", "dir = /one%").replace("log = /srv/log.txt", "log = %(none)s"))
    with pytest.raises(CostguardError) as raised:
        read(file)
    assert "[process-one] dir cannot be read" in raised.value.message
    assert "[process-all] log cannot be read" in raised.value.message
    assert raised.value.message.count("allowed: %% for a percent sign") == 2


def test_what_means_another_thing_is_said(file: Path) -> None:
    """Exact names, and quotes of a command, which gpu_mon takes for letters."""
    assert told(file, "changed") == [
        "[process-all] cmd: quotes and backslashes count, as in a shell",
        "names in ignore_programs are exact here; gpu_mon also ignored longer names that begin with one",
        "[process-pair] is one process with GPUs 0 and 2, and begins while all of them are free; gpu_mon started one for each",
    ]


PAIR = "[{name}]\ngpus = {gpus}\ndir = /\ncmd = {name}\n"


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("1", "0,1", "[process-b] never begins: [process-a] comes first and takes GPU 1 whenever it can; give them GPUs of their own"),
        ("0,1", "1", "[process-b] begins only while [process-a] does not run: both want GPU 1, and [process-a] comes first"),
        ("0,1", "1,2", "[process-b] begins only while [process-a] does not run: both want GPU 1, and [process-a] comes first"),
        ("1", "1", "[process-b] never begins: [process-a] comes first and takes GPU 1 whenever it can; give them GPUs of their own"),
        ("ALL", "ALL", "[process-b] never begins: [process-a] comes first and takes all GPUs whenever it can; give them GPUs of their own"),
        ("ALL", "1", ""),
        ("0", "1", ""),
    ],
)  # fmt: skip
def test_work_keeps_its_order_and_who_must_wait_is_named(file: Path, first: str, second: str, says: str) -> None:
    """gpu_mon: all GPUs first, then the first of the file that wants a GPU; here work for several has them all or none."""
    head, tty = WHOLE.partition("[process-all]")[0], "[tty]\nenabled = no\n"
    file.write_text(head + PAIR.format(name="process-a", gpus=first) + PAIR.format(name="process-b", gpus=second) + tty)
    assert [one.command for one in read(file).file.fillers] == [("process-a",), ("process-b",)]
    order = [text for text in told(file, "changed") if "begins only" in text or "never begins" in text]
    assert order == ([says] if says else [])
    groups = [text for text in told(file, "changed") if "is one process with" in text]
    assert len(groups) == (first + second).count(",")


@pytest.mark.parametrize(
    ("section", "second", "says"),
    [
        ("1", "1", "[process-b] never begins: [process-a] comes first and takes GPU 1 whenever it can; give them GPUs of their own"),
        ("0,1", "1", ""),
        ("0,1", "ALL", "[process-b] never begins: [process-a] comes first and takes GPUs 0 and 1 whenever it can; give them GPUs of their own"),
    ],
)  # fmt: skip
def test_who_must_wait_is_named_after_the_sections_of_gpus(file: Path, section: str, second: str, says: str) -> None:
    """Work for all that a [gpu] section limits takes what others want; it is not told as a set that its file names."""
    head = WHOLE.partition("[process-all]")[0].replace("gpus = ALL", f"gpus = {section}")
    work = PAIR.format(name="process-a", gpus="ALL") + PAIR.format(name="process-b", gpus=second)
    file.write_text(head + work + "[tty]\nenabled = no\n")
    order = [text for text in told(file, "changed") if "begins only" in text or "never begins" in text]
    assert order == ([says] if says else [])
    assert "is one process with" not in str(told(file, "changed"))


def test_braces_that_mean_a_number_here_are_said(file: Path) -> None:
    """They are letters there."""
    file.write_text(WHOLE.replace("/srv/log.txt", "/srv/{gpu}.txt"))
    assert "[process-all] log: {gpu} becomes the number of the GPU here" in told(file, "changed")


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbf" + WHOLE.encode(), WHOLE.replace("\n", "\r\n").encode(), WHOLE.replace("\n", "\r").encode()])  # fmt: skip
def test_a_mark_of_its_encoding_and_other_ends_of_lines_change_nothing(file: Path, raw: bytes) -> None:
    """As an editor of another system leaves them."""
    expected = read(file)
    file.write_bytes(raw)
    assert read(file) == expected


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("dir = /one", "dir = /one\nnice = 5", ["[process-one] nice: gpu_mon knows no such name"]),
        ("[tty]", "[mail]\nto = ann\n[tty]", ["[mail]: gpu_mon knows no such name"]),
        ("[defaults]", "[DEFAULT]\nshell = sh\n[defaults]", ["[DEFAULT] shell: gpu_mon knows no such name"]),
        ("[tty]", "[tty]\nUSERS = x", ["[tty] users: gpu_mon knows no such name"]),
        ("", "", []),
    ],
)
def test_what_is_not_carried_over_is_named(file: Path, old: str, new: str, lost: list[str]) -> None:
    """Every section and key that means nothing, and no other."""
    file.write_text(WHOLE.replace(old, new, 1))
    assert told(file, "lost") == lost


@pytest.mark.parametrize(
    ("old", "new", "never"),
    [
        ("enabled = True", "enabled = no", "to people at terminals ([tty] enabled = no)"),
        ("idle_seconds = 300", "", "to people at terminals, though [tty] is enabled: idle_seconds is 0"),
        (
            "idle_seconds = 300",
            "idle_seconds = 0",
            "to people at terminals, though [tty] is enabled: idle_seconds is 0",
        ),
        ("ignore_programs = Xorg", "ignore_programs = python3.11", "to a program called python3.11"),
    ],
)
def test_a_configuration_that_never_yields_says_so(file: Path, old: str, new: str, never: str) -> None:
    """To people, or to a name under which all programs run; and no user is named who does not count."""
    assert told(file, "never_yields") == []
    file.write_text(WHOLE.replace(old, new, 1))
    assert [text.startswith(never) for text in told(file, "never_yields")] == [True]
    assert ("users" in read(file).file.options) == ("ignore_users" in read(file).file.options)
    result = typed(file)
    assert f"note: it never yields {never}" in result.stderr
    assert f"# It never yields {never}" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("interval_seconds = 10", "", r"\[defaults\] interval_seconds is missing; allowed: 1 to 3600"),
        ("interval_seconds = 10", "interval_seconds = 0", "interval_seconds = 0 is out of range; allowed: 1 to 3600"),
        ("interval_seconds = 10", "interval_seconds = \u00b2", "out of range; allowed: 1 to 3600"),
        ("[defaults]", "[default]", r"\[defaults\] interval_seconds is missing"),
        ("enabled = True", "", r"\[tty\] enabled is missing; allowed: yes, no"),
        ("enabled = True", "enabled = perhaps", r"\[tty\] enabled = perhaps is not understood; allowed: yes, no"),
        ("idle_seconds = 300", "idle_seconds = soon", r"\[tty\] idle_seconds = soon is out of range; allowed: 0 to"),
        ("cmd = one", "", r"\[process-one\] cmd is missing; allowed: a command"),
        ("cmd = one", "cmd = 'one", r"\[process-one\] cmd = 'one cannot be split \(No closing quotation\); allowed:"),
        ("cmd = one", "cmd =", r"\[process-one\] cmd =  is empty; allowed: a command"),
        ("dir = /one", "", r"\[process-one\] dir is missing; allowed: a folder"),
        ("dir = /one", "dir =", r"\[process-one\] dir is empty; allowed: a folder"),
        ("gpus = 1", "gpus = first", r"\[process-one\] gpus = first is not understood; allowed: ALL, or numbers"),
        ("ignore_programs = Xorg, python-miner", "", r"\[gpu-all\] ignore_programs is missing; allowed: names"),
        ("[process-", "[work-", r"\[process.*so there is no work; allowed: "),
        ("[tty]", "[tty", "is not a gpu_mon configuration"),
        ("dir = /one", "dir = /\0one", "it contains zero bytes; allowed: a text file"),
        ("[tty]", "[gpu-all]", "is not a gpu_mon configuration.*already exists"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(
    file: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Path, section, key and what is allowed; exit code 2; not even an empty file."""
    file.write_text(WHOLE.replace(old, new, 1 if old != "[process-" else -1))
    with pytest.raises(CostguardError, match=message) as raised:
        read(file)
    assert str(file) in raised.value.message
    result = typed(file, "--output", tmp_path / "made.toml", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (WHOLE.encode() + b"#" * (1 << 20) + b"\n[process-late]\n", "larger than 1 MB; allowed: "),
        (WHOLE.replace("/one", "/\u00e4").encode("latin-1"), "line 14: a character is not UTF-8; allowed: "),
        (WHOLE.encode("utf-16"), "UTF-16.*; allowed: a text file in UTF-8"),
    ],
)
def test_a_file_that_is_no_text_for_it_is_refused_whole(file: Path, raw: bytes, message: str) -> None:
    """Also one of which only the end could not be read: its work would be lost unsaid."""
    file.write_bytes(raw)
    with pytest.raises(CostguardError, match=message):
        read(file)


def test_all_that_is_wrong_is_said_at_once(file: Path) -> None:
    """Who corrects a file does it once."""
    file.write_text(WHOLE.replace("gpus = 1", "gpus = x").replace("cmd = pair", "").replace("= 10", "= ten"))
    with pytest.raises(CostguardError) as raised:
        read(file)
    assert len(raised.value.message.splitlines()) == 4


@pytest.mark.parametrize("place", ["none", "", "pipe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, place: str) -> None:
    """With what to do; a pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CostguardError, match="cannot be read") as raised:
        gpu_mon.read(str(tmp_path / place))
    assert raised.value.hint


LINES = st.sampled_from([*WHOLE.splitlines(), "gpus = ", "gpus = 1,,²", "cmd = \\", "dir = \0", "log = %(log)s", "[tty]", "[gpu]", "  more", "= 3", "enabled", "ignore_programs = ,", "whitelist = ,a"])  # fmt: skip


@given(st.lists(LINES | st.text(max_size=20), max_size=40))
def test_any_file_is_read_or_named(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """Whatever stands in it: work that `fill` reads again, or an error for people; never a traceback."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "x.conf").write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    imported, said = None, ""
    try:
        imported = gpu_mon.read(str(folder / "x.conf"))
    except CostguardError as error:
        said = error.message
    if imported is None:
        assert said.startswith(str(folder / "x.conf"))
    else:
        assert again(imported, folder) == imported.file


# -- what it makes -------------------------------------------------------------------------------------------


def again(imported: Imported, tmp_path: Path) -> fill_file.FillFile:
    """What `fill` reads of what was written."""
    path = tmp_path / "again.toml"
    head = [note.text for note in imported.notes]
    path.write_text(fill_file.written(imported.file, head, imported.remarks), encoding="utf-8")
    return fill_file.read(str(path))


@pytest.mark.parametrize("enabled", ["yes", "no"])
def test_fill_reads_the_same_of_both_files(file: Path, tmp_path: Path, enabled: str) -> None:
    """`fill -c gpu_mon.conf` and `fill -c` with what the import wrote are one thing."""
    file.write_text(WHOLE.replace("enabled = True", f"enabled = {enabled}"))
    imported = read(file)
    assert again(imported, tmp_path) == imported.file


WORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r\x85\u2028\u2029"), min_size=1)


@given(st.lists(WORDS, min_size=1, max_size=4), WORDS, st.booleans())
def test_whatever_stands_in_it_comes_through(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], folder: str, together: bool
) -> None:
    """Quotes, control characters and line ends of a command change no other line of the file."""
    filler = Filler(("x", *words), ("0",), together, folder, {"A": folder}, words[0])
    made = Imported(fill_file.FillFile((filler,), {"interval": 1.0}), (), {"interval": "remark"})
    assert again(made, tmp_path_factory.mktemp("words")) == made.file


def test_it_is_printed_or_written_and_never_over_another_file(file: Path, tmp_path: Path) -> None:
    """Without --output nothing is written; with it an existing file stays until --force says otherwise."""
    printed = typed(file)
    assert printed.exit_code == 0
    assert list(tmp_path.iterdir()) == [file]
    made = tmp_path / "fill.toml"
    assert typed(file, "--output", made).exit_code == 0
    assert made.read_text() == printed.stdout
    made.write_text("mine")
    refused = typed(file, "--output", made)
    assert (refused.exit_code, made.read_text()) == (2, "mine")
    assert "exists and was left alone" in refused.stderr
    assert typed(file, "--output", made, "--force").exit_code == 0
    assert made.read_text() == printed.stdout
    assert sorted(tmp_path.iterdir()) == [made, file]


def test_the_file_that_is_imported_is_never_replaced(file: Path, tmp_path: Path) -> None:
    """Not even by --force, nor a folder, nor where there is none to write to."""
    (tmp_path / "same").symlink_to(file)
    for output in (file, tmp_path / "same", tmp_path, tmp_path / "none" / "x"):
        result = typed(file, "--output", output, "--force")
        assert result.exit_code == 2, output
        assert str(output) in result.stderr
    assert file.read_text() == WHOLE
    assert typed(file, "--force").exit_code == 2


def test_it_is_as_readable_as_its_source(file: Path, tmp_path: Path) -> None:
    """A command may hold a password."""
    file.chmod(0o600)
    assert typed(file, "--output", tmp_path / "made.toml").exit_code == 0
    assert stat.S_IMODE((tmp_path / "made.toml").stat().st_mode) == 0o600


def test_programs_get_one_object(file: Path) -> None:
    """Options, work, notes, and the text itself."""
    answer = json.loads(typed(file, "--json").stdout)
    assert answer["schema"] == "costguard.import/1"
    assert (answer["output"], answer["text"]) == (None, typed(file).stdout)
    assert answer["options"]["signal"] == "TERM"
    assert [one["command"][0] for one in answer["work"]] == ["./run.sh", "one", "pair"]
    assert {note["kind"] for note in answer["notes"]} == {"changed"}


def test_every_importer_is_a_verb_of_its_own() -> None:
    """One module each; whoever adds one adds its line."""
    here = Path(gpu_mon.__file__).parent
    modules = {f"costguard.cli.importers.{path.stem}" for path in here.glob("*.py")} - {"costguard.cli.importers.__init__"}  # fmt: skip
    assert {importer.module for importer in IMPORTERS.values()} == modules
