"""Sources, their order, and errors that come all at once."""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from costguard.config import load_effective
from costguard.config.load import ConfigurationError, LoadedConfiguration, load
from costguard.config.options import NAME, OPTIONS
from costguard.config.show import value_of
from costguard.config.toml_text import toml as written_as_toml
from costguard.engine.policy import Policy
from costguard.readers.host.serving import parts

NOWHERE = "/nonexistent/costguard.toml"


def read(
    *assignments: str, file: Path | None = None, system: str = NOWHERE, **arguments: object
) -> LoadedConfiguration:
    environment = arguments.pop("environment", {})
    assert isinstance(environment, dict)
    return load({"set": list(assignments), "config": file and str(file), **arguments}, environment, system)


def problems(*assignments: str, **arguments: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(*assignments, **arguments)  # type: ignore[arg-type]  # passed on as given
    return caught.value.problems


def written(folder: Path, text: str, name: str = "config.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_nothing_written_is_the_engines_own_defaults() -> None:
    """Configuration and engine agree about every default."""
    policy = load_effective({}, {})["policy"]
    assert isinstance(policy, dict)
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in policy.items()} == Policy()._asdict()


def test_effective_names_every_field_of_the_policy() -> None:
    """A field that the configuration forgets would silently keep the engine's default."""
    policy = load_effective({}, {})["policy"]
    assert isinstance(policy, dict)
    assert set(policy) == set(Policy._fields), f"config/schema.py: {sorted(set(policy) ^ set(Policy._fields))}"


def test_later_sources_win(tmp_path: Path) -> None:
    """Preset < file < environment < command line; each value says where it came from."""
    file = written(tmp_path, 'preset = "gpu-sentinel"\nkill_duration = "40s"\ngrace = 1\nboot_grace = 2\n')
    environment = {"COSTGUARD_GRACE": "3s", "COSTGUARD_BOOT_GRACE": "4", "HOME": "/x"}
    loaded = read("boot_grace=5s", file=file, environment=environment)
    settings, sources = loaded.settings, {path: value.source for path, value in loaded.written.items()}
    assert (settings.interval, sources["interval"]) == (1, "preset gpu-sentinel")
    assert (settings.kill_duration, sources["kill_duration"]) == (40, f"{file}:2")
    assert (settings.grace, sources["grace"]) == (3, "environment COSTGUARD_GRACE")
    assert (settings.boot_grace, sources["boot_grace"]) == (5, "command line --set boot_grace")
    assert "window_share" not in sources


def test_tables_from_every_source(tmp_path: Path) -> None:
    """A table's key is written with a dot, or with two underscores in the environment."""
    file = written(tmp_path, '[actions.command]\nrun = "logger bye"\n')
    environment = {"COSTGUARD_DEADLINE__LIFETIME": "2d", "COSTGUARD_NOTIFY__CHANNELS": "wall"}
    loaded = read("hold.max=1h", "gpu_devices=0,1", file=file, environment=environment)
    settings = loaded.settings
    assert settings.actions.command.run == ("logger", "bye")
    assert loaded.written["actions.command.run"].source == f"{file}:2"
    assert settings.deadline.lifetime == 2 * 86400
    assert settings.notify.local == ("wall",)
    assert settings.hold.max == 3600
    assert settings.gpu_devices == ("0", "1")


def test_named_options_win_over_set() -> None:
    """--mode and --preset count more than --set of the same key."""
    loaded = read("mode=live", "preset=gpu-sentinel", mode="dry-run", preset="none")
    assert (loaded.settings.mode, loaded.settings.preset, loaded.settings.interval) == ("dry-run", "none", 10)


def test_every_problem_at_once(tmp_path: Path) -> None:
    """Wrong values, unknown names and broken rules of all sources come in one answer, each with its path."""
    file = written(
        tmp_path, 'interval = "20s"\nkill_threshold = 80\nkil_duration = 1\n[deadline]\nlease = 2027-01-01\n'
    )
    found = problems(
        "kill_action=command", "mode=lve", file=file, environment={"COSTGUARD_GRACE": "x", "COSTGUARD_NO_SUCH": "1"}
    )
    named = [problem.split("'")[1] for problem in found]
    assert sorted(named) == sorted(
        [
            "interval",
            "kill_threshold",
            "kil_duration",
            "deadline.lease",
            "actions.command.run",
            "mode",
            "grace",
            "no_such",
        ]
    )
    assert all("allowed: " in problem for problem in found if "no such option" not in problem)
    assert any(problem.endswith(f"({file}:2)") for problem in found)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("kill_treshold=5%", "did you mean 'kill_threshold'?"),
        ("lifetime=3d", "did you mean 'deadline.lifetime'?"),
        ("deadline.lese=off", "did you mean 'deadline.lease'?"),
        ("notify.channels.team.mode=live", "did you mean the top-level 'mode'? It stands above the first [table]"),
        ("deadline.interval=5s", "did you mean the top-level 'interval'?"),
        ("urls=file:/x", "did you mean 'notify.channels.NAME.urls'?"),
        ("notify.channels.urls=file:/x", "did you mean 'notify.channels.NAME.urls'?"),
        ("mode=liv", "(did you mean 'live'?)"),
        ("preset=3", "3' is not a preset; allowed: none, gpu-sentinel"),
        ("preset=gpu-sentinal", "(did you mean 'gpu-sentinel'?)"),
        ("kill_action=halt", "allowed: stop, terminate, hibernate (cloud)"),
        ("deadline=3", "this is a table"),
        ("grace", "has no '='"),
        ("stop_below_load=1", "is not true or false"),
        ("notify.attempts=many", "is not a whole number"),
        ("notify.attempts=0", "a whole number from 1 to 10"),
        ("gpu_devices=0,0", "named twice"),
        ("gpu_devices=first", "is not a GPU"),
        ("price_per_hour=free", "is not an amount"),
        ("host.procfs=proc", "is not an absolute path"),
        ("actions.command.run=./end-this-task", "the program './end-this-task' has no absolute path"),
        ("hooks.pre_stop=bin/save", "the program 'bin/save' has no absolute path"),
        ("hooks.undo=~/back", "the program '~/back' has no absolute path"),
        ("interval=0", "more than 0s and at most 15s"),
        ("interval=16s", "more than 0s and at most 15s"),
        ("arm_threshold=100%", "below 100%"),
        ("kill_threshold=0", "more than 0%"),
        ("unknown_stop_after=3h", "at least 4h"),
        ("actions.shutdown.delay=5m", "at most 4m"),
        ("actions.reboot.delay=5m", "at most 4m"),
        ("kill_duration=0", "allowed: "),
        ("currency=dollar", "three capital letters"),
    ],
)
def test_one_problem_in_words(assignment: str, words: str) -> None:
    """Each error names the option, what is wrong and what is allowed."""
    (found,) = problems(assignment)
    assert words in found


