"""What people write wrong: each ends with 2, names the place, says what is wrong in human words, and loses nothing."""

import gzip
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from costguard.cli.main import VERBS, main
from costguard.cli.old_flags import THEIRS
from costguard.config.options import OPTIONS

FILE = "box.toml"
CHECK = ("config", "check", FILE)

JARGON = (
    "Traceback", "codec", "Errno", "pydantic", "tomllib", "Illegal", "Invalid", "Expected ", "Cannot ", "namespace",
    "key/value", "statement", "decode", "NoneType", "Error:", "Error(", "<=", "literal", "at end of document", "column 1",
    "click.", "zlib", "while decompressing",
)  # fmt: skip
"""Words of parsers, libraries and our own code; none of them helps who wrote the input."""


class Case(NamedTuple):
    """What is written into the file, what is typed, and what the answer must hold."""

    content: bytes | None
    typed: Sequence[str]
    says: Sequence[str]
    variables: Mapping[str, str] = {}


def toml(text: str, *says: str) -> Case:
    return Case(text.encode(), CHECK, says)


def raw(content: bytes, *says: str) -> Case:
    return Case(content, CHECK, (FILE, *says))


def typed(line: str, *says: str) -> Case:
    return Case(None, line.split(), says)


def variable(name: str, value: str, *says: str) -> Case:
    return Case(None, ("config", "check"), (name, *says), {name: value})


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("trace.csv", "timestamp, index\n")
    return packed.getvalue()


def replayed(content: bytes, *says: str) -> Case:
    return Case(content, ("replay", FILE), (FILE, *says))


