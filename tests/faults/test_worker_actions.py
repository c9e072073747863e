"""The action worker as a real process, on a made-up machine.

PATH holds nothing but strict stand-ins, so no test can reach the real init system.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Forked

Answers = dict[str, Any]  # JSON: each test looks at what it needs

WORKER = "import sys; from costguard.actions import worker; sys.exit(worker.main())"
GUARD = (  # starts a worker, sends it its lines, and stays
    "import subprocess, sys, time; worker = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
    "stdin=subprocess.PIPE, start_new_session=True); "
    "worker.stdin.write(sys.argv[2].encode()); worker.stdin.flush(); time.sleep(60)"
)
NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
UNPRIVILEGED = (  # it imports first: a user without rights may not be able to read a developer's Python
    "import os, sys; from costguard.actions import worker; "
    "os.geteuid() == 0 and (os.setgroups([]), os.setgid(65534), os.setuid(65534)); sys.exit(worker.main())"
)
SYSTEMCTL = 'case "$*" in poweroff|reboot) exit 0;; is-system-running) echo running;; *) exit 64;; esac'
AZURE = {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}
AWS = {"sys_vendor": "Amazon EC2", "board_asset_tag": "i-0123456789abcdef0"}
GCP = {"sys_vendor": "Google", "product_name": "Google Compute Engine"}


class Machine:
    """Files and programs of a machine with systemd, and workers that see only those."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        self.log.write_text("")
        self.log.chmod(0o666)
        self.workers: list[Forked | subprocess.Popen[bytes]] = []
        for folder in ("bin", "sys/class/dmi/id", "proc/self/root/run/systemd/system", "proc/1"):
            (root / folder).mkdir(parents=True)
        self.file("proc/1/cgroup", "0::/init.scope\n")
        self.file("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        self.file("proc/self/status", "NoNewPrivs:\t0\n")
        self.file("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.tool("systemctl", SYSTEMCTL)
        self.tool("busctl", "echo 's \"yes\"'")

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def tool(self, name: str, script: str) -> str:
        """A stand-in that logs its arguments; the script may use shell builtins and absolute paths only."""
        path = self.root / "bin" / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{script}\n')
        path.chmod(0o755)
        return str(path)

    def dmi(self, identity: dict[str, str]) -> None:
        for name, value in identity.items():
            self.file(f"sys/class/dmi/id/{name}", value + "\n")

    @property
    def calls(self) -> list[str]:
        """What was asked for with an effect."""
        questions = ("busctl", "sudo -n -l", "systemctl is-system-running")
        return [line for line in self.log.read_text().splitlines() if not line.startswith(questions)]

    def job(self, job: str, action: str, **more: object) -> Answers:
        host = {"procfs": str(self.root / "proc"), "sysfs": str(self.root / "sys")}
        base = {"job": job, "action": action, "mode": "live", "incident": "b-i1", "attempt": "b-a1", "host": host}
        return {**base, "results": str(self.root / "results"), "deadline": 5, **more}

    def start(self, job: Answers, program: str = WORKER) -> Forked:
        worker = Forked(program, {**os.environ, "PATH": str(self.root / "bin")})
        self.workers.append(worker)
        assert worker.stdin
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        return worker

    def ask(self, job: Answers, program: str = WORKER) -> Answers:
        """One job to its end, released with *go* if it waits for that; all its answers in one mapping."""
        worker = self.start(job, program)
        out, _ = worker.communicate(b'{"go":true}\n', timeout=30)
        assert worker.returncode == 0
        answers: Answers = {}
        for line in out.splitlines():
            answers |= json.loads(line)
        return answers

    def codes(self, answers: Answers) -> set[str]:
        return {finding["code"] for finding in answers["plan"]["findings"]}

    def record(self) -> Answers:
        found: Answers = json.loads((self.root / "results/b-a1.json").read_text())
        return found


@pytest.fixture
def machine() -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="costguard-"))  # pytest's own folders are closed to other users
    root.chmod(0o755)
    made = Machine(root)
    yield made
    for worker in made.workers:
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            if pipe and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
    shutil.rmtree(root)


@pytest.mark.parametrize(
    ("line_", "code"), [(b"", 0), (b"\n", 0), (b"no job\n", 2), (b'{"job":"plan","action":"none"}\n', 1)]
)
def test_a_guard_that_is_gone_or_not_itself(line_: bytes, code: int) -> None:
    """Nothing to do is no failure; a job that nobody can do is said to be one."""
    worker = Forked(WORKER, os.environ)
    out, _ = worker.communicate(line_)
    assert (worker.returncode, bool(out)) == (code, code > 0)


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def line(worker: Forked) -> Answers:
    assert worker.stdout
    found: Answers = json.loads(worker.stdout.readline())
    return found


