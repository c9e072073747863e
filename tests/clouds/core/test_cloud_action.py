"""Cloud actions through the worker, with the plug-in of somebody else and its cloud on loopback."""

import json
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.clouds.core.conftest import NO_PAUSE, Answers, Rented, codes
from tests.contract.cloud_server import Cloud


def test_it_stops_this_machine_and_gives_a_receipt(rented: Rented, cloud: Cloud) -> None:
    """Identified, planned, accepted under the attempt's own name, and all of that stands in the receipt."""
    answers = rented.ask("act")
    assert (answers["plan"]["verdict"], codes(answers), answers["ready"]) == ("go", ["bill_ends"], True)
    assert answers["outcome"]["status"] == "accepted"
    assert answers["outcome"]["proof"] == "r-b-a1"
    receipt = answers["outcome"]["receipt"]
    assert receipt.pop("accepted").endswith("Z")
    assert receipt == {
        "project": "p1", "provider": "example", "cloud": "Example Cloud", "instance": "m-42", "region": "north",
        "zone": "north-1", "type": "gpu.large", "action": "stop", "incident": "b-i1", "attempt": "b-a1", "request": "r-b-a1",
    }  # fmt: skip
    assert cloud.asked == ["POST /machines/m-42/stop?attempt=b-a1"]
    assert json.loads((rented.root / "results/b-a1.json").read_text())["receipt"]["request"] == "r-b-a1"


CURIOUS = """
from costguard.plans import Result
from costguard_example import Example, ExampleMachine

class Machine(ExampleMachine):
    def execute(self, verb, facts, ticket):
        return Result("failed", f"{ticket.deadline:g} s")

class Curious(Example):
    def open(self, site, identity):
        machine = super().open(site, identity)
        machine.__class__ = Machine
        return machine

PROVIDER = Curious()
"""


DATED = CURIOUS.replace('"failed", f"{ticket.deadline:g} s"', '"accepted", "yes", "r-1", {"accepted": DATE}')


@pytest.mark.parametrize(
    ("said", "stands"),
    [("2031-01-31T19:00:00.25+01:00", "2031-01-31T18:00:00Z"), ("yesterday", "20"), ("", "20")],
    ids=["the cloud's", "no date", "none"],
)
def test_a_receipt_has_the_date_of_the_cloud(rented: Rented, tmp_path: Path, said: str, stands: str) -> None:
    """It is compared with other dates of the cloud; this machine's clock may be wrong."""
    (tmp_path / "curious.py").write_text(DATED.replace("DATE}", f"{said!r}}}"), encoding="utf-8")
    rented.providers = ["example=curious"]
    receipt = rented.ask("act", before=f"import sys; sys.path.insert(0, {str(tmp_path)!r}); ")["outcome"]["receipt"]
    assert (receipt["request"], receipt["accepted"].startswith(stands)) == ("r-1", True)


@pytest.mark.parametrize(
    ("reason", "given", "seconds"), [("idle", 60, 15), ("deadline", 60, 15), ("person", 60, 60), ("idle", 4, 4)]
)
def test_readings_are_good_for_a_short_while(
    rented: Rented, tmp_path: Path, reason: str, given: int, seconds: int
) -> None:
    """A plug-in repeats a request no longer than the last look at the GPUs is worth; a person's wish rests on none."""
    (tmp_path / "curious.py").write_text(CURIOUS, encoding="utf-8")
    rented.providers = ["example=curious"]
    reach = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    answers = rented.ask("act", before=reach, reason=reason, deadline=given)
    assert answers["outcome"]["detail"] == f"{seconds} s"


SLOW = """
import time
from costguard.plans import Result
from costguard_example import Example, ExampleMachine

real, later = time.monotonic, [0.0]
time.monotonic = lambda: real() + later[0]

class Machine(ExampleMachine):
    def facts(self, verb):
        if SECONDS > 100.0:
            raise AssertionError("a question needs neither the rights nor the time for these")
        return super().facts(verb)

    def confirm(self, verb, ticket, recorded):
        return Result("pending", f"{ticket.deadline:.0f} s")

class Slow(Example):
    def open(self, site, identity):
        later[0] += SECONDS
        machine = super().open(site, identity)
        machine.__class__ = Machine
        return machine

PROVIDER = Slow()
"""