WRONG = ("", "slack://a/b/c", "file:team.urls", ["file:/x.urls"], True, -1, {"a": 1}, 1e300, [[1]], "banana", "a\0b")
TABLES = sorted({path.rpartition(".")[0] for path in OPTIONS})


def toml(table: str, values: Mapping[str, object]) -> str:
    """A file with this one table, whose name people may have chosen."""
    lines = [f"{path.rpartition('.')[2]} = {value}" for path, value in values.items()]
    return "\n".join(([f"[{table.replace(NAME, 'team')}]"] if table else []) + lines) + "\n"


@pytest.mark.parametrize("table", TABLES)
def test_whatever_is_wrong_in_a_table_is_a_problem_and_never_a_crash(tmp_path: Path, table: str) -> None:
    """Each key wrong, alone, beside each other one right, and beside all of them: tables that must have a key, too."""
    keys = [path for path in OPTIONS if path.rpartition(".")[0] == table]
    right = {path: written_as_toml(OPTIONS[path].example) for path in keys}
    for key in keys:
        others = [other for other in keys if other != key]
        pairs = product(WRONG[:1], [[other] for other in others])
        for value, names in [*product(WRONG, ([], others)), *pairs]:
            file = written(
                tmp_path, toml(table, {key: written_as_toml(value), **{name: right[name] for name in names}})
            )
            with suppress(ConfigurationError):
                read(file=file)


@pytest.mark.parametrize("urls", ["slack://a/b/c", "file:team.urls", ["file:/etc/team.urls"], ""])
@pytest.mark.parametrize("beside", ['level = "warning"', 'kinds = ["warning"]'])
def test_a_channel_without_a_good_address_is_one_problem(tmp_path: Path, urls: object, beside: str) -> None:
    """The likeliest mistake of all: told with its path and what is allowed, whatever else the channel says."""
    text = f"[notify.channels.team]\nurls = {written_as_toml(urls)}\n{beside}\n"
    (found,) = problems(file=written(tmp_path, text))
    assert found.startswith("At 'notify.channels.team.urls': ")
    assert "; allowed: " in found


