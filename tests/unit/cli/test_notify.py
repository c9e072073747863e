"""`costguard notify test`: a real message to a real receiver, and a record that `doctor` believes only for these settings."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from costguard.cli.main import main
from costguard.cli.notify import Arrival
from costguard.notify import tested
from costguard.notify.terminal import NONE_OWN
from costguard.notify.wall import NOBODY


class Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Takes every message but those to /closed."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404 if self.path.startswith("/closed") else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


@pytest.fixture
def at() -> Iterator[str]:
    """Where a service listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"json://127.0.0.1:{server.server_port}"
        server.shutdown()


def configuration(folder: Path, **urls: str) -> Path:
    """A file with these channels and none on the machine."""
    text = "[notify]\nlocal = []\n"
    for name, url in urls.items():
        path = folder / f"{name}.urls"
        path.write_text(url)
        path.chmod(0o600)
        text += f'[notify.channels.{name}]\nurls = "file:{path}"\n'
    (folder / "config.toml").write_text(text)
    return folder / "config.toml"


def ask(folder: Path, config: Path, *more: str) -> Result:
    typed = ["notify", "test", "--config", str(config), "--state-dir", str(folder / "state"), *more]
    return CliRunner().invoke(main, typed)


def test_each_channel_is_named_with_what_came_of_it(tmp_path: Path, at: str) -> None:
    """One fails: exit code 1, and no address is printed."""
    config = configuration(tmp_path, team=f"{at}/open/s3cret", pager=f"{at}/closed/s3cret")
    done = ask(tmp_path, config)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "ok      team   JSON",
        "FAILED  pager  JSON: HTTP 404 from 127.0.0.1: there is no such address (create a new address there and replace this one)",
    ]
    assert "s3cret" not in done.output


def test_who_tests_a_channel_is_asked_to_look(tmp_path: Path, at: str) -> None:
    """Some services take everything and show it to nobody; where none took the message there is nothing to look for."""
    look = "Look whether the message is there: ok says that the service took it"
    assert look in ask(tmp_path, configuration(tmp_path, team=f"{at}/open")).stderr
    assert look not in ask(tmp_path, configuration(tmp_path, team=f"{at}/closed")).stderr


FULL = """
mount -t tmpfs -o size=64k,mode=700 none "$1/state" || exit 99
shift
"$@" || exit 98
before=$(cat "$STATE/channels-tested.json")
dd if=/dev/zero of="$STATE/filler" bs=4k status=none 2>/dev/null
"$@"
code=$?
[ "$before" = "$(cat "$STATE/channels-tested.json")" ] || exit 97
ls "$STATE"
exit $code
"""


