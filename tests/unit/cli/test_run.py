"""``costguard run`` up to the moment when it becomes the guard."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from costguard.cli.hardware import nvidia_hardware
from costguard.config.paths import resolve
from costguard.testing.nvml import Script, write_sysfs

ADDRESS = "0000:01:00.0"
NO_DRIVER = 9  # NVML: the driver is not loaded

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script(tmp_path: Path, nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """One GPU that the children of this test see."""
    made = Script(tmp_path / "gpus", gpus=1)
    for name, value in made.environment(nvml_library).items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(*arguments: str, sysfs: Path) -> "subprocess.CompletedProcess[str]":
        machine = tmp_path / "devices"
        machine.mkdir(exist_ok=True)
        argv = [sys.executable, "-m", "costguard", "run", "--state-dir", str(tmp_path / "state")]
        argv += ["--set", f"host.sysfs={sysfs}", "--set", f"host.devfs={machine}", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)

    return start


def no_driver(script: Script) -> None:
    for function in ("nvmlInit_v2", "nvmlInitWithFlags"):
        script.fail(function, NO_DRIVER)


def test_without_nvidia_hardware_it_says_so_and_ends(
    run: Run, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing to watch is no failure: exit code 0, a service that started well, and nothing stays behind."""
    no_driver(script)
    name = f"costguard-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        done = run(sysfs=write_sysfs(tmp_path / "sys", []))
        manager.setblocking(False)
        assert manager.recv(1000).startswith(b"READY=1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No NVIDIA GPU on this machine" in done.stdout
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("devices", [[], [ADDRESS]])
def test_a_driver_that_hangs_is_not_no_gpu(script: Script, tmp_path: Path, devices: list[str]) -> None:
    """A GPU on the bus answers at once; otherwise a reader that says nothing in time leaves it open."""
    for function in ("nvmlInit_v2", "nvmlInitWithFlags"):
        script.hang(function)
    places = {"sysfs": str(write_sysfs(tmp_path / "sys", devices)), "procfs": "/proc", "devfs": str(tmp_path)}
    assert nvidia_hardware(places, seconds=0.5) is (True if devices else None)


def test_a_gpu_that_only_the_library_knows_counts(script: Script, tmp_path: Path) -> None:
    """In some containers the bus is hidden and the driver is not."""
    places = {"sysfs": str(tmp_path / "nothing"), "procfs": "/proc", "devfs": str(tmp_path)}
    assert nvidia_hardware(places) is True


def test_every_problem_of_the_configuration_is_told(run: Run, script: Script, tmp_path: Path) -> None:
    """Exit code 2 before anything is started."""
    done = run("--set", "interval=60s", "--set", "nonsense=1", sysfs=write_sysfs(tmp_path / "sys", [ADDRESS]))
    assert done.returncode == 2
    assert "interval" in done.stderr
    assert "nonsense" in done.stderr


def test_it_says_what_it_will_do_and_becomes_the_guard(script: Script, tmp_path: Path) -> None:
    """Mode, rule, action and place of the state first; then the same process is the guard, and ends on a signal."""
    argv = [
        sys.executable,
        "-m",
        "costguard",
        "run",
        "--state-dir",
        str(tmp_path / "state"),
        "--set",
        "interval=1s",
        "--set",
        "senses.enabled=false",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        assert guard.stderr is not None
        said = [guard.stdout.readline() for _ in range(3)]
        sentence = guard.stderr.readline()
        command = Path(f"/proc/{guard.pid}/cmdline").read_text().split("\0")
        guard.send_signal(signal.SIGTERM)
        guard.communicate(timeout=30)
    shutil.rmtree(resolve(str(tmp_path / "state"), os.environ).runtime)
    assert "Dry run" in said[0]
    assert "for 1h" in said[1]
    assert f"state in {tmp_path}/state" in said[2]
    assert "costguard.agent.__main__" in command
    assert sentence.strip()
    assert guard.returncode == 0
    assert os.path.exists(tmp_path / "state" / "guard.lock")


def test_what_lasts_is_kept_under_the_clouds_own_name(script: Script, tmp_path: Path) -> None:
    """The instance id out of the firmware, which every user may read: another instance of the same image is another one."""
    sysfs = write_sysfs(tmp_path / "sys", [ADDRESS])
    (firmware := Path(sysfs) / "class/dmi/id").mkdir(parents=True)
    (firmware / "sys_vendor").write_text("Amazon EC2\n")
    (firmware / "board_asset_tag").write_text("i-0123456789abcdef0\n")
    argv = [
        sys.executable,
        "-m",
        "costguard",
        "run",
        "--state-dir",
        str(tmp_path / "state"),
        "--set",
        "interval=1s",
        "--set",
        "senses.enabled=false",
    ]
    argv += ["--set", f"host.sysfs={sysfs}", "--set", "cloud.metadata=never"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as guard:
        assert guard.stderr is not None
        guard.stderr.readline()
        guard.terminate()
        guard.communicate(timeout=30)
    shutil.rmtree(resolve(str(tmp_path / "state"), os.environ).runtime)
    kept = json.loads((tmp_path / "state" / "commitments.json").read_text())
    assert kept["instance"] == "aws:i-0123456789abcdef0"


def test_nobody_who_reads_its_words_is_no_reason_to_wait(script: Script, tmp_path: Path) -> None:
    """With standard output a pipe that is full, there is a guard all the same; the words are dropped."""
    state = str(tmp_path / "state")
    reading, writing = os.pipe2(os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(writing, b"x" * 65536):
            pass
    os.set_blocking(writing, True)
    argv = [
        sys.executable,
        "-m",
        "costguard",
        "run",
        "--state-dir",
        state,
        "--set",
        "interval=1s",
        "--set",
        "senses.enabled=false",
    ]
    with subprocess.Popen(argv, stdout=writing, stderr=subprocess.PIPE, text=True) as guard:
        assert guard.stderr is not None
        try:
            assert select.select([guard.stderr], [], [], 15.0)[0], "the guard speaks"
        finally:
            guard.terminate()
            os.close(writing)
            os.close(reading)
        guard.communicate(timeout=30)
    shutil.rmtree(resolve(state, os.environ).runtime)


def test_a_second_agent_promises_nothing(run: Run, script: Script, tmp_path: Path) -> None:
    """It ends at the lock of the first with exit code 3, and does not say before that it watches."""
    sysfs = write_sysfs(tmp_path / "sys", [ADDRESS])
    argv = [sys.executable, "-m", "costguard", "run", "--state-dir", str(tmp_path / "state")]
    argv += ["--set", "interval=1s", "--set", "senses.enabled=false", "--set", f"host.sysfs={sysfs}"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        first.stderr.readline()  # it holds the lock
        second = run(sysfs=sysfs)
        first.terminate()
        first.communicate(timeout=30)
    shutil.rmtree(resolve(str(tmp_path / "state"), os.environ).runtime)
    assert second.returncode == 3
    assert second.stdout == ""
    assert "another costguard agent is already running" in second.stderr


def test_what_cannot_be_started_is_named(script: Script, tmp_path: Path) -> None:
    """The words of the system alone name no file."""
    source = "import sys; from costguard.cli.main import main; sys.executable = sys.argv.pop(1); main()"
    file = tmp_path / "python"
    file.write_text("no program\n")
    file.chmod(0o644)
    sysfs = write_sysfs(tmp_path / "sys", [ADDRESS])
    argv = [sys.executable, "-c", source, str(file), "run", "--state-dir", str(tmp_path / "state")]
    argv += ["--set", f"host.sysfs={sysfs}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"(Permission denied: {file})" in done.stderr