def go(worker: Forked) -> None:
    assert "plan" in line(worker)
    assert line(worker) == {"ready": True}
    assert worker.stdin
    worker.stdin.write(b'{"go":true}\n')
    worker.stdin.flush()


def alive(path: Path) -> bool:
    """Whether the process whose number a script wrote down still runs."""
    try:
        state = Path(f"/proc/{int(path.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ValueError):
        return False
    return state not in "ZX"


def test_go_makes_a_shutdown_happen_and_accepted_is_recorded(machine: Machine) -> None:
    """A live attempt asks the init system exactly once and leaves its record."""
    answers = machine.ask(machine.job("act", "shutdown"))
    assert answers["plan"]["verdict"] == "go"
    assert machine.codes(answers) == {"no_cloud"}
    assert answers["outcome"]["status"] == "accepted"
    assert machine.calls == ["systemctl poweroff"]
    assert machine.record()["status"] == "accepted"


@pytest.mark.parametrize(
    "mode",
    ["dry-run", "LIVE", pytest.param("", marks=pytest.mark.thorough), pytest.param("true", marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("action", ["shutdown", "command", pytest.param("reboot", marks=pytest.mark.thorough)])
def test_only_the_exact_word_live_has_an_effect(machine: Machine, mode: str, action: str) -> None:
    """In dry run *go* is refused by the worker itself, whatever the guard sends."""
    settings = {"run": [machine.tool("hook", "exit 0")]}
    answers = machine.ask(machine.job("act", action, mode=mode, settings=settings))
    assert answers["outcome"] == {"status": "refused", "detail": "dry run"}
    assert machine.calls == []
    assert not (machine.root / "results").exists()


@pytest.mark.parametrize("message", [b"", b"{}\n", b'{"go":false}\n', b'{"go":1}\n', b"go\n", b"[true]\n"])
def test_without_go_nothing_happens(machine: Machine, message: bytes) -> None:
    """The end of input, or any other line, ends a waiting worker with code 0 and without an effect."""
    worker = machine.start(machine.job("act", "shutdown"))
    assert "plan" in line(worker)
    assert line(worker) == {"ready": True}
    out, _ = worker.communicate(message, timeout=10)
    assert (worker.returncode, out, machine.calls) == (0, b"", [])


def test_an_attempt_is_never_executed_twice(machine: Machine) -> None:
    """A second worker for the same attempt finds the file and only says so."""
    workers = [machine.start(machine.job("act", "reboot")) for _ in range(3)]
    for worker in workers:
        go(worker)
    statuses = sorted(line(worker)["outcome"]["status"] for worker in workers)
    assert statuses == ["accepted", "unknown", "unknown"]
    assert machine.calls == ["systemctl reboot"]


def test_an_empty_attempt_file_counts_as_started(machine: Machine) -> None:
    """A crash or a full disk may leave nothing but the name; that is enough to never repeat."""
    machine.file("results/b-a1.json", "")
    outcome = machine.ask(machine.job("act", "shutdown"))["outcome"]
    assert (outcome["status"], machine.calls) == ("unknown", [])
    assert machine.ask(machine.job("confirm", "command"))["outcome"]["status"] == "unknown"


def test_a_failing_init_system_is_a_failure_with_its_words(machine: Machine) -> None:
    """The exit code is checked and stderr is kept."""
    machine.tool("systemctl", "echo 'Failed to connect to bus: No such file or directory' >&2; exit 1")
    outcome = machine.ask(machine.job("act", "shutdown"))["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("failed", "exit code 1")
    assert "No such file or directory" in outcome["detail"]


@pytest.mark.parametrize(
    "words",
    [
        "Call to PowerOff failed: Interactive authentication required.",
        "Call to PowerOff failed: Access denied",
        'Operation inhibited by \\"backup\\" (PID 7), reason is \\"disk image\\".',
        "sudo: a password is required",
    ],
)
def test_what_the_init_system_refuses_is_no_technical_failure(machine: Machine, words: str) -> None:
    """A veto: nothing else of the fall-back list may go round it; read in English whatever the machine speaks."""
    machine.tool("systemctl", f'test "$LC_ALL" = C && echo "{words}" >&2; exit 1')
    outcome = machine.ask(machine.job("act", "shutdown"))["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("refused", "exit code 1")
    assert words.replace("\\", "") in outcome["detail"]


def test_a_hanging_init_system_is_left_at_the_deadline(machine: Machine) -> None:
    """Nobody knows whether it was accepted: unknown, never repeated, and nothing is left running."""
    machine.tool("systemctl", f"echo $$ > {machine.root}/pid; exec /bin/sleep 60")
    start = time.monotonic()
    outcome = machine.ask(machine.job("act", "shutdown", deadline=0.5))["outcome"]
    assert outcome["status"] == "unknown"
    assert time.monotonic() - start < 6
    assert not alive(machine.root / "pid")


@pytest.mark.parametrize("results", ["/dev/null/results", ""])
def test_a_results_folder_that_cannot_be_written_does_not_stop_a_stop(machine: Machine, results: str) -> None:
    """It is said in the outcome instead."""
    outcome = machine.ask(machine.job("act", "shutdown", results=results))["outcome"]
    assert outcome["status"] == "accepted"
    assert "result file" in outcome["detail"]
    assert machine.calls == ["systemctl poweroff"]


def test_a_full_disk_does_not_stop_a_stop_and_is_not_repeated(machine: Machine) -> None:
    """The name of the file still claims the attempt."""
    job = machine.job("act", "command", settings={"run": ["/bin/echo", "hi"]})
    outcome = machine.ask(job, NO_ROOM + WORKER)["outcome"]
    assert (outcome["status"], "File too large" in outcome["detail"]) == ("done", True)
    assert machine.ask(job)["outcome"]["detail"].startswith("this attempt was started before")


def test_a_command_gets_its_variables_literally(machine: Machine) -> None:
    """No shell, one pass of substitution, and the same values in the environment."""
    hook = machine.tool("hook", 'echo "$COSTGUARD_SENTENCE|$COSTGUARD_GPUS|${COSTGUARD_NOTIFY__URL-unset}"')
    run = [hook, "{sentence}", "{gpus} {idle_seconds}s {other}", "{reason}/{instance}"]
    sentence = f"idle; $(touch {machine.root}/owned) {{incident}} `id`"
    context = {"gpus": ["GPU 0", "GPU 1"], "idle_seconds": 61.4, "instance": "i-1"}
    os.environ["COSTGUARD_NOTIFY__URL"] = "secret"
    try:
        answers = machine.ask(
            machine.job("act", "command", settings={"run": run}, sentence=sentence, reason="idle", **context)
        )
    finally:
        del os.environ["COSTGUARD_NOTIFY__URL"]
    assert answers["outcome"]["status"] == "done"
    assert machine.calls == [f"hook {sentence} GPU 0,GPU 1 61s {{other}} idle/i-1"]
    assert answers["outcome"]["detail"].endswith(f"{sentence}|GPU 0,GPU 1|unset")
    assert not (machine.root / "owned").exists()


def test_a_command_gets_the_variables_of_the_moment_in_which_it_runs(machine: Machine) -> None:
    """It was prepared minutes before: what the machine looked like then is no news."""
    hook = machine.tool("hook", 'echo "$COSTGUARD_SENTENCE|$COSTGUARD_IDLE_SECONDS"')
    settings = {"run": [hook, "{idle_seconds}", "{reason}"]}
    job = machine.job("act", "command", settings=settings, sentence="idle for 5m", idle_seconds=300.0, reason="idle")
    worker = machine.start(job)
    out, _ = worker.communicate(b'{"go":true,"sentence":"idle for 9m","idle_seconds":540.2}\n', timeout=30)
    assert machine.calls == ["hook 540 idle"]
    assert json.loads(out.splitlines()[-1])["outcome"]["detail"].endswith("idle for 9m|540")


@pytest.mark.parametrize(("script", "proof"), [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9")])
def test_a_failing_command_is_a_failure(machine: Machine, script: str, proof: str) -> None:
    """The exit code or the signal is the proof."""
    settings = {"run": [machine.tool("hook", script)]}
    outcome = machine.ask(machine.job("act", "command", settings=settings))["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("failed", proof)


def test_a_command_is_ended_with_everything_it_started(machine: Machine) -> None:
    """At its own timeout SIGTERM goes to the whole group, and SIGKILL to who ignores that."""
    stubborn = f"(trap '' TERM; /bin/sh -c 'echo $$ > {machine.root}/child; trap \"\" TERM; while :; do :; done') &"
    hook = machine.tool("hook", f"{stubborn}\necho begun; wait; wait")
    settings = {"run": [hook], "timeout": 0.5}
    outcome = machine.ask(machine.job("act", "command", settings=settings, deadline=30))["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("failed", "deadline")
    assert "begun" in outcome["detail"]
    assert (machine.root / "child").exists()
    assert not alive(machine.root / "child")


def test_what_a_finished_command_leaves_behind_is_ended(machine: Machine) -> None:
    """A success is not delayed by a program in the background, and nothing outlives it."""
    hook = machine.tool("hook", f"/bin/sleep 60 &\necho $! > {machine.root}/child")
    outcome = machine.ask(machine.job("act", "command", settings={"run": [hook]}))["outcome"]
    assert outcome["status"] == "done"
    assert not alive(machine.root / "child")


def test_the_output_of_a_command_is_bounded_and_masked(machine: Machine) -> None:
    """Only the end is kept; what looks like a secret is not."""
    last = "echo https://me:hunter2@example.org token=abc123"
    hook = machine.tool("hook", f"i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done; {last}")
    detail = machine.ask(machine.job("act", "command", settings={"run": [hook]}))["outcome"]["detail"]
    assert len(detail) < 2300
    assert detail.endswith("https://***@example.org token=***")


@pytest.mark.parametrize("lines", [0, 400])
def test_a_webhook_reaches_no_record(machine: Machine, lines: int) -> None:
    """Its secret is its path: hidden in the words of the command however they were cut, and in the result file."""
    address = "https://hooks.slack.com/services/T00/B00/S3CRETkey"
    says = f"i=0; while [ $i -lt {lines} ]; do echo 123456; i=$((i+1)); done; echo calling $1; echo path S3CRETkey; exit 22"
    settings = {"run": [machine.tool("hook", says), address]}
    answers = machine.ask(machine.job("act", "command", settings=settings))
    assert "calling https://hooks.slack.com/***" in answers["outcome"]["detail"]
    assert "S3CRET" not in json.dumps(answers) + json.dumps(machine.record())


def test_a_secret_that_was_cut_is_not_shown(machine: Machine) -> None:
    """Of what was cut off, the rest of its line goes too: nobody could tell that it is part of an address."""
    says = (
        "printf 'https://example.org/'; i=0; while [ $i -lt 400 ]; do printf S3CRET; i=$((i+1)); done; echo; echo end"
    )
    outcome = machine.ask(machine.job("act", "command", settings={"run": [machine.tool("hook", says)]}))["outcome"]
    assert outcome["detail"] == "the command succeeded; it said: end"


def test_a_guard_that_dies_after_go_does_not_end_the_command(machine: Machine) -> None:
    """The executor finishes under its own deadline and records what became of it, SIGTERM or not."""
    begun = machine.root / "begun"
    hook = machine.tool("hook", f"echo $PPID > {begun}.new; /bin/mv {begun}.new {begun}; /bin/sleep 0.5; echo ok")
    lines = json.dumps(machine.job("act", "command", settings={"run": [hook]})) + '\n{"go":true}\n'
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, WORKER, lines], env={**os.environ, "PATH": str(machine.root / "bin")}
    )
    machine.workers.append(guard)
    assert until(begun.exists)
    guard.kill()
    guard.wait(timeout=10)
    os.kill(int(begun.read_text()), signal.SIGTERM)
    assert until(lambda: machine.record()["status"] != "started")
    assert machine.record()["status"] == "done"


def test_a_guard_that_dies_before_go_takes_the_worker_with_it(machine: Machine) -> None:
    """Nothing is done, and nothing keeps waiting."""
    line_of_job = json.dumps(machine.job("act", "shutdown")) + "\n"
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, WORKER, line_of_job],
        env={**os.environ, "PATH": str(machine.root / "bin")},
        stdout=subprocess.PIPE,
    )
    machine.workers.append(guard)
    assert guard.stdout
    with guard.stdout as said:
        assert b"plan" in said.readline()
        assert b"ready" in said.readline()
        guard.kill()
        guard.wait()
        assert said.read() == b""  # the end of its output: the worker is gone
    assert machine.calls == []


def test_a_guard_that_is_gone_hears_nothing_and_the_record_has_it_all_the_same(machine: Machine) -> None:
    """Nobody reads the outcome any more: that is no error, and the worker does what is left to do."""
    hook = machine.tool("hook", "exit 0")
    worker = machine.start(machine.job("act", "command", settings={"run": [hook]}))
    assert worker.stdin
    assert worker.stdout
    assert b"plan" in worker.stdout.readline()
    assert b"ready" in worker.stdout.readline()
    worker.stdout.close()
    worker.stdin.write(b'{"go":true}\n')
    worker.stdin.close()
    assert worker.wait(timeout=30) == 0
    assert machine.record()["status"] == "done"


def test_confirm_waits_for_an_executor_that_still_runs(machine: Machine) -> None:
    """It gives the recorded outcome, not a guess."""
    hook = machine.tool("hook", f"echo > {machine.root}/begun; /bin/sleep 0.5")
    worker = machine.start(machine.job("act", "command", settings={"run": [hook]}))
    go(worker)
    assert until((machine.root / "begun").exists)
    early = machine.ask(machine.job("confirm", "command", deadline=0.05))["outcome"]
    assert early["status"] == "pending"
    assert machine.ask(machine.job("confirm", "command"))["outcome"]["status"] == "done"


def test_after_a_crash_the_outcome_is_unknown_and_nothing_goes_on(machine: Machine) -> None:
    """SIGKILL on the worker ends its command; confirm cannot tell and does not repeat."""
    hook = machine.tool("hook", f"echo $$ > {machine.root}/pid; exec /bin/sleep 60")
    worker = machine.start(machine.job("act", "command", settings={"run": [hook]}))
    go(worker)
    assert until(lambda: alive(machine.root / "pid"))
    worker.kill()
    worker.wait()
    assert until(lambda: not alive(machine.root / "pid"))
    assert machine.ask(machine.job("confirm", "command"))["outcome"]["status"] == "unknown"
    assert len(machine.calls) == 1


def hooked(machine: Machine, script: str, timeout: float = 5.0) -> dict[str, object]:
    """A hook that says in a file that it ran."""
    program = machine.tool("save", f'echo "$COSTGUARD_INCIDENT" >> {machine.root}/saved; {script}')
    return {"hook": {"pre_stop": [program], "timeout": timeout}}


@pytest.mark.timeout(30)  # a worker that leaves out a line is waited for in vain, and a broken one must be seen soon
def test_the_hook_saves_work_once_before_the_worker_is_ready(machine: Machine) -> None:
    """It is over when the worker waits; a second attempt of the incident does not run it again."""
    more = hooked(machine, "/bin/sleep 0.2; echo over >> " + str(machine.root / "saved"))
    worker = machine.start(machine.job("act", "shutdown", **more))
    assert worker.stdout
    lines = [json.loads(worker.stdout.readline()) for _ in range(3)]
    assert (lines[0], list(lines[1]), lines[2]) == ({"saving": True}, ["plan"], {"ready": True})
    assert (machine.root / "saved").read_text() == "b-i1\nover\n"
    worker.kill()
    worker.wait()
    again = machine.ask(machine.job("act", "shutdown", attempt="b-a2", **more))
    assert "saving" not in again, "the GPUs are not pardoned for a hook that does not run"
    assert (machine.root / "saved").read_text() == "b-i1\nover\n"
    assert [call for call in machine.calls if not call.startswith("save")], "and the action goes on"


def begun_so_often(machine: Machine, times: int) -> bool:
    """Whether the hook of an incident has begun so many times."""
    path = machine.root / "saved"
    return (path.read_text().count("b-i1") if path.exists() else 0) == times


def test_a_hook_that_an_end_of_the_agent_cut_off_runs_once_more(machine: Machine) -> None:
    """A restart in the last minute must not cost the work that it was saving; cut off twice it is said, and the action goes on."""
    more = hooked(machine, "/bin/sleep 60")
    for attempt in ("b-a1", "b-a2"):
        worker = machine.start(machine.job("act", "shutdown", attempt=attempt, **more))
        assert worker.stdout
        assert json.loads(worker.stdout.readline()) == {"saving": True}
        assert until(partial(begun_so_often, machine, int(attempt[-1])))
        worker.kill()
        worker.wait()
    found = machine.ask(machine.job("act", "shutdown", attempt="b-a3", **more))
    (finding,) = [one for one in found["plan"]["findings"] if one["code"] == "hook_failed"]
    assert "cut off twice" in finding["text"]
    assert found["outcome"]["status"] == "accepted"
    assert begun_so_often(machine, 2)


def test_a_hook_has_its_own_time_not_that_of_the_action(machine: Machine) -> None:
    """Checkpoints take longer than the request that follows them."""
    more = hooked(machine, f"/bin/sleep 1; echo over >> {machine.root}/saved")
    found = machine.ask(machine.job("act", "shutdown", **{**more, "deadline": 0.5}))
    assert "hook_failed" not in [finding["code"] for finding in found["plan"]["findings"]]
    assert (machine.root / "saved").read_text() == "b-i1\nover\n"


@pytest.mark.parametrize("asks", [False, True])
def test_a_person_who_stops_by_hand_hears_of_a_failed_hook_too(machine: Machine, asks: bool) -> None:
    """In the plan where it came first, in the outcome where the plan had been shown already."""
    found = machine.ask(machine.job("act", "shutdown", asks=asks, **hooked(machine, "exit 3")))
    told = found["outcome"]["detail"] if asks else str(found["plan"]["findings"])
    assert "failed with exit code 3" in told
    assert found["outcome"]["status"] == "accepted"


@pytest.mark.parametrize(("script", "words"), [("exit 3", "exit code 3"), ("/bin/sleep 60", "was killed after")])
def test_a_hook_that_fails_or_hangs_is_told_and_stops_nothing(machine: Machine, script: str, words: str) -> None:
    """The bill does not wait for a program that saves nothing."""
    found = machine.ask(machine.job("act", "shutdown", **hooked(machine, script, timeout=0.3)))
    codes = {finding["code"]: finding["text"] for finding in found["plan"]["findings"]}
    assert words in codes["hook_failed"]
    assert found["outcome"]["status"] == "accepted"


def test_no_hook_runs_in_a_dry_run_or_for_a_plan_alone(machine: Machine) -> None:
    """And one that belongs to a person's command waits until that person has decided."""
    more = hooked(machine, "true")
    machine.ask(machine.job("plan", "shutdown", **more))
    machine.ask(machine.job("act", "shutdown", mode="dry-run", **more))
    worker = machine.start(machine.job("act", "shutdown", asks=True, **more))
    assert worker.stdout
    assert [set(json.loads(worker.stdout.readline())) for _ in range(2)] == [{"plan"}, {"ready"}]
    assert not (machine.root / "saved").exists()
    worker.communicate(b'{"go":true}\n', timeout=30)
    assert (machine.root / "saved").exists()


def test_the_hook_runs_by_itself_when_the_cloud_takes_the_machine(machine: Machine) -> None:
    """Within the time that is left, and never in a dry run."""
    more = hooked(machine, "true")
    assert machine.ask(machine.job("hook", "shutdown", mode="dry-run", **more))["outcome"]["status"] == "refused"
    assert machine.ask(machine.job("hook", "shutdown", **more))["outcome"]["status"] == "done"
    late = machine.job("hook", "shutdown", attempt="b-s2", **{**hooked(machine, "/bin/sleep 60"), "deadline": 0.3})
    assert "killed after 0.3 s" in machine.ask(late)["outcome"]["detail"]
    assert [call for call in machine.calls if not call.startswith("save")] == []


def test_confirm_of_a_guest_action_tells_the_boots_apart(machine: Machine) -> None:
    """Alive on the same boot it was accepted, or is seen stopping; another boot id proves that the machine went down."""
    machine.ask(machine.job("act", "shutdown"))
    outcome = machine.ask(machine.job("confirm", "shutdown"))["outcome"]
    assert (outcome["status"], "still runs" in outcome["detail"]) == ("accepted", True)
    machine.tool("systemctl", "echo stopping; exit 1")
    outcome = machine.ask(machine.job("confirm", "shutdown"))["outcome"]
    assert (outcome["status"], "is stopping" in outcome["detail"]) == ("pending", True)
    machine.file("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert machine.ask(machine.job("confirm", "shutdown"))["outcome"]["status"] == "done"


def test_confirm_of_an_attempt_nobody_knows_is_unknown(machine: Machine) -> None:
    """No record is not proof that nothing was done."""
    for action in ("shutdown", "command", "stop"):
        assert machine.ask(machine.job("confirm", action))["outcome"]["status"] == "unknown"


def test_a_container_does_not_stop_its_host(machine: Machine) -> None:
    """Machine actions need the owner's word that the container stands for the host."""
    machine.file("proc/self/root/.dockerenv", "")
    answers = machine.ask(machine.job("act", "shutdown"))
    assert (answers["plan"]["verdict"], machine.codes(answers) >= {"container"}) == ("refuse", True)
    assert "ready" not in answers
    job = machine.job("act", "shutdown")
    job["host"]["stands_for_host"] = True
    assert machine.ask(job)["outcome"]["status"] == "accepted"


def test_a_user_without_rights_learns_the_missing_rule(machine: Machine) -> None:
    """Told at the plan, long before the stop, with the exact line for sudoers."""
    machine.tool("busctl", "echo 's \"challenge\"'")
    machine.tool("sudo", "exit 1")
    answers = machine.ask(machine.job("act", "shutdown"), program=UNPRIVILEGED)
    assert answers["plan"]["verdict"] == "refuse"
    finding = next(finding for finding in answers["plan"]["findings"] if finding["code"] == "not_permitted")
    assert f"ALL=(root) NOPASSWD: {machine.root}/bin/systemctl poweroff" in finding["hint"]
    machine.file("proc/self/status", "NoNewPrivs:\t1\n")
    answers = machine.ask(machine.job("plan", "shutdown"), program=UNPRIVILEGED)
    assert "NoNewPrivileges" in json.dumps(answers)


@pytest.mark.parametrize("told", [True, False])
def test_a_sudo_rule_without_password_is_used(machine: Machine, told: bool) -> None:
    """Found without a prompt, and executed without one; also where /proc does not say whether sudo can work."""
    machine.tool("busctl", "exit 1")
    if not told:
        (machine.root / "proc/self/status").unlink()
    rule = f"    (root) NOPASSWD: {machine.root}/bin/systemctl poweroff"
    machine.tool("sudo", f'case "$*" in "-n -l"*) echo "{rule}";; "-n systemctl poweroff") exit 0;; *) exit 64;; esac')
    job = machine.job("act", "shutdown", results="")
    assert machine.ask(job, program=UNPRIVILEGED)["outcome"]["status"] == "accepted"
    assert machine.calls == ["sudo -n systemctl poweroff"]


def test_without_systemd_shutdown_is_used_and_a_delay_is_its_own(machine: Machine) -> None:
    """`shutdown -h` is the fall-back, and the only tool that can wait (whole minutes)."""
    machine.tool("shutdown", "exit 0")
    assert machine.ask(machine.job("act", "shutdown", settings={"delay": 61}))["outcome"]["status"] == "accepted"
    shutil.rmtree(machine.root / "proc/self/root/run/systemd")
    if os.geteuid() == 0:  # only root may use it without logind
        assert machine.ask(machine.job("act", "reboot", attempt="b-a2"))["outcome"]["status"] == "accepted"
        assert machine.calls == ["shutdown -h +2", "shutdown -r now"]
    for name in ("shutdown", "systemctl"):
        (machine.root / "bin" / name).unlink()
    answers = machine.ask(machine.job("plan", "shutdown"))
    assert (answers["plan"]["verdict"], "no_init" in machine.codes(answers)) == ("refuse", True)


@pytest.mark.parametrize(
    ("identity", "settings", "expected"),
    [
        (AZURE, {}, ("another", "bill_goes_on", False)),
        (AZURE, {"accept_bill": True}, ("consequences", "bill_goes_on", False)),
        (AZURE, {"accept_bill": "yes"}, ("another", "bill_goes_on", False)),
        (AWS, {}, ("consequences", "may_terminate", True)),
        (GCP, {}, ("go", "bill_ends", True)),
        ({"sys_vendor": "Microsoft Corporation"}, {}, ("go", "no_cloud", None)),
    ],
)
def test_the_cloud_decides_what_a_shutdown_is_worth(
    machine: Machine, identity: dict[str, str], settings: dict[str, object], expected: tuple[object, ...]
) -> None:
    """Known by the firmware's identity alone: no network."""
    machine.dmi(identity)
    clouds = ["costguard_aws", "costguard_gcp:Gcp", "costguard_azure"]
    answers = machine.ask(machine.job("act", "shutdown", providers=clouds, settings=settings))
    plan = answers["plan"]
    assert (plan["verdict"], *machine.codes(answers), plan.get("ends_bill")) == expected
    assert ("ready" in answers) is (plan["verdict"] != "another")


def test_a_plugin_that_cannot_be_loaded_is_told(machine: Machine) -> None:
    """It may be the one that knows this cloud, so the bill is not taken for known."""
    answers = machine.ask(machine.job("plan", "shutdown", providers=["costguard_gone", "json:nothing"]))
    assert answers["plan"]["verdict"] == "consequences"
    assert "plugin_failed" in machine.codes(answers)


@pytest.mark.parametrize("name", ["stop", "terminate", "hibernate"])
def test_cloud_actions_are_refused_without_a_plugin(machine: Machine, name: str) -> None:
    """The plan says so and names what can be used."""
    answers = machine.ask(machine.job("act", name))
    assert machine.codes(answers) == {"no_provider"}
    assert "ready" not in answers


@pytest.mark.parametrize("job", [b"{", b"[]", b"{}", b'{"job":"act"}', b'{"job":"x","action":"stop"}'])
def test_a_job_that_makes_no_sense_is_code_2(machine: Machine, job: bytes) -> None:
    """One line says why; no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "costguard.actions.worker"], input=job + b"\n", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, b"")
    assert "malformed job" in json.loads(done.stdout)["error"]


def at_step(machine: Machine, step: str, name: str = "b-i1", **hook: object) -> Answers:
    """What the worker says of the program of this step."""
    given = {
        "timeout": 5,
        **{one: [machine.tool(one, f"echo {one} as $(/usr/bin/id -un) in $HOME")] for one in ("pre_stop", step)},
        **hook,
    }
    outcome: Answers = machine.ask(machine.job("hook", "command", step=step, attempt=name, hook=given))["outcome"]
    return outcome


@pytest.mark.parametrize("step", ["armed", "warning", "cancelled", "post_boot"])
def test_a_program_runs_once_for_each_step_and_occasion(machine: Machine, step: str) -> None:
    """With what it said; a guard that begins again does not run it twice, and a dry run never."""
    first = at_step(machine, step)
    assert (first["status"], f"it said: {step} as" in first["detail"]) == ("done", True)
    assert "ran before" in at_step(machine, step)["detail"]
    assert "it said" in at_step(machine, step, "b-i2")["detail"]
    dry = machine.ask(machine.job("hook", "command", step=step, attempt="b-i3", mode="dry-run", hook={step: ["x"]}))
    assert dry["outcome"]["status"] == "refused"


def test_an_undo_runs_only_after_what_it_takes_back(machine: Machine) -> None:
    """Where the pre-stop program never began there is nothing to take back."""
    assert "nothing to undo" in at_step(machine, "undo")["detail"]
    assert at_step(machine, "pre_stop")["status"] == "done"
    assert "it said: undo" in at_step(machine, "undo")["detail"]
    assert "ran before" in at_step(machine, "undo")["detail"]


def test_an_undo_that_an_end_of_the_agent_cut_off_runs_once_more(machine: Machine) -> None:
    """A node must not stay drained because an upgrade came in between."""
    assert at_step(machine, "pre_stop")["status"] == "done"
    begun = machine.root / "undone"
    program = ["/bin/sh", "-c", f"echo begun >> {begun}; exec /bin/sleep 60"]
    job = machine.job("hook", "command", step="undo", attempt="b-i1", incident="b-i1", hook={"undo": program})
    for times in (1, 2):
        worker = machine.start(job)
        assert until(lambda times=times: begun.exists() and begun.read_text().count("begun") == times)  # type: ignore[misc] # mypy knows no type of a default
        worker.kill()
        worker.wait()
    outcome = machine.ask(job)["outcome"]
    assert "cut off twice when the agent ended; what pre_stop drained may still be drained" in outcome["detail"]


def test_a_program_that_an_end_of_the_agent_cut_off_is_said_to_be_so(machine: Machine) -> None:
    """It is not run twice, and nobody reads that it was done."""
    begun = machine.root / "begun"
    program = ["/bin/sh", "-c", f"echo begun >> {begun}; exec /bin/sleep 60"]
    job = machine.job("hook", "command", step="warning", attempt="b-i1", incident="b-i1", hook={"warning": program})
    worker = machine.start(job)
    assert until(lambda: begun.exists() and begun.read_text() == "begun\n")
    worker.kill()
    worker.wait()
    outcome = machine.ask(job)["outcome"]
    assert (outcome["status"], "cut off when the agent ended" in outcome["detail"]) == ("failed", True)
    assert begun.read_text() == "begun\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
def test_a_program_runs_as_the_user_that_is_configured(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With that user's home and name, and nothing of the agent's environment; one that does not exist is said, and nothing runs as root instead."""
    monkeypatch.setenv("TEAM_URLS", "json://HIDDEN")
    machine.root.chmod(0o755)
    (machine.root / "bin").chmod(0o755)
    for parent in machine.root.parents:
        if parent.owner() == "root" and parent != parent.parent and "pytest" in parent.name:
            parent.chmod(0o755)
    assert "it said: warning as nobody in" in at_step(machine, "warning", user="nobody")["detail"]
    shown = at_step(
        machine,
        "cancelled",
        user="nobody",
        cancelled=[machine.tool("env", "/usr/bin/env | /usr/bin/sort | /usr/bin/tr '\\n' ' '")],
    )["detail"]
    assert "COSTGUARD_INCIDENT=b-i1" in shown
    assert "HIDDEN" not in shown
    lost = at_step(machine, "armed", user="no-such-user")
    assert (lost["status"], "hooks.user: there is no user no-such-user" in lost["detail"]) == ("failed", True)
