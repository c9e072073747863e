"""A configuration that somebody else could change is refused, with the command that mends it."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.config.load import ConfigurationError, load
from costguard.config.ownership import executed

NOWHERE = "/nonexistent/costguard.toml"


def problems(config: Path | None, folder: Path, *assignments: str, **environment: str) -> list[str]:
    """What is said of it, by whoever would run it."""
    arguments = {
        "config": str(config) if config else None,
        "state_dir": str(folder / "state"),
        "set": list(assignments),
    }
    try:
        load(arguments, environment, NOWHERE, run_by=os.geteuid())
    except ConfigurationError as error:
        return error.problems
    return []


def written(path: Path, mode: int, text: str = "") -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room in the 256 bytes that the kernel reads of a script."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_a_configuration_that_others_can_write(tmp_path: Path) -> None:
    """Refused by its own mode; mended, it passes."""
    file = written(tmp_path / "config.toml", 0o646, 'grace = "15m"\n')
    (problem,) = problems(file, tmp_path)
    assert f"any user can write {file}" in problem
    assert f"chmod go-w {file}" in problem
    file.chmod(0o644)
    assert problems(file, tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_users_agent_is_judged_by_its_own_folders(tmp_path: Path) -> None:
    """Whoever asks of root's agent has a home, variables and settings of libraries of his own, which that never sees."""
    tmp_path.chmod(0o777)
    mine = {
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "AWS_CONFIG_FILE": str(written(tmp_path / "aws", 0o666)),
    }
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(1)
        try:
            said = load({}, mine, NOWHERE, run_by=0).paths.state
        except ConfigurationError as error:
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == "/var/lib/costguard"


def test_a_folder_of_drop_ins_that_is_another_users_is_told_once_and_given_back(tmp_path: Path) -> None:
    """A copy of one of its files elsewhere would never be read."""
    folder = tmp_path / "config.d"
    folder.mkdir()
    for number in range(4):
        written(folder / f"{number}.toml", 0o644)
    os.chown(folder, 1, 1)
    (problem,) = problems(written(tmp_path / "config.toml", 0o644), tmp_path)
    assert problem.endswith(f"to fix it: sudo chown root:root {folder}")


def test_a_folder_that_any_user_can_write_is_told_once(tmp_path: Path) -> None:
    """However many files of the configuration lie in it."""
    folder = tmp_path / "etc"
    folder.mkdir()
    folder.chmod(0o777)
    names = [written(folder / name, 0o644) for name in ("config.toml", "a.urls", "b.urls", "token")]
    channels = [f"notify.channels.{name.stem}.urls=file:{name}" for name in names[1:3]]
    (problem,) = problems(names[0], tmp_path, *channels, f"sink.token_file={names[3]}", "sink.url=https://e.org/x")
    assert problem.endswith(f"chmod go-w {folder}")


def test_the_administrators_file_counts_too(tmp_path: Path) -> None:
    """It is read beside the one that --config names."""
    system = written(tmp_path / "system.toml", 0o666)
    with pytest.raises(ConfigurationError, match="can write") as caught:
        load({}, {}, str(system), run_by=os.geteuid())
    assert str(system) in caught.value.problems[0]


def test_nothing_is_asked_of_who_only_reads(tmp_path: Path) -> None:
    """`config show` and `replay` run nothing."""
    file = written(tmp_path / "config.toml", 0o666)
    assert load({"config": str(file)}, {}, NOWHERE).source == str(file)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("actions.command.run", "{file}"),
        ("actions.command.run", '["/bin/sh", "{file}", "now"]'),
        ("actions.command.run", '["/usr/bin/env", "python3", "{file}"]'),
        ("actions.command.run", '["timeout", "5", "{program}"]'),
        ("actions.command.run", '["/bin/sh", "-c", "cd / && {program} --now"]'),
        ("actions.command.run", '["/bin/bash", "-ec", "python3 \'{file}\'"]'),
        ("hooks.pre_stop", '["nice", "/bin/sh", "{file}"]'),
        ("senses.probe.run", '["/bin/sh", "{file}"]'),
        ("sink.token_file", "{file}"),
        ("heartbeat.token_file", "{file}"),
    ],
)
def test_what_the_agent_runs_or_reads_is_nobody_elses(tmp_path: Path, option: str, value: str) -> None:
    """The program, the script of an interpreter, a program that another one starts, a secret."""
    program = written(tmp_path / "program", 0o777)
    file = written(tmp_path / "file", 0o666 if "token" in option or value != "{file}" else 0o777)
    given = f"{option}={value.format(file=file, program=program)}"
    (problem,) = problems(None, tmp_path, given)
    assert problem.startswith(f"At '{option}'")
    assert "any user can write" in problem
    for path in (program, file):
        path.chmod(path.stat().st_mode & 0o755)
    assert problems(None, tmp_path, given) == []


