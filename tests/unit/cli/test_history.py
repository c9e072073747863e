"""``costguard history``: from when on, and for whom."""

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import costguard
from costguard.cli.history import nearest
from costguard.cli.main import main
from costguard.history import query, store
from costguard.host import lock
from costguard.host.address import address
from costguard.host.control import SOCKET
from tests.unit.history.conftest import batch


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("tomorrow", "'tomorrow' is neither a duration nor a date"),
        ("-3d", "'-3d' is neither a duration nor a date"),
        ("", "'' is neither a duration nor a date"),
        ("2199-01-01", "2199-01-01 is in the future"),
        ("7", "7 has no unit: write 7h or 7m"),
    ],
)
def test_since_says_what_it_takes(folder: Path, since: str, words: str) -> None:
    """With an example, and never a date that is still to come."""
    store.save(batch(folder / "history.sqlite"))
    done = CliRunner().invoke(main, ["history", f"--since={since}", "--state-dir", str(folder)])
    assert done.exit_code == 2
    assert f"--since: {words}; allowed: a duration such as 7d or 12h, or a past date" in done.stderr
    assert "2026-11-21" in done.stderr


@pytest.mark.parametrize("since", ["7d", "1h30m", "2020-11-21", "2020-11-21T15:00", "2020-11-21T15:00+01:00", "0s"])
def test_since_takes_what_it_says(folder: Path, since: str) -> None:
    """A length of time, a date, a date with a time of day."""
    store.save(batch(folder / "history.sqlite"))
    done = CliRunner().invoke(main, ["history", "--since", since, "--state-dir", str(folder), "--json"])
    assert done.exit_code == 0, done.output


def test_an_ordinary_user_reads_the_machines_history_or_hears_what_to_run(folder: Path) -> None:
    """The file of root's agent is found where this user has none, also in a folder that is closed to others."""
    machines, own, user = folder / "machines", folder / "own" / "history.sqlite", os.geteuid()
    file = machines / "history.sqlite"
    store.save(batch(file))
    assert nearest(str(own), str(file)) == str(file)
    assert nearest(str(own), str(folder / "none")) == str(own)
    machines.chmod(0)
    os.seteuid(user or 65534)
    try:
        assert nearest(str(own), str(file)) == str(file)
        with (
            pytest.raises(query.HistoryError, match="permission denied for its folder") as caught,
            query.reading(str(file)),
        ):
            pass
    finally:
        os.seteuid(user)
        machines.chmod(0o755)
    assert "sudo" in (caught.value.hint or "")


def test_the_shipped_unit_keeps_the_history_where_everybody_can_read_it() -> None:
    """As docs/history.md says; what is not for everybody has a mode of its own."""
    unit = (Path(costguard.__file__).parent / "data" / "costguard.service").read_text().splitlines()
    assert "StateDirectoryMode=0755" in unit
    assert "UMask=0022" in unit


def test_what_a_running_agent_holds_is_written_before_it_is_read(tmp_path: Path) -> None:
    """The agent is asked until nothing is under way, and only then the file is opened."""
    lock.acquire(str(tmp_path), str(tmp_path), private=False, runtime=str(tmp_path))
    asked: list[str] = []

    def agent(server: socket.socket) -> None:
        for answer in ({"pending": True}, {"pending": False}):
            connection, _ = server.accept()
            with connection:
                asked.append(json.loads(connection.recv(4096))["command"])
                if not answer["pending"]:
                    store.save(batch(tmp_path / "history.sqlite"))
                connection.sendall(json.dumps(answer).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as server:
        with address(str(tmp_path / SOCKET)) as name:
            server.bind(name)
        server.listen(4)
        thread = threading.Thread(target=agent, args=(server,))
        thread.start()
        done = CliRunner().invoke(main, ["history", "--state-dir", str(tmp_path), "--price", "1", "--json"])
        thread.join()
    assert done.exit_code == 0, done.output
    assert asked == ["flush", "flush"]