FILES = {
    "no closing quote": toml('mode = "live\n', f"{FILE}:1", "'mode'", "quotation mark", 'mode = "live"'),
    "no closing quote further down": toml('# x\n\ngrace = "5m" # "a"\nmode = "live\n', f"{FILE}:4", "quotation mark"),
    "two kinds of quotes": toml("mode = 'live\"\n", f"{FILE}:1", "begins with '", 'mode = "live"'),
    "curly quotes": toml("mode = “live”\n", f"{FILE}:1", "quotation marks", "straight"),
    "no quotes": toml("mode = live\n", f"{FILE}:1", 'mode = "live"'),
    "a bare duration": toml("grace = 10m\n", f"{FILE}:1", 'grace = "10m"'),
    "a bare share": toml("kill_threshold = 5%\n", f"{FILE}:1", 'kill_threshold = "5%"'),
    "a bare address": toml("[sink]\nurl = https://hooks.example.org/T0/secretpath\n", f"{FILE}:2", 'url = "…"'),
    "a key twice": toml('mode = "live"\nmode = "dry-run"\n', f"{FILE}:2", "'mode'", "twice", "line 1"),
    "a key twice in a table": toml('[hold]\nmax = "1h"\n\nmax = "2h"\n', f"{FILE}:4", "'max'", "twice", "line 2"),
    "a table twice": toml('[hold]\nmax = "1h"\n[hold]\n', f"{FILE}:3", "[hold]", "twice", "line 1"),
    "a table over a value": toml("hold = {}\n[hold]\n", f"{FILE}:2", "[hold]"),
    "a value over a value": toml("a.b.c = 1\na.b = 2\n", f"{FILE}:2", "a.b"),
    "a list of tables": toml('[[hold]]\nmax = "1h"\n', "'hold'", "[[hold]]", "allowed: [hold]"),
    "a bracket is missing": toml('[hold\nmax = "1h"\n', f"{FILE}:1", "bracket", "[hold]"),
    "a list without end": toml("gpu_devices = [0, 1\n", f"{FILE}:1", "'gpu_devices'", "]"),
    "a list without end, and more": toml(
        'gpu_devices = [\n 0,\n\n[hold]\nmax = "1h"\n', f"{FILE}:1", "'gpu_devices'", "]"
    ),
    "a list without commas": toml("gpu_devices = [0 1]\n", f"{FILE}:1", "commas"),
    "a long text without end": toml('[admin]\nhold = """\nabc\n', f"{FILE}:2", '"""'),
    "a colon": toml("mode: live\n", f"{FILE}:1", "colon", 'mode = "live"'),
    "JSON": toml('{"mode": "live"}\n', f"{FILE}:1", "JSON", "TOML"),
    "True": toml("stop_below_load = True\n", f"{FILE}:1", "stop_below_load = true"),
    "yes": toml("stop_below_load = yes\n", f"{FILE}:1", "stop_below_load = true"),
    "bare off": toml("unused_after = off\n", f"{FILE}:1", 'unused_after = "off"'),
    "no value": toml("mode =\n", f"{FILE}:1", "'mode' has no value"),
    "no name": toml('= "5m"\n', f"{FILE}:1", "name"),
    "a lone word": toml("live\n", f"{FILE}:1", "value"),
    "a name of two words": toml('kill duration = "1h"\n', f"{FILE}:1", "kill_duration"),
    "two values": toml('grace = "5m" "6m"\n', f"{FILE}:1", "after the value of 'grace'"),
    "a semicolon": toml('grace = "5m";\n', f"{FILE}:1", "after the value of 'grace'"),
    "a backslash": toml('[host]\nprocfs = "C:\\dir"\n', f"{FILE}:2", "backslash", "'"),
    "a comma in a number": toml("price_per_hour = 3,50\n", f"{FILE}:1", "price_per_hour = 3.50"),
    "a currency": toml("price_per_hour = $3.50\n", f"{FILE}:1", "price_per_hour = 3.50"),
    "a leading zero": toml("grace = 010\n", f"{FILE}:1", "grace = 10"),
    "a leading point": toml("grace = .5\n", f"{FILE}:1", "grace = 0.5"),
    "no such day": toml("[deadline]\nlease = 2027-13-45\n", f"{FILE}:2", "2027-13-45"),
    "a control character": toml('grace = "1\x010m"\n', f"{FILE}:1", "control character"),
    "UTF-16": raw('mode = "live"\n'.encode("utf-16"), "UTF-16", "UTF-8"),
    "UTF-16 without a mark": raw('mode = "live"\n'.encode("utf-16-le"), "zero bytes", "UTF-8"),
    "Latin 1": raw('# x\n[admin]\nhold = "Müller"\n'.encode("latin-1"), f"{FILE}:3", "UTF-8"),
    "a program": raw(b"\x7fELF\x02\x01\x01\0\0", "program", "text file"),
    "gzip": raw(gzip.compress(b'mode = "live"\n'), "gzip", "text file"),
    "zip": raw(zipped(), "zip", "text file"),
    "too large": raw(b"#" * (1 << 20) + b"##", "1 MB"),
    "nested too deeply": raw(b"x = " + b"[" * 5000, FILE),
    "a wrong type": toml("mode = 3\n", "'mode'", "3", "dry-run or live", f"{FILE}:1"),
    "a text for a switch": toml('stop_below_load = "true"\n', "'stop_below_load'", "quotation marks", "true or false"),
    "a list for a duration": toml("grace = []\n", "'grace'", "10m"),
    "nothing": toml('mode = ""\n', "'mode'", "it is empty", "dry-run or live"),
    "80 for a share": toml("kill_threshold = 80\n", "'kill_threshold'", "80%", "0.8"),
    "a value for a table": toml("hold = 5\n", "'hold'", "hold.max", "hold.total"),
    "an unknown key": toml('grce = "5m"\n', "'grce'", "did you mean 'grace'?", f"{FILE}:1"),
    "an unknown table": toml('[hld]\nmax = "1h"\n', "'hld.max'", "did you mean 'hold.max'?", f"{FILE}:2"),
    "a word nearby": toml('kill_action = "stopp"\n', "'kill_action'", "did you mean 'stop'?"),
    "below the least": toml('interval = "20s"\n', "'interval'", "20s", "at most 15s"),
    "a budget without a price": toml("[deadline]\nbudget = 5\n", "'deadline.budget'", "price_per_hour"),
    "no such file": Case(None, ("config", "check", "missing.toml"), ("missing.toml", "no such file", "config init")),
    "a folder": Case(None, ("config", "check", "folder"), ("folder", "this is a folder")),
    "below a file": Case(b"", ("config", "check", f"{FILE}/x"), (f"{FILE}/x",)),
}