def test_a_library_that_loads_slowly_leaves_the_facts_their_time(rented: Rented, tmp_path: Path) -> None:
    """On a busy machine it takes a minute. A cloud that is never heard can refuse nothing: a shutdown would follow all the same."""
    (tmp_path / "slow.py").write_text(SLOW.replace("SECONDS", "60.0"), encoding="utf-8")
    rented.providers = ["example=slow"]
    answers = rented.ask("plan", before=f"import sys; sys.path.insert(0, {str(tmp_path)!r}); ", deadline=45)
    assert (answers["plan"]["verdict"], codes(answers)) == ("go", ["bill_ends"])


def test_a_question_ends_within_its_time(rented: Rented, tmp_path: Path) -> None:
    """A library that loads for longer leaves the question less: else the guard ends a worker that was about to say something."""
    (tmp_path / "slow.py").write_text(SLOW.replace("SECONDS", "120.0"), encoding="utf-8")
    rented.providers = ["example=slow"]
    answers = rented.ask("confirm", before=f"import sys; sys.path.insert(0, {str(tmp_path)!r}); ", deadline=100)
    assert answers["outcome"]["detail"] == "70 s"


def test_the_plan_names_the_machine_before_anything_is_sent(rented: Rented, cloud: Cloud) -> None:
    """The message that announces the act carries it: a machine that dies then leaves evidence."""
    answers = rented.ask("plan")
    assert answers["plan"]["receipt"]["instance"] == "m-42"
    assert "request" not in answers["plan"]["receipt"]
    assert cloud.asked == []


def test_a_second_worker_never_sends_a_second_request(rented: Rented, cloud: Cloud) -> None:
    """One attempt acts once, whoever was killed in between."""
    rented.ask("act")
    assert rented.ask("act")["outcome"]["status"] == "unknown"
    assert len(cloud.asked) == 1


def test_a_dry_run_asks_and_sends_nothing(rented: Rented, cloud: Cloud) -> None:
    """The plan is real, the request is not."""
    answers = rented.ask("act", mode="dry-run")
    assert (answers["plan"]["verdict"], answers["outcome"]["status"]) == ("go", "refused")
    assert cloud.asked == []


def test_without_go_nothing_is_sent(rented: Rented, cloud: Cloud) -> None:
    """A guard that dies takes its waiting worker with it."""
    worker = rented.start(rented.job("act"))
    assert worker.stdout
    assert "plan" in json.loads(worker.stdout.readline())
    assert json.loads(worker.stdout.readline()) == {"ready": True}
    assert worker.stdin
    worker.stdin.close()
    assert worker.wait(10) == 0
    worker.stdout.close()
    assert cloud.asked == []


def test_the_session_is_warm_when_it_waits(rented: Rented, cloud: Cloud) -> None:
    """Between go and the request lies one call, nothing else."""
    rented.ask("act")
    first = cloud.calls.index(cloud.asked[0])
    assert cloud.calls[first:] == cloud.asked


@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        (lambda r: r.section.update(provider="none"), "refuse", "no_provider"),
        (lambda r: r.section.update(provider="other"), "refuse", "no_provider"),
        (lambda r: r.dmi(sys_vendor="QEMU"), "refuse", "no_provider"),
        (lambda r: r.providers.append("twin=costguard_example"), "refuse", "cloud_ambiguous"),
        (lambda r: r.providers.__setitem__(0, "gone=no_such_plug_in"), "refuse", "plugin_failed"),
        (lambda r: r.section.update(metadata="never"), "refuse", "facts_missing"),
        (lambda r: r.dmi(board_asset_tag="m-43"), "refuse", "not_this_machine"),
        (lambda r: r.cloud.fail.update({"/machine": 503}), "failed", "cloud_error"),
        (lambda r: r.cloud.fail.update({"/token": 401}), "failed", "credentials_missing"),
        (lambda r: r.cloud.fail.update({"/machines": 403}), "refuse", "not_permitted"),
        (lambda r: r.cloud.fail.update({"/machines": 404}), "refuse", "not_this_machine"),
        (lambda r: r.cloud.fail.update({"/machines": 429}), "failed", "throttled"),
        (lambda r: r.section.update(metadata_endpoint="http://127.0.0.1:1"), "failed", "unreachable"),
        (lambda r: r.cloud.machine.update(protected=True), "refuse", "protected"),
        (lambda r: r.cloud.machine.update(rights=[]), "refuse", "not_permitted"),
        (lambda r: (r.root / "proc/1/cgroup").write_text("0::/docker/abc\n"), "refuse", "container"),
    ],
)
def test_whatever_stands_in_the_way_has_its_own_words(
    rented: Rented, cloud: Cloud, change: Callable[[Rented], object], verdict: str, code: str
) -> None:
    """Nothing is sent, the finding has a hint, and only a technical trouble lets the next action follow."""
    change(rented)
    answers = rented.ask("act")
    assert answers["plan"]["verdict"] == verdict
    assert code in codes(answers)
    finding = next(finding for finding in answers["plan"]["findings"] if finding["code"] == code)
    assert finding["hint"]
    assert "bill" in finding["text"] or code in {"container", "plugin_failed", "protected", "not_permitted"}
    assert "outcome" not in answers
    assert cloud.asked == []


