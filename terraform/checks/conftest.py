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
        self.run("apply", "-auto-approve", "-input=false", *given(variables))
        return {name: one["value"] for name, one in json.loads(self.run("output", "-json")).items()}

    def changes(self, **variables: object) -> dict[str, tuple[str, ...]]:
        """What a plan would do, by address: only what it would change."""
        self.run("plan", "-input=false", "-out=plan", *given(variables))
        plan = json.loads(self.run("show", "-json", "plan"))
        found = {one["address"]: tuple(one["change"]["actions"]) for one in plan.get("resource_changes", ())}
        return {address: actions for address, actions in found.items() if actions not in {("no-op",), ("read",)}}


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
