"""Files of the folder config.d, over the main file."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from costguard.config.job import ConfigureJob
from costguard.config.load import ConfigurationError, LoadedConfiguration, load
from costguard.config.show import as_json, as_toml, origin
from costguard.config.worker import configure

NOWHERE = "/nonexistent/costguard.toml"


@pytest.fixture
def main_file(tmp_path: Path) -> Path:
    (tmp_path / "config.d").mkdir(mode=0o755)
    return put(tmp_path / "config.toml", 'grace = "11m"\ngpu_devices = [0, 1]\n[hold]\nmax = "8h"\ntotal = "16h"\n')


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def drop_in(main: Path, name: str, text: str) -> Path:
    return put(main.parent / "config.d" / name, text)


def read(main: Path, *, run_by: int | None = None) -> LoadedConfiguration:
    return load({"config": str(main)}, {}, NOWHERE, run_by=run_by)


def problems(main: Path, *, run_by: int | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(main, run_by=run_by)
    return caught.value.problems


def test_the_last_name_wins_key_by_key(main_file: Path) -> None:
    """Tables are merged, lists and single values replaced; each value names its file and line."""
    team = drop_in(main_file, "50-team.toml", 'gpu_devices = [2]\n[hold]\nmax = "4h"\n')
    base = drop_in(main_file, "10-base.toml", 'interval = "5s"\n[hold]\nmax = "2h"\nper_user = "6h"\n')
    machine = drop_in(main_file, "90-machine.toml", "\nprice_per_hour = 4\n")
    loaded = read(main_file)
    settings = loaded.settings
    assert (settings.grace, settings.interval, settings.price_per_hour, settings.gpu_devices) == (660, 5, 4, ("2",))
    assert (settings.hold.max, settings.hold.per_user, settings.hold.total) == (4 * 3600, 6 * 3600, 16 * 3600)
    sources = {path: value.source for path, value in loaded.written.items()}
    assert sources == {
        "grace": f"{main_file}:1", "gpu_devices": f"{team}:1", "hold.max": f"{team}:3", "hold.total": f"{main_file}:5",
        "interval": f"{base}:1", "hold.per_user": f"{base}:4", "price_per_hour": f"{machine}:2",
    }  # fmt: skip
    assert loaded.files == (str(main_file), str(base), str(team), str(machine))


def test_whatever_sets_a_value_is_shown(main_file: Path) -> None:
    """`config show`, in both forms, and the words of `config check`."""
    one = drop_in(main_file, "one.toml", 'currency = "EUR"\n')
    assert origin(read(main_file)) == f"{main_file} and {one}"
    two = drop_in(main_file, "two.toml", "")
    loaded = read(main_file)
    assert origin(loaded) == f"{main_file} and 2 files of {one.parent}"
    assert f'currency = "EUR"                          # {one}:1\n' in as_toml(loaded)
    assert f"# over it: {one}\n# over it: {two}\n" in as_toml(loaded)
    assert as_json(loaded)["files"] == [str(main_file), str(one), str(two)]
    said = CliRunner().invoke(main, ["config", "check", str(main_file)], env={"COSTGUARD_MODE": None})
    assert said.stdout.startswith(f"OK: {main_file} and 2 files of {one.parent}\n"), said.output


def test_they_count_without_a_main_file(tmp_path: Path) -> None:
    """An image may bring its rules in them alone."""
    folder = tmp_path / "etc" / "config.d"
    folder.mkdir(parents=True)
    file = put(folder / "image.toml", 'grace = "20m"\n[admin]\nminimum_grace = "15m"\n')
    system = str(tmp_path / "etc" / "config.toml")
    loaded = load({}, {}, system)
    assert (loaded.settings.grace, loaded.source, loaded.files) == (1200, "", (str(file),))
    assert origin(loaded) == str(file)


def test_the_administrators_table_in_them_counts_beside_a_file_of_ones_own(tmp_path: Path, main_file: Path) -> None:
    """As that of the main file does, and nothing else of them."""
    folder = tmp_path / "etc" / "config.d"
    folder.mkdir(parents=True)
    floor = put(folder / "floors.toml", 'interval = "3s"\n[admin]\nminimum_grace = "15m"\n')
    with pytest.raises(ConfigurationError) as caught:
        load({"config": str(main_file)}, {}, str(tmp_path / "etc" / "config.toml"))
    (problem,) = caught.value.problems
    assert f"(admin.minimum_grace, {floor}:3)" in problem
    assert f"({main_file}:1)" in problem


@pytest.mark.parametrize(
    "name", ["README", "old.toml.bak", "x.toml~", ".hidden.toml", ".#x.toml", "x.TOML.disabled", "x.toml.rpmnew"]
)
def test_other_files_of_the_folder_are_not_read(main_file: Path, name: str) -> None:
    """What editors and package managers leave there."""
    drop_in(main_file, name, "this is no configuration")
    assert read(main_file).files == (str(main_file),)


def test_every_problem_of_every_file_at_once(main_file: Path) -> None:
    """The same strict rules, with file and line; a broken file does not hide the others."""
    broken = drop_in(main_file, "10.toml", "\ngrace = 5m\n")
    unknown = drop_in(main_file, "20.toml", '[hold]\nmaxx = "1h"\n')
    wrong = drop_in(main_file, "30.toml", '\n\ninterval = "1h"\n')
    found = sorted(problems(main_file))
    assert len(found) == 3
    assert found[0].startswith(f"At '{broken}:2': a word, a time or a share needs quotation marks")
    assert "did you mean 'hold.max'?" in found[1]
    assert found[1].endswith(f"({unknown}:2)")
    assert found[2].endswith(f"({wrong}:3)")


def test_a_value_that_a_later_file_mends_is_no_problem(main_file: Path) -> None:
    """Only what counts is judged; and a rule between two options names who set the one that breaks it."""
    drop_in(main_file, "10.toml", 'interval = "1h"\n')
    drop_in(main_file, "20.toml", 'interval = "5s"\n')
    assert read(main_file).settings.interval == 5
    last = drop_in(main_file, "30.toml", '[hold]\nmax = "20h"\n')
    (problem,) = problems(main_file)
    assert "At 'hold.total': 16h is less than one hold may last" in problem
    assert f"({main_file}:5)" in problem
    last.unlink()
    assert read(main_file).settings.hold.max == 8 * 3600


def test_what_is_no_file_there_is_told(main_file: Path) -> None:
    """A folder, a pipe, a link to nothing, a name that would break a line: never left out in silence."""
    folder = main_file.parent / "config.d"
    (folder / "a.toml").mkdir()
    (folder / "b.toml").symlink_to("/nonexistent/b.toml")
    os.mkfifo(folder / "c.toml")
    put(folder / "d\n.toml", "")
    found = sorted(problems(main_file))
    assert [problem.split("'")[1] for problem in found] == [str(folder), *(str(folder / f"{n}.toml") for n in "abc")]
    assert "cannot be printed" in found[0]
    assert "this is a folder" in found[1]
    assert "this is a link to a file that is not there" in found[2]
    assert "it is a pipe" in found[3]


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    """It might hold what somebody believes in force."""
    main_file = put(tmp_path / "config.toml", "")
    put(tmp_path / "config.d", 'grace = "1h"\n')
    assert "this is a file; allowed: a folder" in problems(main_file)[0]


@pytest.mark.parametrize("place", ["config.d", "config.d/x.toml"])
def test_what_others_can_write_is_refused_as_the_main_file_is(main_file: Path, place: str) -> None:
    """One of the files, and the folder, into which they could put one; whoever only reads is not asked."""
    drop_in(main_file, "x.toml", "")
    assert read(main_file, run_by=os.geteuid()).files
    weak = main_file.parent / place
    weak.chmod(weak.stat().st_mode | 0o002)
    for problem in problems(main_file, run_by=os.geteuid()):
        assert f"any user can write {weak}" in problem
        assert f"chmod go-w {weak}" in problem
    assert read(main_file).files


def test_a_reload_sees_new_changed_and_removed_files(main_file: Path) -> None:
    """The agent has the configuration read again as it was asked for at its start."""
    job = ConfigureJob({"config": str(main_file)}, {})

    def grace() -> object:
        answer = configure(job)
        assert answer.effective is not None, answer.error
        policy = answer.effective["policy"]
        assert isinstance(policy, dict)
        return policy["grace"]

    assert grace() == 660
    file = drop_in(main_file, "x.toml", 'grace = "12m"\n')
    assert grace() == 720
    put(file, 'grace = "13m"\n')
    assert grace() == 780
    file.unlink()
    assert grace() == 660
    drop_in(main_file, "y.toml", "grace = nonsense\n")
    assert f"{main_file.parent / 'config.d' / 'y.toml'}:1" in configure(job).error


def test_json_of_check_names_every_file(main_file: Path) -> None:
    """For programs."""
    file = drop_in(main_file, "x.toml", 'mode = "dry-run"\n')
    said = CliRunner().invoke(main, ["config", "check", str(main_file), "--json"])
    assert json.loads(said.stdout)["files"] == [str(main_file), str(file)]


@pytest.mark.parametrize("name", ["team.TOML", "team.Toml"])
def test_a_file_whose_ending_is_in_capitals_is_not_passed_over_in_silence(tmp_path: Path, name: str) -> None:
    """Its rules would not hold, and nobody would know; what an editor leaves beside a file is no mistake."""
    (tmp_path / "config.toml").touch()
    (tmp_path / "config.d").mkdir()
    for beside in ("team.toml~", "team.toml.bak", name):
        (tmp_path / "config.d" / beside).write_text('mode = "live"\n')
    with pytest.raises(ConfigurationError) as caught:
        load({"config": str(tmp_path / "config.toml")}, {}, "/nonexistent/costguard.toml")
    (problem,) = caught.value.problems
    assert f"the name of '{name}' does not end in .toml, so it would not be read" in problem


@pytest.mark.parametrize("denied", [True, False])
def test_a_file_that_this_user_may_not_read_is_told_from_one_with_mistakes(main_file: Path, *, denied: bool) -> None:
    """What doctor says of it differs: the one root can judge, the other is to be corrected."""
    written = drop_in(main_file, "50-own.toml", 'grace = "soon"\n')
    user = os.geteuid()
    if denied:
        written.chmod(0)
        os.seteuid(user or 65534)
    try:
        with pytest.raises(ConfigurationError) as caught:
            read(main_file)
    finally:
        os.seteuid(user)
    assert caught.value.denied is denied
