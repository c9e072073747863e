"""A cloud that somebody else adds: a distribution of its own, for a cloud that can only terminate, and no file of this project that had to change."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from costguard.actions.base import Context
from costguard.actions.cloud import CloudAction
from costguard.cli import permissions
from costguard.cloud.access import HostPaths
from costguard.cloud.api import CloudError, Site, Ticket
from costguard.errors import CostguardError
from costguard.plans import Result
from costguard.testing.contract import CHECKS, Case

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "lambda_cloud"
PROJECT = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME, TARGET = next(iter(PROJECT["entry-points"]["costguard.providers"].items()))
PACKAGE = TARGET.partition(":")[0]
COMMAND = [sys.executable, "-m", "costguard"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installer leaves it: the package, and what its project file says of it."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(SOURCE / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    (about / "entry_points.txt").write_text(f"[costguard.providers]\n{NAME} = {TARGET}\n")
    return folder


@pytest.fixture
def package(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Its stand-in, in this process."""
    monkeypatch.syspath_prepend(str(installed))
    yield importlib.import_module(f"{PACKAGE}.testing")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


class Rented:
    """A machine of that cloud: its files, its key, and the account that it belongs to."""

    def __init__(self, folder: Path, installed: Path, account: Any, key: str) -> None:
        self.folder, self.account = folder, account
        self.key = folder / "key"
        self.key.write_text(f"{key}\n")
        self.key.chmod(0o600)
        trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.2.100\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n"
        (folder / "proc/net").mkdir(parents=True)
        (folder / "proc/net/fib_trie").write_text(trie)
        for number, (vendor, kind) in enumerate(
            (("0x10de", "0x030200"), ("0x10de", "0x030200"), ("0x8086", "0x030000"))
        ):
            device = folder / f"sys/bus/pci/devices/0000:0{number}:00.0"
            device.mkdir(parents=True)
            (device / "vendor").write_text(vendor)
            (device / "class").write_text(kind)
        self.settings = {
            "cloud.provider": NAME,
            "cloud.api_endpoint": account.url,
            f"cloud.{NAME}.api_key_file": str(self.key),
            "kill_action": "terminate",
            "host.procfs": str(folder / "proc"),
            "host.sysfs": str(folder / "sys"),
            "host.stands_for_host": "true",
        }
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        self.environ |= {"PYTHONPATH": str(installed), "NO_COLOR": "1"}

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A verb of costguard on it."""
        sets = [part for name, value in (self.settings | settings).items() for part in ("--set", f"{name}={value}")]
        argv = [*COMMAND, *arguments, "--state-dir", str(self.folder / "state"), *sets]
        return subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=60, check=False)

    def plain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A verb that takes no settings."""
        return subprocess.run(
            [*COMMAND, *arguments], env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )

    def context(self, action: str = "terminate", deadline: float = 5.0, endpoint: str = "", **own: object) -> Context:
        """The job of a worker; ``own`` are further settings of the plug-in."""
        table = {"api_key_file": str(self.key), **own}
        section = {"provider": NAME, "api_endpoint": endpoint or self.account.url, "metadata": "auto", NAME: table}
        host = HostPaths(str(self.folder / "proc"), str(self.folder / "sys"), stands_for_host=True)
        return Context(
            action, "live", "inc-1", "inc-1.1", cloud=section, sink={"url": "https://records.example"}, host=host,
            providers=(f"{NAME}={PACKAGE}",), deadline=deadline,
        )  # fmt: skip


@pytest.fixture
def rented(installed: Path, package: ModuleType, tmp_path: Path) -> Iterator[Rented]:
    with package.running() as account:
        yield Rented(tmp_path, installed, account, package.KEY)


