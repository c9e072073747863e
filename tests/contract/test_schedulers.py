"""The contract of plug-ins for tasks, over every one that is registered."""

import ast
import sys
import tomllib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

import costguard
from costguard.tasks.api import GROUP
from costguard.testing.task_contract import CHECKS, Case

REGISTERED = sorted(entry_points(group=GROUP))
PROJECT = Path(__file__).parents[2]
CORE = Path(costguard.__file__).parent
PROJECT_FILE = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: list[Mapping[str, list[str]]] = PROJECT_FILE["tool"]["importlinter"]["contracts"]
PACKAGES = {point.module.partition(".")[0] for point in REGISTERED}
CLOUDS = {point.module.partition(".")[0] for point in entry_points(group="costguard.providers")}

OWN: dict[str, Case] = {
    "determined": Case(
        "costguard_determined:Determined",
        own=[
            {
                "DET_TASK_ID": "1b2c",
                "DET_TASK_TYPE": "SHELL",
                "DET_ALLOCATION_ID": "1b2c.1",
                "DET_MASTER": "http://127.0.0.1:9",
            },
            {
                "DET_TASK_ID": "1.5e6f",
                "DET_TASK_TYPE": "TRIAL",
                "DET_ALLOCATION_ID": "1.5e6f.2",
                "DET_TRIAL_ID": "17",
                "DET_MASTER": "http://127.0.0.1:9",
            },
        ],
        secrets=["DET_USER_TOKEN", "DET_SESSION_TOKEN"],
    ),
    "kubernetes": Case(
        "costguard_kubernetes:Kubernetes",
        own=[
            {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": "1",
                "POD_NAME": "train-0",
                "POD_NAMESPACE": "ml",
                "POD_UID": "12345678-1234-1234-1234-123456789abc",
            },
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "HOSTNAME": "train-0", "POD_NAMESPACE": "ml"},
        ],
        nowhere={"service_account": "/nonexistent"},
    ),
    "slurm": Case(
        "costguard_slurm:Slurm",
        own=[
            {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "node7", "SLURM_JOB_USER": "alice"},
            {"SLURM_JOB_ID": "31", "SLURM_ARRAY_JOB_ID": "30", "SLURM_ARRAY_TASK_ID": "4"},
        ],
        nowhere={"programs": "/nonexistent"},
    ),
}
"""What the environment of a task of each scheduler looks like."""


def case_of(point: EntryPoint) -> Case:
    assert point.name in OWN, (
        f"add an entry {point.name!r} to OWN of tests/contract/test_schedulers.py: what the environment of its tasks says"
    )
    others = [environ for name, case in OWN.items() if name != point.name for environ in case.own]
    return OWN[point.name]._replace(target=point.value, foreign=others)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("point", REGISTERED, ids=lambda point: point.name)
def test_every_registered_plug_in_keeps_the_contract(point: EntryPoint, check: Callable[[Case], None]) -> None:
    """One suite, which is public: whoever adds a scheduler runs the same."""
    check(case_of(point))


def test_the_schedulers_of_this_project_are_registered() -> None:
    """Otherwise the tests above would pass over nothing; each has its tests, and its part of the page."""
    declared = PROJECT_FILE["project"]["entry-points"][GROUP]
    installed = {point.name: point.value for point in REGISTERED}
    assert declared == installed, "pyproject.toml has changed since it was installed: `make test`, or pip install -e ."
    gone = OWN.keys() - installed.keys()
    assert not gone, f"OWN has entries of {sorted(gone)}, which no entry point in pyproject.toml registers"
    for point in REGISTERED:
        case_of(point)
    page = (PROJECT / "docs/tasks.md").read_text(encoding="utf-8")
    for point in REGISTERED:
        assert f"\n## {point.load().name}\n" in page, f"docs/tasks.md has no section for {point.name}"
        assert list((PROJECT / "tests" / "schedulers" / point.name).glob("test_*.py")), f"tests/schedulers/{point.name}"


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_plug_in_is_bound_by_the_import_contracts(package: str) -> None:
    """The core imports none, and none sees more of the core than it may, or another plug-in."""
    forbidden = [one for one in CONTRACTS if one.get("source_modules") == ["costguard"]]
    kept_out = any(package in one["forbidden_modules"] for one in forbidden)
    assert kept_out, f"name {package} in the import contract of pyproject.toml that keeps schedulers out of the core"
    own = [one for one in CONTRACTS if package in one.get("source_modules", ())]
    hidden = {name for one in own for name in one["forbidden_modules"]}
    open_to_it = {"costguard.engine", "costguard.agent", "costguard.actions", "costguard.config", *CLOUDS} - hidden
    assert not open_to_it, f"name {package} in the import contract that hides {sorted(open_to_it)} from schedulers"
    roots = PROJECT_FILE["tool"]["importlinter"]["root_packages"]
    assert package in roots, f"add {package} to root_packages of [tool.importlinter] in pyproject.toml"
    together = [set(one.get("modules", ())) for one in CONTRACTS if package in one.get("modules", ())]
    assert PACKAGES in together or len(PACKAGES) == 1, "no scheduler knows another one: a contract `independence`"


@pytest.mark.parametrize("name", ["tasks", "actions/end_task.py", "agent/task_gpus.py", "cli/guarded.py"])
def test_the_core_of_tasks_names_no_scheduler(name: str) -> None:
    """A scheduler is added in a folder of its own; what ends a task spells no scheduler's name in code."""
    place = CORE / name
    for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
        code = ast.unparse(ast.parse(file.read_text(encoding="utf-8"))).lower()
        assert not [word for word in ("slurm", "kubernetes", "determined", "scancel", "kubectl") if word in code], file


def test_nothing_that_cancels_the_work_of_others_is_named() -> None:
    """A forced power-down of a node, and deletion without eviction, end work that nobody judged: no code has the words."""
    banned = ("power_down" + "_force", "grace-period=" + "0", "graceperiodseconds=" + "0")
    folders = [CORE, *(CORE.parent / name for name in PACKAGES | CLOUDS), PROJECT / "providers"]
    places = [file for folder in folders for file in folder.glob("**/*.py")]
    assert len(places) > 200
    for file in places:
        text = file.read_text(encoding="utf-8").lower()
        assert not [word for word in banned if word in text], file


BROKEN = """
import subprocess

from costguard.cloud.api import Permission, Setting
from costguard.tasks.api import Task

class Broken:
    name = "Broken"
    settings = (Setting("api_key", "The key of the account, as its console shows it", "", "abc", "a text"),)
    def recognises(self, place): return True
    def identify(self, place): return Task("", "a task", details={"all": str(place.environ)})
    def belongs(self, place, task, pid): return False
    def open(self, place, task): return Session()

class Session:
    def look(self, within): return None
    end = confirm = tell = look

class Another(Broken):
    def permissions(self): return ()

PROVIDER = Another()
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_bites(check: Callable[[Case], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check fails a plug-in that breaks its rule: a suite that nobody can fail proves nothing."""
    (tmp_path / "broken_tasks.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    target = "broken_tasks:Another" if check.__name__ == "check_permissions" else "broken_tasks:Broken"
    try:
        with pytest.raises(AssertionError):
            check(Case(target, own=[{"TASK": "1", "TOKEN": "x"}], secrets=["TOKEN"]))
    finally:
        sys.modules.pop("broken_tasks", None)
