"""That a channel has no address is known at the start, and not when the first warning finds nobody."""

import os
from pathlib import Path
from typing import Any

import pytest

from costguard.config.addresses import lacks, missing
from costguard.config.job import ConfigureJob
from costguard.config.worker import configure


def effective(**urls: str) -> dict[str, Any]:
    """A configuration with these channels."""
    return {"notify": {"channels": {name: {"urls": url} for name, url in urls.items()}}}


@pytest.fixture
def team(tmp_path: Path) -> Path:
    file = tmp_path / "team.urls"
    file.write_text("json://team.example.org/\n")
    file.chmod(0o600)
    return file


def test_where_everything_is_there_nothing_is_said(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in the cloud is asked when it counts."""
    monkeypatch.setenv("TEAM", "json://x")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(team.parent))
    team.parent.joinpath("pager").write_text("json://x")
    found = effective(team=f"file:{team}", env="env:TEAM", pager="credential:pager", store="secret:x")
    assert missing(found) is None
    assert missing(effective()) is None


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("file:/nowhere/team.urls", "/nowhere/team.urls: No such file or directory"),
        ("file:{folder}", "is not a file"),
        ("file:{folder}/empty", "is empty"),
        ("file:{folder}/none", "contains no address"),
        ("file:{folder}/token", "contains no address such as SERVICE://"),
        ("env:BLANK", "BLANK contains no address"),
        ("file:{folder}/open", "other users can read or change"),
        ("env:NOBODY_SETS_THIS", "the environment variable NOBODY_SETS_THIS is not set"),
        ("credential:pager", "systemd gave no credential pager"),
    ],
)
def test_what_is_missing_is_named(team: Path, reference: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it means, and what to do; one of two channels is not all."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.setenv("BLANK", "# none\n")
    for name, text in (("none", "# none\n\n"), ("token", "xoxb-c4n4ry\n")):
        team.parent.joinpath(name).write_text(text)
        team.parent.joinpath(name).chmod(0o600)
    team.parent.joinpath("empty").touch(0o600)
    team.parent.joinpath("open").write_text("json://x")
    team.parent.joinpath("open").chmod(0o644)
    broken = reference.format(folder=team.parent)
    alone, beside = missing(effective(pager=broken)), missing(effective(pager=broken, team=f"file:{team}"))
    assert alone is not None
    assert alone.startswith("nobody outside this machine gets messages: pager: ")
    assert words in alone
    assert "c4n4ry" not in alone
    assert alone.endswith("`sudo systemctl restart costguard`")
    assert beside is not None
    assert beside.startswith("not every channel gets messages: pager: ")


def test_a_reload_says_so_too(tmp_path: Path) -> None:
    """And it is over with the reload after the file was written."""
    urls = tmp_path / "team.urls"
    own = tmp_path / "costguard.toml"
    own.write_text(f'[notify.channels.team]\nurls = "file:{urls}"\n')
    job = ConfigureJob({"config": str(own), "state_dir": str(tmp_path / "state")}, {})
    before = configure(job)
    assert before.effective is not None, before.error
    assert str(urls) in str(before.effective["unaddressed"])
    urls.write_text("json://x\n")
    urls.chmod(0o600)
    after = configure(job)
    assert after.effective is not None
    assert after.effective["unaddressed"] is None


@pytest.mark.parametrize(
    ("reference", "certain"),
    [("file:/nowhere/team.urls", True), ("env:NOBODY_SETS_THIS", False), ("credential:pager", False)],
)
def test_what_only_the_agent_can_know_is_not_certain(
    reference: str, certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable and a credential are the service's own; a file that is not there is there for nobody."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    (lack,) = lacks({"team": {"urls": reference}})
    assert lack.certain is certain


@pytest.mark.skipif(os.geteuid() != 0, reason="another user must be somebody else")
def test_a_closed_folder_proves_nothing(tmp_path: Path) -> None:
    """Who may not look cannot say that nothing is there."""
    (tmp_path / "closed").mkdir(0o700)
    os.seteuid(65534)
    try:
        (lack,) = lacks({"team": {"urls": f"file:{tmp_path}/closed/team.urls"}})
    finally:
        os.seteuid(0)
    assert lack.certain is False