@contextmanager
def records() -> Iterator[tuple[str, list[bytes]]]:
    """A place that keeps every record."""
    kept: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Keep it."""
            kept.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/records", kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(package: ModuleType, tmp_path: Path, check: Callable[[Case], None]) -> None:
    """The public suite, as its author runs it; its machines have no firmware of their own."""
    (tmp_path / "key").write_text(package.KEY)
    check(Case(TARGET, own=(), settings={"api_key_file": str(tmp_path / "key")}))


def test_no_file_of_this_project_names_it() -> None:
    """No core file, no project file, no list of a test: only its own folder, and these tests about it."""
    own = {SOURCE, Path(__file__)}
    folders = [ROOT / name for name in ("costguard", "providers", "tests", "bench")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in {".py", ".toml", ".c"}]
    files += [file for file in (ROOT / "pyproject.toml", ROOT / "Makefile") if file.exists()]
    others = [file for file in files if file not in own and not any(place in file.parents for place in own)]
    assert len(others) > 100
    changed = [str(file) for file in others if PACKAGE in file.read_text(encoding="utf-8", errors="replace")]
    assert changed == []


def test_its_settings_are_options_as_all_others(rented: Rented) -> None:
    """`config show` and the sample have them, with who set them; a slip finds the right name."""
    shown = rented.run("config", "show")
    assert shown.returncode == 0, shown.stderr
    table = shown.stdout.partition(f"[cloud.{NAME}]")[2]
    assert f'api_key_file = "{rented.key}"' in table
    assert "# default" in table.partition("instance =")[2].splitlines()[0]
    file = rented.folder / "sample.toml"
    assert rented.plain("config", "init", "--full", "--path", str(file)).returncode == 0
    sample = file.read_text(encoding="utf-8")
    assert f"[cloud.{NAME}]" in sample
    assert "#api_key_file" in sample
    slips = {f"cloud.{NAME}.api_keyfile": "/x", f"cloud.{NAME}.api_key_file": "sk-live-0123456789"}
    wrong = rented.run("config", "show", **slips)
    assert (wrong.returncode, f"did you mean 'cloud.{NAME}.api_key_file'" in wrong.stderr) == (2, True)
    assert ("an absolute path" in wrong.stderr, "0123456789" in wrong.stderr) == (True, False)


def test_what_its_cloud_cannot_do_is_refused_beforehand(rented: Rented) -> None:
    """With what it can do; also as a fall-back, and the tags that its machines do not have."""
    good = rented.run("config", "check")
    assert good.returncode == 0, good.stderr
    refused = rented.run("config", "check", **{"kill_action": "stop", "fallback": "hibernate", "sink.tag": "true"})
    assert refused.returncode == 2, refused.stdout
    allowed = "allowed: terminate, shutdown, reboot, end_process, end_task, command"
    for option, words in (("kill_action", allowed), ("fallback", allowed), ("sink.tag", "allowed: false")):
        (line,) = [line for line in refused.stderr.splitlines() if f"At '{option}'" in line]
        assert ("Lambda Cloud" in line, words in line) == (True, True)


def test_the_plan_of_what_it_cannot_do_names_what_it_can(rented: Rented) -> None:
    """Where nobody named the cloud beforehand it is the plan that says so; nothing is asked of the API."""
    action = CloudAction("stop")
    made = action.plan(action.facts(rented.context("stop")))
    assert (made.verdict, made.findings[0].code) == ("another", "no_such_action")
    assert "terminate" in made.findings[0].hint
    assert rented.account.log == []


def test_the_rights_are_one_key(package: ModuleType) -> None:
    """There is no policy to print, and no other action."""
    runner = CliRunner()
    shown = runner.invoke(permissions.command, [NAME])
    assert shown.exit_code == 0, shown.output
    assert "API key" in shown.output
    assert "policy" not in shown.output
    for wrong in (["--action", "stop"], ["--policy"], ["--tag"]):
        refused = runner.invoke(permissions.command, [NAME, *wrong])
        assert isinstance(refused.exception, CostguardError), wrong
        assert (refused.exception.exit_code, "allowed: " in str(refused.exception)) == (2, True)


def test_a_key_that_others_can_change_is_refused(rented: Rented) -> None:
    """As a file with a token: whoever writes it decides whose machines are ended."""
    rented.key.chmod(0o666)
    refused = rented.run("run")
    assert refused.returncode == 2
    assert f"At 'cloud.{NAME}.api_key_file'" in refused.stderr


def test_from_the_plan_to_the_proof(rented: Rented) -> None:
    """The installed command: terminated once, with a receipt that proves it to whoever has a key."""
    with records() as (url, kept):
        done = rented.run("stop", "--live", "--yes", "--json", **{"sink.url": url})
    assert done.returncode == 0, done.stderr
    fate = json.loads(done.stdout)
    assert (fate["status"], len(rented.account.effects)) == ("accepted", 1)
    assert any(b"inc" in record or b"terminate" in record for record in kept)
    assert fate["receipt"]["instance"] in fate["proof"]
    receipt = rented.folder / "receipt"
    receipt.write_text(json.dumps(fate["receipt"]))
    rented.account.instances.clear()
    closed = rented.run("stop", "--verify", str(receipt), "--json")
    assert (closed.returncode, json.loads(closed.stdout)["closed"]) == (0, True), closed.stderr
    assert rented.account.effects == ["POST /instance-operations/terminate"]
    for said in (done, closed):
        assert "secret_test" not in said.stdout + said.stderr


TERMINATE = "POST /instance-operations/terminate"


@pytest.mark.parametrize(
    ("faults", "status", "requests"),
    [
        ((), "accepted", 1),
        (((TERMINATE, "throttle"),), "accepted", 2),
        (((TERMINATE, "error"),), "accepted", 2),
        (((TERMINATE, "cut_before"),), "accepted", 2),
        (((TERMINATE, "cut_after"),), "accepted", 1),
        (((TERMINATE, "page"),), "accepted", 2),
        (((TERMINATE, "blocked"),), "accepted", 2),
        (((TERMINATE, "cut_before"), *(("GET", "blocked") for _ in range(9))), "unknown", 1),
        (tuple((TERMINATE, "blocked") for _ in range(99)), "failed", 0),
    ],
    ids=lambda value: "+".join(f"{kind}" for _, kind in value[:2]) if isinstance(value, tuple) else str(value),
)
def test_troubles_on_the_way(rented: Rented, faults: tuple[tuple[str, str], ...], status: str, requests: int) -> None:
    """The sender of all clouds: nothing is sent twice that was heard, and *failed* means that nothing was accepted."""
    action = CloudAction("terminate")
    context = rented.context(deadline=3.0)
    made = action.plan(action.facts(context))
    assert (made.verdict, made.ends_bill, made.keeps_disks, made.price["amount"]) == ("consequences", True, False, 6.38)
    rented.account.faults += faults
    outcome = action.execute(made, context)
    assert outcome.status == status, outcome.detail
    assert not requests or len(rented.account.effects) == requests
    assert ("inc-1" in rented.account.agents[-1]) or status != "accepted"


def planned(rented: Rented, **change: object) -> Any:
    me = next(iter(rented.account.instances.values()))
    me.update(change)
    action = CloudAction("terminate")
    return action.plan(action.facts(rented.context()))


@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        ({"status": "booting"}, "refuse", "not_running"),
        ({"status": "terminating"}, "go", "ends_already"),
        ({"actions": {"terminate": {"available": False, "reason_code": "vm-is-locked"}}}, "refuse", "protected"),
        ({"is_reserved": True}, "refuse", "prepaid"),
        ({"private_ip": "10.0.2.101"}, "refuse", "not_this_machine"),
        ({"instance_type": {"name": "gpu_8x", "specs": {"gpus": 8}}}, "refuse", "not_this_machine"),
    ],
)
def test_what_the_plan_goes_by(rented: Rented, change: dict[str, object], verdict: str, code: str) -> None:
    """The machine itself, its state, and what its owner pays for."""
    made = planned(rented, **change)
    assert (made.verdict, made.findings[0].code) == (verdict, code)
    assert made.may_act or not made.ends_bill


def test_two_machines_of_one_address_need_a_name(rented: Rented, package: ModuleType) -> None:
    """Networks of two regions may use the same addresses: costguard does not guess, and ends no other machine."""
    other = package.instance("f" * 32, region={"name": "us-east-1"})
    rented.account.instances[other["id"]] = other
    assert planned(rented).findings[0].code == "not_this_machine"
    action = CloudAction("terminate")
    context = rented.context(instance=package.ME)
    assert action.execute(action.plan(action.facts(context)), context).status == "accepted"
    assert rented.account.instances[other["id"]]["status"] == "active"


@pytest.mark.parametrize(
    ("status", "expected"), [("terminating", "pending"), ("terminated", "done"), ("", "done"), ("active", "accepted")]
)
def test_what_is_confirmed(rented: Rented, package: ModuleType, status: str, expected: str) -> None:
    """Only what the cloud shows."""
    lamp = importlib.import_module(PACKAGE).PROVIDER
    site = Site(
        {}, {"api_key_file": str(rented.key), "api_endpoint": rented.account.url}, {},
        str(rented.folder / "proc"), str(rented.folder / "sys"),
    )  # fmt: skip
    machine = lamp.open(site, lamp.identify(site))
    if status:
        rented.account.instances[package.ME]["status"] = status
    else:
        rented.account.instances.clear()
    recorded = Result("accepted", "accepted", "r-1")
    found = machine.confirm("terminate", Ticket("i", "a", 5.0), recorded)
    assert (found.status, found.proof) == (expected, "r-1")
    with pytest.raises(CloudError):
        machine.mark({"a": "b"}, 1.0)


@pytest.mark.parametrize("key", ["", "wrong", "two words", None])
def test_a_key_that_is_none_is_told_without_it(rented: Rented, key: str | None) -> None:
    """Missing, empty, wrong: technical trouble of credentials, with what to do."""
    if key is None:
        rented.key.unlink()
    else:
        rented.key.write_text(key)
    action = CloudAction("terminate")
    made = action.plan(action.facts(rented.context()))
    assert (made.verdict, made.findings[0].code) == ("failed", "credentials_missing")
    assert made.findings[0].hint
    assert "wrong" not in made.findings[0].text


def test_a_key_is_never_sent_in_the_clear(rented: Rented) -> None:
    """Beyond loopback only to https."""
    action = CloudAction("terminate")
    made = action.plan(action.facts(rented.context(endpoint="http://lambda.example")))
    assert (made.verdict, "not encrypted" in made.findings[0].text) == ("refuse", True)
