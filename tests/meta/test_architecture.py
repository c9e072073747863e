"""Rules of the architecture that the import contracts cannot say."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import costguard
from costguard.readers.host.senses import SENSES

PACKAGE = Path(costguard.__file__).parent
CLOUD = re.compile(r"(?i)\b(aws|ec2|amazon|gcp|gce|azure)\b")
ENGINE_MAY_IMPORT = {"typing", "collections.abc", "math", "enum", "functools", "hashlib", "json", "operator", "time"}
RESIDENTS_NEVER_LOAD = {
    "pydantic", "click", "rich", "dataclasses", "asyncio", "logging", "subprocess", "argparse", "importlib.metadata",
    "http", "http.client", "sqlite3", "tempfile", "shutil", "inspect", "pathlib", "apprise", "boto3", "google", "azure",
    "matplotlib", "numpy", "costguard.report",
}  # fmt: skip


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("file", sorted((PACKAGE / "engine").glob("**/*.py")), ids=lambda file: file.name)
def test_engine_is_pure(file: Path) -> None:
    """The engine imports its own values and harmless parts of the standard library, and asks no clock."""
    foreign = {name for name in imports(file) if not name.startswith("costguard.engine")} - ENGINE_MAY_IMPORT
    assert not foreign
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if "__main__" not in ast.unparse(node)]  # printing a page of the docs
    code = ast.unparse(tree)
    clocks = re.findall(r"\btime\.(?!strftime\b|localtime\(\w)\w+", code)
    assert not clocks, "only a moment that was given may be written as local time"
    assert not re.search(r"(?<![.\w])(open|print|input|exec|eval)\(", code)


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("costguard.agent.__main__", "os"),
        ("costguard.agent.loop", "os"),
        ("costguard.readers.nvml.reader", "os"),
        ("costguard.readers.host.reader", "os"),
        *((f"costguard.readers.host.{row.module}", "os") for row in SENSES),
        ("costguard.readers.host.kernel_server", "os"),  # loaded when there is somebody to ask
        ("costguard.readers.host.metrics_page", "os"),
        ("costguard.tree.launcher", "os"),
        ("costguard.tree.watcher", "os"),
        ("costguard.fill.launcher", "os"),
        ("costguard.fill.watcher", "os"),
    ],
)
def test_residents_stay_small(module: str, library: str) -> None:
    """What runs for weeks beside a training job loads nothing heavy."""
    script = (
        "import sys, importlib, json; importlib.import_module(sys.argv[2]); before = set(sys.modules);"
        "importlib.import_module(sys.argv[1]); print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    argv = [sys.executable, "-c", script, module, library]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    loaded = set(json.loads(done.stdout))
    assert module in loaded
    assert not loaded & RESIDENTS_NEVER_LOAD


def test_paths_are_found_without_the_validation_library() -> None:
    """Every verb finds the agent's folders by one rule, and `status` must not pay for validation."""
    script = "import sys, costguard.config.paths; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "False\n"


def test_one_module_knows_each_library_of_the_outside_world() -> None:
    """The import contract names modules, and one that is added is named by none: here is every one."""
    for library, owner in {
        "pynvml": "readers/nvml/library.py",
        "apprise": "notify/remote.py",
        "matplotlib": "report/canvas.py",
        "torch": "workloads/load.py",
    }.items():
        users = [
            str(file.relative_to(PACKAGE))
            for file in sorted(PACKAGE.glob("**/*.py"))
            if any(name.partition(".")[0] == library for name in imports(file))
        ]
        assert users == [owner], f"{library} is for {owner} alone"


def test_every_cloud_is_known_to_the_rule_below() -> None:
    """A cloud that is added may not be spelt in the core either."""
    for point in entry_points(group="costguard.providers"):
        assert CLOUD.fullmatch(point.name), (
            f"add {point.name}, and what else people call it, to CLOUD of tests/meta/test_architecture.py"
        )


def test_core_names_no_cloud() -> None:
    """A cloud is added in providers/ alone; the core spells no cloud's name in code."""
    named = [
        f"{file.relative_to(PACKAGE)}: {found[0]}"
        for file in sorted(PACKAGE.glob("**/*.py"))
        if (found := CLOUD.search(file.read_text(encoding="utf-8")))
        and CLOUD.search(ast.unparse(ast.parse(file.read_text(encoding="utf-8"))))
    ]
    assert not named