def test_on_a_full_disk_the_test_is_made_and_said_not_to_be_kept(tmp_path: Path, at: str) -> None:
    """The message arrives all the same, the record of the test before stays whole, and nothing half written is left."""
    config, state = configuration(tmp_path, team=f"{at}/open"), tmp_path / "state"
    state.mkdir()
    typed = [sys.executable, "-m", "costguard", "notify", "test", "--config", str(config), "--state-dir", str(state)]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL, "sh", str(tmp_path), *typed],
        capture_output=True, text=True, check=False, env={**os.environ, "STATE": str(state)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.splitlines()[:3] == ["ok      team  JSON"] * 2 + ["channels-tested.json"]
    assert "channels-tested.json.new" not in done.stdout
    assert (
        f"The result could not be saved in {state}, so doctor will not know of this test. Is the disk full"
        in done.stderr
    )


def test_a_test_counts_for_the_settings_that_it_had(tmp_path: Path, at: str) -> None:
    """What arrived and what did not are both kept; another address makes it untested, another channel stays."""
    config = configuration(tmp_path, team=f"{at}/open", pager=f"{at}/closed")
    assert ask(tmp_path, config).exit_code == 1
    state, settings = str(tmp_path / "state"), {"urls": f"file:{tmp_path}/team.urls", "level": "info", "kinds": []}
    arrived = tested.last(state, "team", settings)
    assert arrived is not None
    assert arrived.ok
    failed = tested.last(state, "pager", {**settings, "urls": f"file:{tmp_path}/pager.urls"})
    assert failed is not None
    assert not failed.ok
    assert tested.last(state, "team", {**settings, "urls": "env:OTHER"}) is None
    assert ask(tmp_path, config, "--channel", "team").exit_code == 0
    assert tested.last(state, "pager", {**settings, "urls": f"file:{tmp_path}/pager.urls"}) is not None


def test_no_address_can_be_read_or_guessed_from_the_record(tmp_path: Path, at: str) -> None:
    """It is its owner's alone, holds no address, and each test has a salt of its own."""
    config = configuration(tmp_path, team=f"{at}/s3cret", twin=f"{at}/s3cret")
    record = tmp_path / "state" / tested.FILE
    record.parent.mkdir()
    record.with_name(f"{tested.FILE}.new").touch(0o644)  # a test that was killed left it
    assert ask(tmp_path, config).exit_code == 0
    assert record.stat().st_mode & 0o777 == 0o600
    text = record.read_text()
    assert "s3cret" not in text
    found = json.loads(text)
    assert found["team"]["salt"] != found["twin"]["salt"]
    assert found["team"]["addresses"] != found["twin"]["addresses"]
    fast = {hashlib.new(kind, f"{at}/s3cret".encode()).hexdigest() for kind in ("md5", "sha1", "sha256", "sha512")}
    assert not any(digest[:16] in text for digest in fast), "a fast digest of the address alone can be guessed"


def test_a_channel_that_is_not_there(tmp_path: Path) -> None:
    """Exit code 2, with those that are."""
    done = ask(tmp_path, configuration(tmp_path, team="json://h"), "--channel", "tema")
    assert done.exit_code == 2
    assert "there is no channel 'tema'; configured: team" in done.stderr


def test_no_channel_at_all(tmp_path: Path) -> None:
    """Nothing was sent, so nothing is ok."""
    done = ask(tmp_path, configuration(tmp_path))
    assert done.exit_code == 2
    assert "no channel is configured" in done.stderr


def test_a_record_that_is_broken_proves_nothing(tmp_path: Path) -> None:
    """Nor does one of another kind; a new test writes it anew."""
    for text in (
        "",
        "[]",
        '{"team": 7}',
        '{"team": {"settings": "x"}}',
        json.dumps({"team": {"at": "now", "settings": tested.digest({})}}),
    ):
        (tmp_path / tested.FILE).write_text(text)
        assert tested.last(str(tmp_path), "team", {}) is None
    assert tested.keep(str(tmp_path), {"team": {}}, {"team": True}, 5.0)
    assert tested.last(str(tmp_path), "team", {}) == tested.LastTest(5.0, ok=True, settings=tested.digest({}))
    assert tested.last(str(tmp_path), "team", {"level": "info"}) is None


@pytest.mark.parametrize(("failed", "mark"), [(NONE_OWN, "nobody"), (NOBODY, "nobody"), ("it blocks", "FAILED")])
def test_a_channel_of_this_machine_that_finds_nobody_has_not_failed(failed: str, mark: str) -> None:
    """A script has no terminal; one that blocks is another matter."""
    assert Arrival("terminal", arrived=False, failed=failed).mark == mark


def test_that_nobody_is_at_a_terminal_is_no_fault_of_a_channel(tmp_path: Path, at: str) -> None:
    """Where another one took it, as in a script that asks a fleet; alone it told nobody."""
    config = configuration(tmp_path, team=f"{at}/open")
    for name in ("dev", "proc"):
        (tmp_path / name).mkdir()
    places = f'\n[host]\ndevfs = "{tmp_path}/dev"\nprocfs = "{tmp_path}/proc"\n'
    config.write_text(config.read_text().replace("local = []", 'local = ["terminal", "wall"]') + places)
    done = ask(tmp_path, config)
    assert done.exit_code == 0, done.output
    terminal, wall, team = done.stdout.splitlines()
    assert terminal.startswith("nobody  terminal  costguard has no terminal of its own")
    assert wall.startswith("nobody  wall      nobody is logged in")
    assert team == "ok      team      JSON"
    for name in ("terminal", "wall"):
        assert ask(tmp_path, config, "--channel", name).exit_code == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="another user must be somebody else")
def test_an_ordinary_user_is_told_why_and_what_to_do(at: str) -> None:
    """Of each channel what is so: the file of one is closed, another is his own; a closed one was not tested."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        folder.chmod(0o755)
        config = configuration(folder, team=f"{at}/open", own=f"{at}/open")
        os.chown(folder / "own.urls", 65534, 65534)
        (folder / "state").mkdir()
        os.chown(folder / "state", 65534, 65534)
        os.seteuid(65534)
        try:
            done = ask(folder, config)
            record = json.loads((folder / "state" / tested.FILE).read_text())
        finally:
            os.seteuid(0)
    finally:
        shutil.rmtree(folder)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == (
        "FAILED  team  only root or the agent's user may read the file with its addresses: `sudo costguard notify test`"
    )
    assert done.stdout.splitlines()[1].startswith(("ok      own", "FAILED  own"))
    assert set(record) == {"own"}


def test_a_worker_that_says_nothing_is_named_as_the_cause(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before it can answer; each channel says so, with the next step."""
    config = configuration(tmp_path, team=f"{at}/open", pager=f"{at}/open")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    done = ask(tmp_path, config)
    assert done.exit_code == 1
    why = "the worker ended without an answer, so it is unknown whether anything was sent: `sudo costguard notify test`"
    assert done.stdout.splitlines() == [f"FAILED  team   {why}", f"FAILED  pager  {why}"]
