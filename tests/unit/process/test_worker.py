"""The main that every short-lived worker has."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from typing import NamedTuple
from costguard.process.worker import Done, say, serve
class Job(NamedTuple):
    what: str
def do(job):
    print("a library says something")
    os.write(1, b"and a C library too\\n")
    if job.what == "several":
        say(Done("", ("one",)))
        say(Done("", ("two",)))
        return None
    return Done(job.what, ("done",))
sys.exit(serve(Job, do, Done))
"""


def work(line: bytes) -> tuple[int, list[object], bytes]:
    """The exit code, the answers, and what else was printed."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=line, capture_output=True, timeout=30, check=False)
    return done.returncode, [json.loads(answer) for answer in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize(
    ("line", "code", "answers"),
    [
        (b'{"what":""}\n', 0, [{"error": "", "notes": ["done"]}]),
        (b'{"what":"it failed"}\n', 1, [{"error": "it failed", "notes": ["done"]}]),
        (b'{"what":"several"}\n', 0, [{"error": "", "notes": ["one"]}, {"error": "", "notes": ["two"]}]),
    ],
)
def test_what_a_library_prints_is_no_answer(line: bytes, code: int, answers: list[object]) -> None:
    """It goes to the journal; an answer that came between such lines would be lost, and with it what was done."""
    found = work(line)
    assert found[:2] == (code, answers)
    assert b"a library says something" in found[2]
    assert b"and a C library too" in found[2]


@pytest.mark.parametrize(("line", "code"), [(b"", 0), (b"\n", 0), (b"{}\n", 2), (b"nonsense", 2)])
def test_a_guard_that_is_gone_is_no_error_and_a_senseless_job_is_one(line: bytes, code: int) -> None:
    """Said in one line, which quotes nothing."""
    found = work(line)
    words = "it is not JSON" if line == b"nonsense" else "what is missing"
    assert found[0] == code
    said = [{"error": f"internal error: malformed job ({words}); please report it"}]
    assert found[1] == (said if code else [])


@pytest.mark.parametrize("what", ["", "several"])
def test_an_answer_that_nobody_reads_any_more_is_no_error(what: str) -> None:
    """The guard has gone meanwhile: no traceback, and the worker ends as it would have."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.close()
        worker.stdin.write(json.dumps({"what": what}).encode() + b"\n")
        worker.stdin.close()
        assert worker.wait(timeout=30) == 0
