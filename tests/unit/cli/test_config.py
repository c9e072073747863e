"""``costguard config``."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from costguard.cli.main import main
from costguard.config.sample import sample


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("COSTGUARD_"):
            monkeypatch.delenv(name)


def config(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


def test_init_check_show(tmp_path: Path) -> None:
    """The three verbs of a first set-up, one after the other; folders are made, the file is for all to read."""
    file = tmp_path / "new" / "config.toml"
    old = os.umask(0o077)
    try:
        assert config("init", "--path", str(file)).exit_code == 0
    finally:
        os.umask(old)
    assert file.stat().st_mode & 0o777 == 0o644
    checked = config("check", str(file))
    assert checked.exit_code == 0
    assert checked.stdout.startswith(f"OK: {file}\n\nDry run: nothing is stopped")
    shown = config("show", "--config", str(file))
    assert f"# {file}:" in shown.stdout


def test_init_is_short_unless_everything_is_asked_for(tmp_path: Path) -> None:
    """The same file that `install` writes, or every option."""
    assert config("init", "--path", str(tmp_path / "short.toml")).exit_code == 0
    assert config("init", "--path", str(tmp_path / "full.toml"), "--full").exit_code == 0
    short, full = ((tmp_path / name).read_text() for name in ("short.toml", "full.toml"))
    (tmp_path / "image/usr").mkdir(parents=True)
    assert CliRunner().invoke(main, ["install", "--root", str(tmp_path / "image")]).exit_code == 0
    assert short == (tmp_path / "image/etc/costguard/config.toml").read_text()
    assert full == sample()


def test_init_never_overwrites(tmp_path: Path) -> None:
    """An existing file stays as it is, whatever it holds."""
    file = tmp_path / "config.toml"
    file.write_text("mine")
    result = config("init", "--path", str(file))
    assert (result.exit_code, file.read_text()) == (2, "mine")
    assert "was left alone" in result.stderr
    assert "hint: " in result.stderr


def test_init_with_a_preset(tmp_path: Path) -> None:
    """The file names the preset; an unknown one is refused before anything is written."""
    file = tmp_path / "config.toml"
    assert config("init", "--path", str(file), "--preset", "nope").exit_code == 2
    assert not file.exists()
    assert config("init", "--path", str(file), "--preset", "gpu-sentinel").exit_code == 0
    options = json.loads(config("show", "--config", str(file), "--json").stdout)["options"]
    assert options["kill_threshold"] == {"value": 0.7, "source": "preset gpu-sentinel"}


def test_check_reports_everything_and_exits_2(tmp_path: Path) -> None:
    """All problems at once, for people and for programs."""
    file = tmp_path / "config.toml"
    file.write_text('interval = "x"\nnope = 1\n')
    result = config("check", str(file))
    assert result.exit_code == 2
    assert "At 'interval'" in result.stderr
    assert "At 'nope'" in result.stderr
    assert "config check" not in result.stderr, "it is no advice to do what was just done"
    result = config("check", str(file), "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert (answer["ok"], len(answer["errors"])) == (False, 2)


def test_check_as_run_would() -> None:
    """The same options as `run`: --live is checked as live."""
    assert config("check", "--set", "kill_duration=1m").exit_code == 0
    assert config("check", "--set", "kill_duration=1m", "--live").exit_code == 2
    assert config("check", "--live", "--mode", "dry-run").exit_code == 2


def test_show_json() -> None:
    """Programs get plain numbers, and the folders of the agent."""
    answer = json.loads(config("show", "--json", "--set", "grace=5m", "--state-dir", "/x/y").stdout)
    assert answer["options"]["grace"] == {"value": 300.0, "source": "command line --set grace"}
    assert answer["paths"]["state"] == "/x/y"


def test_check_tells_of_a_lease_that_has_passed(tmp_path: Path) -> None:
    """No error, for an agent must start with it; and no surprise."""
    file = tmp_path / "config.toml"
    file.write_text('[deadline]\nlease = "2020-01-01T12:00:00Z"\n')
    result = config("check", str(file))
    assert result.exit_code == 0
    assert "Note: deadline.lease (2020-01-01" in result.stdout
    file.write_text('[deadline]\nlease = "2120-01-01T12:00:00Z"\n')
    assert "has passed" not in config("check", str(file)).stdout


@pytest.mark.parametrize(
    ("local", "urls", "head", "who", "line"),
    [
        ([], "file:/nonexistent/x", "Valid, with warnings: ", "nobody is warned", "Warning: team: /nonexistent/x: "),
        (["wall"], "file:/nonexistent/x", "Valid, with warnings: ", "only whoever is at a terminal of this machine is warned", "Warning: "),
        ([], "env:NOPE_NOT_SET", "OK: ", "people are warned over the channels whose addresses the agent has (none can be seen here)", "Note: team: the environment variable NOPE_NOT_SET is not set here"),
        ([], "secret:team", "OK: ", "people are warned over team, if it answers (`costguard notify test`)", ""),
        ([], "# none", "Valid, with warnings: ", "nobody is warned", "contains no address; without its address nothing can be sent"),
        ([], "slakc://a/b", "Valid, with warnings: ", "nobody is warned", "Warning: team: slakc://: apprise has no such service (see "),
        (["wall"], "slack://c4n4ry", "Valid, with warnings: ", "only whoever is at a terminal of this machine is warned", "Slack: its address is incomplete or misspelled"),
        ([], "json://x/c4n4ry", "OK: ", "people are warned over team, if it answers (`costguard notify test`)", ""),
    ],
)  # fmt: skip
def test_check_promises_no_warning_that_cannot_arrive(
    tmp_path: Path, local: list[str], urls: str, head: str, who: str, line: str
) -> None:
    """The file is valid, so the exit code is 0; who would be warned is said as far as it is known here."""
    file, addresses = tmp_path / "config.toml", tmp_path / "team.urls"
    if not urls.startswith(("file:", "env:", "secret:")):
        addresses.write_text(urls)
        addresses.chmod(0o600)
        urls = f"file:{addresses}"
    text = f"mode = 'live'\n[notify]\nlocal = {local}\n[notify.channels.team]\nurls = '{urls}'\n"
    file.write_text(text + ("[cloud]\nprovider = 'aws'\n" if urls.startswith("secret") else ""))
    checked = config("check", str(file))
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith(head)
    assert f": {who}, and 10m later" in checked.stdout
    assert ("people are warned over" in checked.stdout) is who.startswith("people are warned over")
    assert "c4n4ry" not in checked.output
    assert line in checked.stdout
    assert ("\nWarning: " in checked.stdout or "\nNote: team" in checked.stdout) is bool(line)


def test_check_needs_one_channel_with_an_address(tmp_path: Path) -> None:
    """One of two is enough for people to be warned; the other is named all the same. Without channels terminals are meant."""
    file, urls = tmp_path / "config.toml", tmp_path / "team.urls"
    urls.write_text("json://x\n")
    urls.chmod(0o600)
    file.write_text(
        f"[notify.channels.team]\nurls = 'file:{urls}'\n[notify.channels.pager]\nurls = 'file:/nonexistent/x'\n"
    )
    said = config("check", str(file)).stdout
    assert ": people are warned over team, if it answers (`costguard notify test`), and" in said
    assert "Warning: pager: /nonexistent/x: " in said
    file.write_text("")
    assert ": whoever is at a terminal of this machine is warned, and" in config("check", str(file)).stdout


@pytest.mark.parametrize(
    ("channel", "why"),
    [('level = "critical"', "pager has level critical"), ('kinds = ["summary"]', "pager has kinds without it")],
)
@pytest.mark.parametrize(
    ("local", "who"), [("[]", "nobody is"), ('["wall"]', "only whoever is at a terminal of this machine is")]
)
def test_check_names_channels_that_get_no_warnings(
    tmp_path: Path, channel: str, why: str, local: str, who: str
) -> None:
    """A pager for what goes wrong warns nobody, whether its address is a good one or not."""
    file, urls = tmp_path / "config.toml", tmp_path / "urls"
    urls.write_text("json://x\n")
    urls.chmod(0o600)
    file.write_text(
        f'mode = "live"\nkill_action = "shutdown"\n[notify]\nlocal_only = true\nlocal = {local}\n'
        f'[notify.channels.pager]\nurls = "file:{urls}"\n{channel}\n'
    )
    checked = config("check", str(file))
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith("Valid, with warnings: ")
    assert f": {who} warned, and" in checked.stdout
    assert f"Warning: no channel gets the warning of a stop: {why}. It needs level" in checked.stdout


def test_check_names_the_address_that_is_wrong_among_others(tmp_path: Path) -> None:
    """The others still warn people."""
    file, urls = tmp_path / "config.toml", tmp_path / "urls"
    urls.write_text("json://x\nslakc://a/b\n")
    urls.chmod(0o600)
    file.write_text(f'[notify.channels.team]\nurls = "file:{urls}"\n')
    said = config("check", str(file)).stdout
    assert "people are warned over team, if it answers" in said
    assert "Warning: team: address 2: slakc://: apprise has no such service (see " in said
    assert "; nothing can be sent there." in said