@pytest.mark.parametrize("off", ["senses.enabled", "senses.terminals.enabled", "senses.traffic.enabled"])
def test_a_stop_for_unknown_needs_senses_that_see_the_host(off: str) -> None:
    """Without them it could never be known that nobody is there, so it would never act."""
    assert read("unknown_stop_after=12h").settings.unknown_stop_after == 12 * 3600.0
    (found,) = problems("unknown_stop_after=12h", f"{off}=false")
    assert "it would never act" in found


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that was asked for must exist and be TOML; the default file may be missing."""
    (missing,) = problems(file=tmp_path / "no.toml")
    assert "there is no such file" in missing
    (broken,) = problems(file=written(tmp_path, "interval = \n"))
    assert "has no value; write interval" in broken
    assert read().source == ""


def test_file_types_are_strict(tmp_path: Path) -> None:
    """In a file a text is not true or false, and an empty unknown table is still unknown."""
    found = problems(file=written(tmp_path, 'stop_below_load = "true"\n[nonsense]\n'))
    assert [problem.split("'")[1] for problem in found] == ["nonsense", "stop_below_load"]


def test_a_preset_that_is_no_word_is_one_problem(tmp_path: Path) -> None:
    """Told by one check, and not by the next one again."""
    assert len(problems(file=written(tmp_path, "preset = 3\n"))) == 1


def test_administrators_floors_win(tmp_path: Path) -> None:
    """The system file's [admin] counts besides --config, wins over it, and the error says who set it."""
    system = written(tmp_path, 'grace = 1\n[admin]\nminimum_grace = "5m"\nhold_max = "1h"\n', "system.toml")
    own = written(tmp_path, 'grace = "1m"\nhold.max = "1d"\n[admin]\nminimum_grace = "off"\n', "own.toml")
    found = problems(file=own, system=str(system))
    assert len(found) == 2
    assert f"administrator's minimum (admin.minimum_grace, {system}:3); allowed: at least 5m" in found[0]
    assert f"({own}:1)" in found[0]
    assert "At 'hold.max': 1d is above the administrator's maximum" in found[1]
    assert read("grace=5m", "hold.max=1h", file=own, system=str(system)).settings.grace == 300


@pytest.mark.parametrize(
    ("bound", "path", "value"),
    [
        ('hold_max = "1h"', "hold.max", 3600.0), ('past_deadline = "10m"', "hold.past_deadline", 600.0),
        ('minimum_grace = "3h"', "grace", 10800.0), ('minimum_kill_duration = "5h"', "kill_duration", 18000.0),
        ('minimum_boot_grace = "4h"', "boot_grace", 14400.0),
    ],
)  # fmt: skip
def test_an_administrators_bound_takes_the_place_of_a_default(
    tmp_path: Path, bound: str, path: str, value: float
) -> None:
    """Nobody wrote what is beyond it, so nobody has anything to correct; `config show` says where the value comes from."""
    system = written(tmp_path, f"[admin]\n{bound}\n", "system.toml")
    loaded = read(system=str(system))
    assert value_of(loaded.settings, path) == value
    assert loaded.written[path].source == f"admin.{bound.split(maxsplit=1)[0]} ({system}:2)"
    generous = written(tmp_path, '[admin]\nhold_max = "30d"\nminimum_grace = "1s"\n', "generous.toml")
    assert {name for name in read(system=str(generous)).written if not name.startswith("admin.")} == set()


def test_administrators_section_is_for_files() -> None:
    """Neither environment nor command line can set what users must not weaken."""
    found = problems("admin.hold=x", environment={"COSTGUARD_ADMIN__MINIMUM_GRACE": "1s"})
    assert len(found) == 2
    assert all("only a configuration file may set it" in problem for problem in found)


def test_variables_of_tests_and_of_the_command_are_no_options() -> None:
    """What costguard itself exports to a command must not break a `costguard` inside it."""
    environment = {"COSTGUARD_STANDIN_NVML": "/x", "COSTGUARD_INCIDENT": "i", "COSTGUARD_IDLE_SECONDS": "3"}
    assert read(environment=environment).settings.mode == "dry-run"