def test_a_container_asks_nobody(rented: Rented, cloud: Cloud) -> None:
    """The metadata service of the host is not asked on behalf of a guest, unless the owner says that it is the host."""
    (rented.root / "proc/1/cgroup").write_text("0::/docker/abc\n")
    rented.ask("plan")
    assert cloud.calls == []
    host = {**rented.job("plan")["host"], "stands_for_host": True}
    assert rented.ask("plan", host=host)["plan"]["verdict"] == "go"


def test_a_cloud_that_is_named_speaks_for_a_shutdown_too(rented: Rented) -> None:
    """What the owner says about the machine counts for every action."""
    rented.dmi(sys_vendor="QEMU")
    assert "no_cloud" in codes(rented.ask("plan", "shutdown"))
    rented.section["provider"] = "example"
    assert "bill_ends" in codes(rented.ask("plan", "shutdown"))


def test_a_missing_sdk_is_a_finding_with_the_command(rented: Rented) -> None:
    """The hint is built from the name of the entry point: the core names no cloud."""
    before = (
        "import costguard_example as e\n"
        "def gone(*_): raise ModuleNotFoundError('No module named sdk', name='sdk')\n"
        "e.Example.open = gone\n"
    )
    answers = rented.ask("plan", before=before)
    assert codes(answers) == ["sdk_missing"]
    assert "the library that the plug-in 'example' needs" in answers["plan"]["findings"][0]["hint"]


def test_a_bug_of_a_plug_in_is_a_finding(rented: Rented) -> None:
    """It may pass with another action, so it counts as technical."""
    before = "import costguard_example as e\ndef bug(*_): raise KeyError('x')\ne.Example.identify = bug\n"
    answers = rented.ask("plan", before=before)
    assert (answers["plan"]["verdict"], codes(answers)) == ("failed", ["plugin_failed"])


@pytest.mark.parametrize(
    ("status", "fate"), [(403, "refused"), (409, "refused"), (503, "failed"), (429, "failed"), (401, "failed")]
)
def test_a_veto_of_the_cloud_is_no_technical_failure(rented: Rented, cloud: Cloud, status: int, fate: str) -> None:
    """Only what is technical lets the fall-back list go on."""
    cloud.fail["/machines/m-42/stop"] = status
    answers = rented.ask("act")
    assert (answers["outcome"]["status"], "proof" in answers["outcome"]) == (fate, False)
    assert "receipt" not in answers["outcome"]


@pytest.mark.parametrize(("shown", "status"), [("stopped", "done"), ("stopping", "pending"), ("running", "accepted")])
def test_confirm_says_what_the_cloud_shows(rented: Rented, cloud: Cloud, shown: str, status: str) -> None:
    """Accepted stays accepted while the cloud shows nothing of it."""
    rented.ask("act")
    cloud.machine["status"] = shown
    assert rented.ask("confirm")["outcome"]["status"] == status