VARIABLES = {
    "an unknown variable": variable("COSTGUARD_GRCE", "5m", "did you mean 'grace'?"),
    "an unknown variable of a table": variable("COSTGUARD_HOLD__MX", "5m", "did you mean 'hold.max'?"),
    "a wrong value": variable("COSTGUARD_GRACE", "soon", "'soon'", "10m"),
    "a wrong switch": variable("COSTGUARD_STOP_BELOW_LOAD", "yes", "true or false"),
    "an empty value": variable("COSTGUARD_MODE", "", "it is empty", "dry-run or live"),
    "a table": variable("COSTGUARD_HOLD", "5", "hold.max"),
    "a wrong number": variable("COSTGUARD_NOTIFY__ATTEMPTS", "many", "'many'", "1 to 10"),
    "a wrong list": variable("COSTGUARD_GPU_DEVICES", "[0", "is not a list"),
    "the administrator's": variable("COSTGUARD_ADMIN__HOLD", "x", "configuration file"),
}

TYPED = {
    "a hold of less than nothing": Case(None, ("hold", "-5m"), ("hold`: -5m begins with a minus", "--help")),
    "a verb misspelt": typed("staus", "staus", "did you mean `costguard status`?"),
    "a verb in capitals": typed("STATUS", "did you mean `costguard status`?"),
    "a verb of others": typed("snooze 2h", "did you mean `costguard hold`?"),
    "another tool": typed("gpu_sentinel --arm_duration 5", "did you mean `costguard run --preset gpu-sentinel`?"),
    "another tool, too": typed("gpu_mon -c x", "did you mean `costguard fill --config`?"),
    "a verb that ends machines": typed("kill", "did you mean `costguard stop`?"),
    "an import of nothing": typed("import gpu-mon", "costguard import gpu-mon needs", "FILE"),
    "an import of no file": typed("import gpu-mon none.conf", "none.conf cannot be read"),
    "an import of a folder": typed("import gpu-mon folder", "folder cannot be read"),
    "an import of another tool": typed("import gpumon x", "did you mean `costguard import gpu-mon`?"),
    "an import that replaces nothing": typed("import gpu-mon x --force", "--output"),
    "fill with a file that is none": typed("fill --config no.toml", "no.toml cannot be read"),
    "stress with more memory than there is": typed("stress --memory 150%", "--memory", "150%"),
    "stress with a chunk that is no size": typed("stress --chunk many", "--chunk", "512MiB"),
    "stress with a chunk of nothing": typed("stress --chunk 0", "1MiB to 1TiB"),
    "stress with no load": typed("stress --load 0", "--load", "more than 0%"),
    "fill without a command": typed("fill --gpus 0", "needs a command", "costguard fill -- ./work"),
    "fill with a GPU that is none": typed("fill --gpus , -- x", "--gpus", "names no GPU"),
    "fill with a variable that is none": typed("fill --env x -- x", "--env", "NAME=VALUE"),
    "fill with another list of GPUs": typed("fill --env CUDA_VISIBLE_DEVICES=0 -- x", "--gpus chooses"),
    "fill with a threshold for nothing": typed("fill --threshold 5% -- x", "--by load"),
    "fill with users for nothing": typed("fill --ignore-users ann -- x", "--users 5m"),
    "fill with two kinds of work": typed("fill --config a.conf -- x", "the work comes from the file"),
    "fill with no such file": typed("fill --config no.conf", "no.conf cannot be read"),
    "exec without a command": typed("exec --threshold 5%", "needs a command", "costguard exec -- python"),
    "exec with a window too short": typed("exec --window 1s -- x", "--window", "--interval"),
    "exec with both spellings": typed("exec --threshold 5% -t 5 -- x", "--threshold and -t"),
    "exec with a threshold that is none": typed("exec -t 0 -- x", "greater than 0"),
    "exec with percent that are none": typed("exec -t 150 -- x", "-t", "150"),
    "exec with a bare share": typed("exec --threshold 50 -- x", "--threshold", "50%"),
    "exec with a signal that ends nothing": typed("exec --signal-name SIG_BLOCK -- x", "SIG_BLOCK", "TERM"),
    "exec with a signal that stops": typed("exec --signal STOP -- x", "STOP", "TERM"),
    "exec with another aggregate": typed("exec -a ANY -- x", "ANY", "all, any"),
    "no such verb": typed("frobnicate", "frobnicate", "costguard --help"),
    "a verb of a verb": typed("config chek", "did you mean `costguard config check`?"),
    "an option before the verb": typed("--live run", "--live"),
    "no time to hold": typed("hold", "no duration is given", "costguard hold 2h"),
    "no time, a reason": typed("hold --reason lunch", "no duration is given", "costguard hold 2h"),
    "two ends of a hold": typed("hold 2h --until 18:00", "more than one of", "costguard hold --until 18:00"),
    "a hold and a deadline": typed("hold 2h --past-deadline 2h", "more than one of", "costguard hold --until 18:00"),
    "a deadline moved by no time": typed("hold --past-deadline soon", "soon", "2h"),
    "a time of no day": typed("hold --until 25:00", "25:00", "18:00"),
    "a date that has passed": typed("hold --until 2020-01-01", "has passed", "18:00"),
    "a wrong time": typed("hold 2hh", "2hh", "2h"),
    "no time at all": typed("hold 0", "'0'", "2h"),
    "a negative time": typed("hold -- -5m", "-5m", "2h"),
    "a time in two words": typed("hold 2 h", "costguard hold"),
    "a program to run": typed("run python train.py -t 1", "starts no program", "costguard exec -- python train.py -t 1"),
    "a program after two dashes": typed("run --preset gpu-idle-timeout -- torchrun x", "starts no program", "torchrun"),
    "an option misspelt": typed("run --presett x", "did you mean --preset?"),
    "an option of nobody": typed("run --colour red", "--colour", "costguard run --help"),
    "two modes": typed("run --live --mode dry-run", "--live contradicts --mode"),
    "a preset misspelt": typed("run --preset sentinel", "did you mean 'gpu-sentinel'?"),
    "no equals sign": typed("run --set grace", "'grace' has no '='", "grace=5m"),
    "a wrong setting": typed("run --set grace=soon", "'soon'", "10m"),
    "a wrong mode": typed("run --mode liv", "did you mean 'live'?"),
    "an option without its value": typed("run --preset", "--preset"),
    "an empty state folder": Case(None, ("status", "--state-dir", ""), ("--state-dir", "empty")),
    "a state folder that is a file": Case(b"x", ("status", "--state-dir", FILE), ("--state-dir", FILE, "is a file")),
    "a state folder below a file": Case(b"x", ("run", "--state-dir", f"{FILE}/x"), ("--state-dir", "is a file; allowed: a folder")),
    "a state folder that goes round": Case(None, ("history", "--state-dir", "loop"), ("--state-dir", "loop", "folder")),
    "no date": typed("history --since yesterday", "'yesterday'", "7d"),
    "out of range": typed("status --every 0", "--every", "0.1 to 3600"),
    "no number": typed("status --every often", "'often' is not a number"),
    "no such cloud": typed("permissions awz", "'awz'", "installed"),
    "no such action": typed("permissions aws --action stopp", "'stopp'", "'stop'"),
    "no file to record to": typed("record", "--out"),
    "a dash to record to": typed("record --out -", "--out"),
    "a wrong interval": typed("record --out x --interval soon", "'soon'", "10s"),
    "an interval out of range": typed("record --out x --interval 2h", "2h", "0.1s to 1h"),
    "no such receipt": typed("stop --verify nowhere", "nowhere", "receipt"),
    "half a receipt": typed("stop --verify {", "not a receipt"),
    "an empty receipt": typed("stop --verify {}", "it lacks", "instance"),
    "an option of a verb misspelt": typed("doctor --jsn", "did you mean --json?"),
    "a file that is there": Case(b"mine", ("config", "init", "--path", FILE), (FILE, "left alone")),
    "a folder that is a file": Case(b"mine", ("config", "init", "--path", f"{FILE}/x"), (FILE,)),
    "a preset that is none": typed("config init --path new.toml --preset x", "'x'", "gpu-sentinel"),
}  # fmt: skip