def test_reload_arguments_do_not_depend_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative --config means the same file when the guard reads it again from another folder."""
    file = written(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    assert load({"config": "config.toml"}, {}, NOWHERE).arguments["config"] == str(file)


def test_a_value_out_of_range_is_told_as_it_was_written() -> None:
    """Whoever wrote 0s finds 0s in the words, not 0.0."""
    (problem,) = problems("interval=0s")
    assert "0s is out of range" in problem or "'0s' is out of range" in problem


@pytest.mark.parametrize(
    ("written_there", "path", "word"),
    [
        ('actions.command.run = ["", "x"]', "actions.command.run", "is empty"),
        ('actions.command.run = [" "]', "actions.command.run", "is empty"),
        ("actions.command.run = \"'' x\"", "actions.command.run", "is empty"),
        ('hooks.pre_stop = ["", "x"]', "hooks.pre_stop", "is empty"),
        ('actions.command.run = ["/bin/true", "a\\u0000b"]', "actions.command.run", "a zero byte"),
        ('admin.hold = "a\\u0000b"', "admin.hold", "a zero byte"),
        ('preset = "gpu-sentinel\\u0000"', "preset", "a zero byte"),
        ('sink.token_file = "/etc/\\u0000"', "sink.token_file", "a zero byte"),
        ("gpu_devices = []", "gpu_devices", "an empty list names no GPU"),
        ('sink.syslog = "[::1]:0"', "sink.syslog", "is not a valid server"),
        ('sink.syslog = "log.example.org:70000"', "sink.syslog", "is not a valid server"),
        ('sink.syslog = "::1:601"', "sink.syslog", "is not a valid server"),
        ('sink.syslog = ":601"', "sink.syslog", "is not a valid server"),
        ('sink.syslog = "[]:601"', "sink.syslog", "is not a valid server"),
        ('sink.url = "https://example.org:0/"', "sink.url", "is not a valid URL"),
        ('sink.url = "https://example.org:70000/"', "sink.url", "is not a valid URL"),
        ('heartbeat.url = "http://[::1/"', "heartbeat.url", "is not a valid URL"),
    ],
)
def test_what_could_never_work_is_refused_with_what_is_allowed(
    tmp_path: Path, written_there: str, path: str, word: str
) -> None:
    """Each at its path, in one line, before anything starts with it; also where an agent would follow it."""
    file = written(tmp_path, written_there + "\n")
    (problem,) = problems(file=file, run_by=os.getuid())
    assert problem.startswith(f"At '{path}': ")
    assert word in problem
    assert "allowed: " in problem
    assert problem.isprintable()


@pytest.mark.parametrize(
    "server", ["log.example.org:601", "192.0.2.1:1", "[2001:db8::1]:65535", "[fe80::1%eth0]:601", ""]
)
def test_servers_that_may_be_named(server: str) -> None:
    """A name or an address, and a port."""
    assert read(f"sink.syslog={server}").settings.sink.syslog == server


def test_a_configuration_that_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """Nobody may ever write to a named pipe, and a device has no end; /dev/null is an empty file."""
    pipe = tmp_path / "config.toml"
    os.mkfifo(pipe)
    for file, what in ((pipe, "a pipe"), (Path("/dev/zero"), "a device")):
        (problem,) = problems(file=file)
        assert problem == f"At '{file}': it is {what}; allowed: a file, because the agent reads it again"
    assert read(file=Path("/dev/null")).written == {}


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8000/metrics", "http://10.0.0.7:8000/metrics", "http://example.org/", "127.0.0.1:8000", "http://127.0.0.1:x/",
        "http://user:canary@127.0.0.1:8000/", "http://127.0.0.1:0/", "http://127.0.0.1/a\tb", "http://169.254.169.254/latest?canary",
    ],
)  # fmt: skip
def test_pages_of_servers_are_on_this_machine(url: str) -> None:
    """Others are refused at start, without what may be a secret."""
    (problem,) = problems(f'senses.serving.urls=["{url}"]')
    assert "senses.serving.urls" in problem
    assert "canary" not in problem


def test_pages_that_the_reader_asks_are_taken() -> None:
    """By name, by number, of both families; what is taken here is taken there."""
    urls = ("http://localhost:8000/metrics", "http://127.0.0.1:9000", "http://[::1]:7/m?x=1")
    given = ",".join(f'"{url}"' for url in urls)
    senses = read(f"senses.serving.urls=[{given}]").settings.senses
    assert senses.serving.urls == urls  # type: ignore[attr-defined]  # a model that is made at run time
    assert [parts(url)[1] for url in urls] == [8000, 9000, 7]
