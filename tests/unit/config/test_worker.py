"""The worker that reads the configuration for a reload."""

import json
import subprocess
import sys
from pathlib import Path


def ask(line: str) -> dict[str, object]:
    command = [sys.executable, "-m", "costguard.config.worker"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_answers_with_the_effective_configuration(tmp_path: Path) -> None:
    """One line in, one line out: what the guard can use at once."""
    file = tmp_path / "config.toml"
    file.write_text('interval = "3s"\n')
    job = {"arguments": {"config": str(file)}, "environment": {"COSTGUARD_GRACE": "7m"}}
    effective = ask(json.dumps(job) + "\n")["effective"]
    assert isinstance(effective, dict)
    assert (effective["policy"]["interval"], effective["policy"]["grace"]) == (3, 420)
    assert effective["source"] == str(file)


def test_answers_with_every_error() -> None:
    """Errors are an answer, not a crash: the old configuration stays, and people are told why."""
    job = {"arguments": {"set": ["interval=x", "grace=x"]}, "environment": {}}
    error = str(ask(json.dumps(job) + "\n")["error"])
    assert "interval" in error
    assert "grace" in error


def test_a_malformed_request_is_an_error() -> None:
    """It is never taken for an empty configuration."""
    assert "malformed" in str(ask("[]\n")["error"])
    assert "malformed" in str(ask('{"arguments": {}}\n')["error"])