RECORDINGS = {
    "zip": replayed(zipped(), "zip archive", f"unzip -p {FILE} | costguard replay -"),
    "gzip of a program": replayed(gzip.compress(b"\x7fELF\x02\x01\x01\0\0"), "program"),
    "gzip of bytes": replayed(gzip.compress(bytes(range(256))), "binary file"),
    "gzip of gzip": replayed(gzip.compress(gzip.compress(b"x")), "twice", "gzip -dc"),
    "gzip of zip": replayed(gzip.compress(zipped()), "zip archive"),
    "a damaged gzip": replayed(b"\x1f\x8bgarbage", "damaged"),
    "xz": replayed(b"\xfd7zXZ\0\0", "xz -dc"),
    "Parquet that is cut off": replayed(b"PAR1\x15\x04", "as Parquet", "complete"),
    "a program": replayed(b"\x7fELF\x02\x01\x01\0\0", "program"),
    "empty": replayed(b"", "no row"),
    "blank": replayed(b"\n\n\n", "no row"),
    "a header alone": replayed(b"timestamp, index, utilization.gpu [%]\n", "no row"),
    "other columns": replayed(b"a,b,c\n1,2,3\n", ":1", "nvidia-smi"),
    "no date": replayed(b"timestamp, index, utilization.gpu [%]\nx, 0, 5 %\n", ":2", "'x'", "2026/01/31"),
    "a folder": Case(None, ("replay", "folder"), ("folder", "no recording")),
    "no such file": Case(None, ("replay", "missing.csv"), ("no file missing.csv", "costguard record")),
    "no file": Case(None, ("replay",), ("needs FILE", "costguard replay FILE")),
    "no such policy": Case(b"", ("replay", "--policy", "none.toml", FILE), ("'none.toml'", "preset:NAME")),
    "a wrong policy": Case(b"", ("replay", "--policy", "grace=soon", FILE), ("'grace=soon'", "'soon'")),
    "a preset misspelt": Case(
        b"", ("replay", "--policy", "preset:gpu-sentinal", FILE), ("did you mean 'gpu-sentinel'?",)
    ),
}

CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("file", FILES), ("variable", VARIABLES), ("typed", TYPED), ("recording", RECORDINGS))
    for name, case in cases.items()
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("COSTGUARD_")]:
        monkeypatch.delenv(name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_wrong_input(name: str, here: Path) -> None:
    """Exit code 2, an error and mostly a hint, everything that a person needs and nothing else; files stay as they were."""
    case = CASES[name]
    if case.content is not None:
        (here / FILE).write_bytes(case.content)
    done = CliRunner().invoke(main, list(case.typed), env=dict(case.variables))
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    said = done.stderr.replace(f"{here}/", "")
    for words in case.says:
        assert words in said
    for words in JARGON:
        assert words not in said
    assert "secretpath" not in said
    if case.content is not None:
        assert (here / FILE).read_bytes() == case.content
    assert sorted(path.name for path in here.iterdir()) == sorted(
        {"folder", "loop"} | ({FILE} if case.content is not None else set())
    )


def test_a_byte_order_mark_and_foreign_line_ends_are_no_mistake(here: Path) -> None:
    """An editor of another system leaves them; nobody sees them."""
    (here / FILE).write_bytes(b'\xef\xbb\xbfgrace = "5m"\r\n[hold]\r\nmax = "2h"\r\n')
    done = CliRunner().invoke(main, list(CHECK))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "5m later" in done.stdout


@pytest.mark.parametrize("flag", THEIRS)
def test_flags_of_other_tools_get_our_spelling(flag: str, here: Path) -> None:
    """What people typed for years is answered with what to type here, and that is accepted."""
    done = CliRunner().invoke(main, ["run", flag, "stop"])
    assert done.exit_code == 2
    assert f"`costguard run` has no option {flag}" in done.stderr
    hint = done.stderr.splitlines()[-1]
    assert hint.startswith("hint: ")
    if "--set " in hint:
        option = hint.partition("--set ")[2].partition("=")[0]
        assert option in OPTIONS


@pytest.mark.parametrize(
    ("line", "spelling"),
    [
        ("run --idle-timeout 300", "costguard run --set kill_duration=300s"),
        ("run --threshold=5", "costguard run --set kill_threshold=5%"),
        ("run --kill-action terminate", "costguard run --set kill_action=terminate"),
        ("run --kill_action shutdown", "costguard run --preset gpu-sentinel --set kill_action=shutdown"),
        ("run --arm_threshold 0.8", "costguard run --preset gpu-sentinel --set arm_threshold=0.8"),
        ("run --gpu_devices 0,1", "costguard run --preset gpu-sentinel --set gpu_devices=0,1"),
        ("run --all_or_any any", "costguard run --preset gpu-idle-timeout-any --set aggregate=any"),
        ("run -t 1 -s 5", "costguard run --preset gpu-idle-timeout --set kill_threshold=1% --set interval=5s"),
        ("run -t50", "costguard run --preset gpu-idle-timeout --set kill_threshold=50%"),
        ("run -t=50", "costguard run --preset gpu-idle-timeout --set kill_threshold=50%"),
        ("run -n6", "costguard run --preset gpu-idle-timeout --set kill_duration=30s"),
        ("run -xt 50", "costguard run --preset gpu-idle-timeout --set kill_threshold=50%"),
        ("run -xt50 -aany", "costguard run --preset gpu-idle-timeout-any --set kill_threshold=50% --set aggregate=any"),
        ("run -d -1", "costguard run --preset gpu-idle-timeout --set delay=0s"),
        (
            "run --thresh 50 --sample=30",
            "costguard run --preset gpu-idle-timeout --set kill_threshold=50% --set interval=15s --set kill_duration=1800s --set delay=345s",
        ),
        ("run --arm_dur 20", "costguard run --preset gpu-sentinel --set arm_duration=20s"),
        (
            "run --kill_t=0.5 --gpu_d 0 1",
            "costguard run --preset gpu-sentinel --set kill_threshold=0.5 --set gpu_devices=0,1",
        ),
        ("run --gpu 0", "costguard run --set gpu_devices=0"),
        ("run --gpu_devices 0 1", "costguard run --preset gpu-sentinel --set gpu_devices=0,1"),
        ("run --preset none --kill_duration=30", "costguard run --set kill_duration=30s"),
        (
            "run --mode dry-run -n 60 --sample-freq 2",
            "costguard run --preset gpu-idle-timeout --set kill_duration=120s --set interval=2s --set delay=22s",
        ),
        ("run -n=60", "costguard run --preset gpu-idle-timeout --set kill_duration=300s"),
        ("run --grace 5m", "costguard run --set grace=5m"),
        ("run --hold-max 5h", "costguard run --set hold.max=5h"),
        ("run --unused_after 2h", "costguard run --set unused_after=2h"),
        ("run --idle-timeout", "costguard run --set kill_duration=60m"),
        ("status --kill_duration 30", "costguard run --preset gpu-sentinel --set kill_duration=30s"),
        ("config check --threshold 5", "costguard config check --set kill_threshold=5%"),
    ],
)
def test_the_value_is_carried_over(line: str, spelling: str, here: Path) -> None:
    """With the unit that the other tool took for granted; the hint passes as it stands, where a configuration is checked."""
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 2
    assert f"`{spelling}`" in done.stderr
    given = spelling.partition(" --")[2]
    beside = "--set fallback= --set aggregate=all --set actions.command.run=true"
    checked = CliRunner().invoke(main, f"config check --{given} {beside}".split())
    assert checked.exit_code == 0


def test_a_whole_line_of_another_tool_gets_one_answer(here: Path) -> None:
    """Nobody has to type it once for each flag; what a value cannot be here is said."""
    done = CliRunner().invoke(
        main, ["run", "-t", "50", "-s", "30", "-n", "6", "-d", "2", "-a", "any", "-x", "--", "grep", "foo", "-c"]
    )
    wanted = "--set kill_threshold=50% --set interval=15s --set kill_duration=180s --set delay=45s --set aggregate=any"
    assert f"`costguard run --preset gpu-idle-timeout-any {wanted}`" in done.stderr
    assert "an interval of 15s at most" in done.stderr
    assert "15s at most" not in CliRunner().invoke(main, ["run", "-t", "50", "-s", "5"]).stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run -t 50 -x grep foo", "around one command: `costguard exec -t 50 -x grep foo`"),
        ("run -t50 -- grep foo", "around one command: `costguard exec -t50 -- grep foo`"),
        ("run -t 50 -x", ""),
        ("run --arm_duration 20 word", ""),
    ],
)
def test_who_wrote_a_command_behind_the_flags_is_led_to_exec(line: str, told: str, here: Path) -> None:
    """GPU Idle Timeout around a command has the same flags as its watcher."""
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 2
    assert ("around one command" in done.stderr) == bool(told)
    assert told in done.stderr


def test_every_verb_that_is_listed_is_known_to_the_hints() -> None:
    """A verb that exists is never called missing, nor another one meant."""
    for verb in VERBS:
        done = CliRunner().invoke(main, [verb, "--no-such-option"])
        assert f"`costguard {verb}` has no option --no-such-option" in done.stderr