def test_confirm_without_the_cloud_is_unknown(rented: Rented, cloud: Cloud) -> None:
    """An acceptance alone does not say that anything happened; the receipt stays."""
    rented.ask("act")
    cloud.fail["/machine"] = 503
    outcome = rented.ask("confirm")["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("unknown", "r-b-a1")
    assert outcome["receipt"]["instance"] == "m-42"


def test_terminate_needs_a_place_for_its_record(rented: Rented, cloud: Cloud) -> None:
    """A terminated machine takes its history with it; in dry run that is a consequence, to be seen in time."""
    assert codes(rented.ask("act", "terminate")) == ["no_sink"]
    assert cloud.asked == []
    dry = rented.ask("plan", "terminate", mode="dry-run")["plan"]
    assert dry["verdict"] == "consequences"


class Sink(BaseHTTPRequestHandler):
    """Takes records."""

    def do_POST(self) -> None:
        self.server.records.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined] # set by the test
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_the_record_is_away_before_the_worker_is_ready(rented: Rented, cloud: Cloud) -> None:
    """First what is about to be done, with the receipt; then what became of it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    records: list[Answers] = []
    server.records = records  # type: ignore[attr-defined] # read by the handler
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        rented.sink = {"url": f"http://127.0.0.1:{server.server_port}/x", "method": "POST"}
        worker = rented.start(rented.job("act", "terminate", sentence="both GPUs quiet"))
        assert worker.stdout
        assert json.loads(worker.stdout.readline())["plan"]["verdict"] == "go"
        assert json.loads(worker.stdout.readline()) == {"ready": True}
        assert [record["step"] for record in records] == ["prepared"]
        assert records[0]["receipt"]["instance"] == "m-42"
        assert records[0]["sentence"] == "both GPUs quiet"
        worker.communicate(b'{"go":true}\n', timeout=20)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert cloud.asked == ["POST /machines/m-42/terminate?attempt=b-a1"]
    assert (records[1]["step"], records[1]["status"]) == ("outcome", "accepted")


def test_a_sink_that_takes_nothing_keeps_a_machine_from_being_terminated(rented: Rented, cloud: Cloud) -> None:
    """A technical trouble, which is tried again; a stop goes on, and says so."""
    rented.sink = {"url": "http://127.0.0.1:1/x", "method": "POST"}
    answers = rented.ask("act", "terminate", before=NO_PAUSE)
    assert (answers["plan"]["verdict"], cloud.asked) == ("failed", [])
    assert "sink_failed" in codes(answers)
    stopped = rented.ask("act", "stop", before=NO_PAUSE)
    assert (stopped["plan"]["verdict"], stopped["outcome"]["status"]) == ("consequences", "accepted")


def test_no_secret_of_an_error_reaches_people(rented: Rented) -> None:
    """What a plug-in raises is masked."""
    before = (
        "import costguard_example as e\nfrom costguard.cloud.api import CloudError\n"
        "def leak(*_): raise CloudError('internal', 'it said: password=hunter2-hunter2')\ne.Example.identify = leak\n"
    )
    answers = rented.ask("plan", before=before)
    assert "hunter2" not in json.dumps(answers)


def test_importing_the_worker_imports_no_sdk(tmp_path: Path) -> None:
    """A guest action, and a machine of no cloud, pay for none."""
    program = (
        "import sys, costguard.actions.worker; print(sorted({'boto3','google','azure','requests'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("step", ["identify", "open", "facts"])
def test_a_plug_in_that_hangs_is_named_with_its_step(rented: Rented, step: str) -> None:
    """A worker that is killed by the guard names no cause: the plan comes before, and says what did not come back."""
    where = "ExampleMachine" if step == "facts" else "Example"
    hang = (
        "import time, costguard_example; from costguard.actions import cloud; cloud.OPEN_SECONDS, cloud.LOAD_SECONDS = 0.4, 0.1;"
        f"costguard_example.{where}.{step} = lambda *_: time.sleep(60);"
    )
    answers = rented.ask("plan", before=hang)
    assert (answers["plan"]["verdict"], codes(answers)) == ("failed", ["unreachable"])
    assert f"did not return from `{step}`" in answers["plan"]["findings"][0]["text"]


PROVES = """
from costguard.plans import PlanFinding
from costguard_example import Example, ExampleMachine

class Machine(ExampleMachine):
    def plan(self, verb, facts):
        made = super().plan(verb, facts)
        return made._replace(findings=(*made.findings, PlanFinding("shutdown_stops", "a shutdown ends the bill")))

class Proves(Example):
    def open(self, site, identity):
        machine = super().open(site, identity)
        machine.__class__ = Machine
        return machine

PROVIDER = Proves()
"""


@pytest.mark.parametrize("kind", ["plan", "act"])
def test_what_a_plan_proves_is_kept_for_the_fall_back(rented: Rented, tmp_path: Path, kind: str) -> None:
    """Whoever made the plan: when the cloud cannot be asked any more, a shutdown rests on it."""
    (tmp_path / "proves.py").write_text(PROVES, encoding="utf-8")
    rented.providers = ["example=proves"]
    rented.ask(kind, before=f"import sys; sys.path.insert(0, {str(tmp_path)!r}); ")
    kept = json.loads((rented.root / "results/shutdown.json").read_text())
    assert kept == {"boot_id": "boot-1", "says": "stops"}