@pytest.mark.parametrize(
    "argv",
    [
        ["cp", "{file}", "/mnt/"],
        ["/bin/sh", "-c", "cp {file} /mnt/"],
        ["sudo", "-u", "ann", "/bin/sh", "{file}"],
        ["runuser", "-u", "ann", "--", "{file}"],
    ],
)
def test_data_and_what_runs_as_somebody_else_are_not_the_agents(tmp_path: Path, argv: list[str]) -> None:
    """A hook that saves a user's files names them; a script that runs as its owner may be his."""
    file = str(written(tmp_path / "file", 0o644))
    assert file not in executed([word.format(file=file) for word in argv], os.environ)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="what root runs is looked at more closely; the suite runs as root and as a user"
)
def test_root_follows_no_settings_of_libraries_that_others_can_write(tmp_path: Path) -> None:
    """Such files may name a program that hands out credentials; and the state of the agent is the agent's."""
    file = written(tmp_path / "credentials", 0o666)
    assert (
        "At 'environment SOME_SHARED_CREDENTIALS_FILE'"
        in problems(None, tmp_path, SOME_SHARED_CREDENTIALS_FILE=str(file))[0]
    )
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    assert "At '--state-dir'" in problems(None, tmp_path)[0]


@pytest.mark.parametrize(
    "first",
    [
        "#!{runner}",
        "#! {runner} -u",
        "#!/usr/bin/env runner",
        "#!/usr/bin/env -S -i A=b runner -u",
        "#!{script}",  # an interpreter that is a script itself
    ],
)
def test_the_interpreter_of_a_script_is_nobody_elses(short: Path, first: str) -> None:
    """The first line of a script names what really runs: a script of root's in another user's shell is that user's."""
    runner = written(short / "runner", 0o777)
    script = written(short / "script", 0o755, f"#!{runner}\n")
    file = written(short / "file", 0o755, first.format(runner=runner, script=script) + "\nrelease the node\n")
    search = f"{short}:/usr/bin:/bin"
    (problem,) = problems(None, short, f"actions.command.run={file}", PATH=search)
    assert problem.startswith("At 'actions.command.run': ")
    assert f"any user can write {runner}" in problem
    runner.chmod(0o755)
    assert problems(None, short, f"actions.command.run={file}", PATH=search) == []


def test_what_env_finds_is_nobody_elses(tmp_path: Path) -> None:
    """Also where the command itself begins with env."""
    runner = written(tmp_path / "runner", 0o777)
    (problem,) = problems(None, tmp_path, "actions.command.run=/usr/bin/env A=b runner", PATH=f"{tmp_path}:/usr/bin")
    assert f"any user can write {runner}" in problem


@pytest.mark.parametrize(
    "first",
    [b"", b"#!", b"#!\xff\xfe", b"#!/nowhere/at/all", b"\x7fELF", b"#!/usr/bin/env", b"#!/usr/bin/env nobody-has-this"],
)
def test_a_first_line_that_names_nothing_leads_nowhere(tmp_path: Path, first: bytes) -> None:
    """Whatever stands there, the check ends and the file itself was looked at."""
    file = tmp_path / "file"
    file.write_bytes(first + b"\n")
    file.chmod(0o755)
    assert problems(None, tmp_path, f"actions.command.run={file}") == []
    assert str(file) in executed([str(file)], os.environ)


def test_a_script_that_interprets_itself_ends(short: Path) -> None:
    """A circle of interpreters is followed no further than the kernel follows it."""
    file = written(short / "file", 0o755, f"#!{short}/file\n")
    assert executed([str(file)], os.environ) == [str(file)]


def test_an_interpreter_whose_name_is_too_long_is_none(short: Path) -> None:
    """The kernel reads 256 bytes of a script: half a name leads nowhere, and nothing beside it is judged."""
    file = written(short / "file", 0o755, f"#!{short}/" + "x" * 300 + "\n")
    assert executed([str(file)], os.environ) == [str(file)]
    file.write_text(f"#!{short}/runner" + " " * 300 + "\n")
    assert executed([str(file)], os.environ) == [str(file), f"{short}/runner"]
