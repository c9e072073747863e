"""Terraform, run in a copy of the modules."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[1]
WHEEL = {
    "wheel": "https://files.example.org/costguard_agent-0.1.0-py3-none-any.whl",
    "wheel_sha256": "0" * 64,
}


class Terraform:
    """One folder with a configuration, and what Terraform says about it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = {**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **environment}

    def run(self, *words: str) -> str:
        """Standard output; fails with everything that Terraform said."""
        done = self.ask(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As `run`, and a failure is an answer too."""
        verb, *rest = words
        return subprocess.run(
            ["terraform", verb, "-no-color", *rest],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )

    def apply(self, **variables: object) -> dict[str, Any]:
        """The outputs afterwards."""
        told = self._told("apply", "-auto-approve", *given(variables))
        last = next(line["outputs"] for line in reversed(told) if line["type"] == "outputs")
        return {name: one["value"] for name, one in last.items()}

    def changes(self, **variables: object) -> dict[str, str]:
        """What a plan would do to a resource, by its address."""
        told = self._told("plan", *given(variables))
        changes = [line["change"] for line in told if line["type"] == "planned_change"]
        return {change["resource"]["addr"]: change["action"] for change in changes}

    def _told(self, verb: str, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(verb, "-json", "-input=false", *words).splitlines()]


def given(variables: Mapping[str, object]) -> list[str]:
    """As arguments; what is no text is written as JSON."""
    return [
        f"-var={name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in variables.items()
    ]


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, in which Terraform may leave its files."""
    assert shutil.which("terraform"), "terraform is not in PATH: install it, 1.7 or newer"
    return shutil.copytree(
        HERE,
        tmp_path_factory.mktemp("modules") / "terraform",
        ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*", "__pycache__"),
    )


@pytest.fixture
def machine(modules: Path) -> Iterator[Terraform]:
    """The module that renders; it needs no provider, so it can be applied anywhere."""
    one = Terraform(modules / "machine", {})
    one.run("init")
    yield one
    for state in one.folder.glob("*.tfstate*"):
        state.unlink()
