"""Started in a folder where somebody else laid files: none of them is ever imported, by no process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.config.paths import resolve
from costguard.process.command_lines import HEAVY, LIGHT, command_lines
from costguard.testing.nvml import Script, write_sysfs

ADDRESS = "0000:01:00.0"
TRAP = """
with open({marker!r}, "a") as file:
    file.write({name!r} + "\\n")
raise SystemExit(77)
"""
NAMES = (
    *(
        "json",
        "click",
        "pydantic",
        "pydantic_core",
        "apprise",
        "boto3",
        "botocore",
        "requests",
        "rich",
        "sqlite3",
        "tomllib",
    ),
    *("pynvml", "subprocess", "shutil", "hashlib", "platform", "logging", "ssl", "http", "urllib", "socket", "struct"),
    *(
        "fcntl",
        "pwd",
        "ctypes",
        "tempfile",
        "random",
        "google",
        "azure",
        "costguard_aws",
        "costguard_gcp",
        "costguard_azure",
    ),
)
"""What the command, the guard, its readers and its workers import, now or later."""


class Trapped:
    """The folder, and which of its files ran."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._marker = folder, folder.parent / "ran"
        folder.mkdir()
        for name in NAMES:
            (folder / f"{name}.py").write_text(TRAP.format(marker=str(self._marker), name=name))

    @property
    def ran(self) -> list[str]:
        return self._marker.read_text().split() if self._marker.exists() else []


@pytest.fixture
def trapped(tmp_path: Path) -> Trapped:
    return Trapped(tmp_path / "trap")


@pytest.fixture
def surroundings(tmp_path: Path, nvml_library: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine with one GPU."""
    script = Script(tmp_path / "gpus", gpus=1)
    script.set(0, pci=ADDRESS)
    yield {**os.environ, **script.environment(nvml_library)}
    shutil.rmtree(resolve(str(tmp_path / "state"), os.environ).runtime, ignore_errors=True)


@pytest.mark.parametrize(
    "entry", [[sys.executable, "-m", "costguard"], [str(Path(sys.executable).with_name("costguard"))]]
)
def test_an_agent_and_its_children_import_nothing_from_where_they_were_started(
    entry: list[str], trapped: Trapped, surroundings: dict[str, str], tmp_path: Path
) -> None:
    """Both ways to start it; then every kind of child, by the command line that this agent has for it."""
    argv = [
        *entry,
        "run",
        "--state-dir",
        str(tmp_path / "state"),
        "--set",
        "interval=1s",
        "--set",
        "notify.local=[]",
    ]
    argv += ["--set", f"host.sysfs={write_sysfs(tmp_path / 'sys', [ADDRESS])}", "--set", "cloud.provider=none"]
    with subprocess.Popen(
        argv, cwd=trapped.folder, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as guard:
        assert guard.stderr is not None
        sentence = guard.stderr.readline()
        place = os.readlink(f"/proc/{guard.pid}/cwd")
        given = Path(f"/proc/{guard.pid}/cmdline").read_text().split("\0")
        guard.send_signal(signal.SIGTERM)
        said = sentence + guard.communicate(timeout=30)[1]
    assert "costguard.agent.__main__" in given, said
    assert place == "/"
    assert str(trapped.folder) not in given[given.index("costguard.agent.__main__") + 1].split(":")
    assert (trapped.ran, guard.returncode) == ([], 0), said


def test_no_kind_of_child_imports_from_the_working_directory(trapped: Trapped) -> None:
    """By the command lines that a process computes which itself was started there with -m."""
    source = f"import sys; sys.path.insert(0, {str(trapped.folder)!r}); sys.argv[0] = '-m'\n"
    source += "from costguard.process.command_lines import command_lines\nprint(command_lines())"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=trapped.folder, capture_output=True, text=True, check=True, timeout=30
    )
    assert str(trapped.folder) not in done.stdout
    children = [
        subprocess.Popen(
            argv, cwd=trapped.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name, argv in command_lines().items()
        if name != "guard"
    ]
    for child in children:
        child.wait(timeout=60)
    assert (len(children), trapped.ran) == (len(LIGHT) + len(HEAVY) - 1, [])


@pytest.mark.parametrize("verb", [["config", "check", "--json"], ["config", "show", "--json"], ["permissions", "aws"]])
def test_a_verb_imports_nothing_from_where_it_is_typed(trapped: Trapped, verb: list[str]) -> None:
    """Root looks at a configuration in whatever folder he is."""
    argv = [sys.executable, "-m", "costguard", *verb]
    done = subprocess.run(argv, cwd=trapped.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (trapped.ran, done.returncode) == ([], 0), done.stderr
    if "--json" in verb:
        assert json.loads(done.stdout)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root's agent must mistrust its environment; the suite runs as root and as a user"
)
def test_pythonpath_is_followed_where_only_root_can_write(tmp_path: Path) -> None:
    """An administrator may keep plug-ins there; a folder of somebody else's is left out."""
    (good := tmp_path / "good").mkdir()
    (bad := tmp_path / "bad").mkdir()
    bad.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", "from costguard.process.command_lines import command_lines; print(command_lines()['act'])"],
        env={**os.environ, "PYTHONPATH": f"{bad}:{good}:"}, cwd=bad, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert str(good) in done.stdout
    assert str(bad) not in done.stdout
