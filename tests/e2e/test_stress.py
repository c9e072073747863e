"""The installed `costguard stress` on a stand-in NVIDIA library and a stand-in PyTorch, which writes down what is asked of it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.workloads.load import MATRIX_LIMIT
from tests.json_page import fields, listed

from . import torch_standin
from .filled import QUICK, Filled, somebody
from .guarded import PATIENCE, UUIDS, until

MIB = 1 << 20


class Stressed(Filled):
    """Two GPUs, and a PyTorch that only the load finds."""

    def __init__(self, folder: Path, library: Path) -> None:
        super().__init__(folder, library)
        (folder / "lib").mkdir()
        shutil.copy(torch_standin.__file__, folder / "lib" / "torch.py")
        self.gpus.set(temperature=64, power=640)
        self.environment |= {"PYTHONPATH": f"{os.getcwd()}:{folder}/lib", "TORCH_LOG": str(folder / "calls")}

    def stress(self, *options: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "costguard", "stress", *options], env=self.environment, cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def run_stress(self, *options: str) -> tuple[int, str, str]:
        process = self.stress(*options)
        out, err = process.communicate(timeout=PATIENCE)
        self.until_gone()
        return process.returncode, out.decode(), err.decode()

    def calls(self, name: str) -> list[list[Any]]:
        """What was asked of PyTorch: moment, process, its GPUs, the call, facts."""
        path = self.folder / "calls"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line[3] == name]


@pytest.fixture
def stressed(tmp_path: Path, nvml_library: Path) -> Iterator[Stressed]:
    made = Stressed(tmp_path, nvml_library)
    yield made
    made.clean_up()


def test_it_holds_and_computes_and_sums_up(stressed: Stressed) -> None:
    """Stressor: 88 % of what is free on each GPU, by UUID, in chunks of 512 MiB; the end tells heat and power."""
    code, out, err = stressed.run_stress("--duration", "2s")
    assert (code, err) == (0, "")
    for uuid in UUIDS:
        sizes = [call[4] for call in stressed.calls("empty") if call[2] == uuid]
        assert sizes[:-1] == [512 * MIB] * 7
        assert sum(sizes) == pytest.approx(4096 * MIB * 0.88, abs=4)
        assert [call for call in stressed.calls("mul") if call[2] == uuid]
    words = r"GPU \d: 2(\.\d)?s, 3\.5 GiB held in 8 chunks; at most 64 °C, 64 °C on average; at most 640 W, 640 W on average"
    assert [bool(re.fullmatch(words, line)) for line in out.splitlines()] == [True, True], out


def test_products_stay_within_a_chunk(stressed: Stressed) -> None:
    """Stressor: no memory beside what is held, so that the load itself never runs out of it."""
    assert (
        stressed.run_stress(
            "--work", "matmul", "--gpus", "1", "--duration", "1s", "--chunk", "16MiB", "--memory", "5%"
        )[0]
        == 0
    )
    sizes = {call[4] for call in stressed.calls("matmul")}
    assert sizes == {int((16 * MIB / 4 / 3) ** 0.5) ** 2}
    assert {call[2] for call in stressed.calls("empty")} == {UUIDS[1]}
    assert max(call[0] for call in stressed.calls("empty")) < min(call[0] for call in stressed.calls("matmul"))
    assert max(sizes) <= MATRIX_LIMIT**2


def test_to_hold_is_not_to_compute(stressed: Stressed) -> None:
    """Stressor: for a reservation."""
    assert stressed.run_stress("--work", "hold", "--gpus", "0", "--duration", "1s")[0] == 0
    assert stressed.calls("empty")
    assert not stressed.calls("mul")


def test_the_load_is_the_one_that_is_asked_for(stressed: Stressed) -> None:
    """A share of each tenth of a second."""
    stressed.environment["TORCH_STEP"] = "0.01"
    assert stressed.run_stress("--load", "30%", "--gpus", "0", "--duration", "3s")[0] == 0
    begun, done = stressed.calls("mul"), stressed.calls("done")
    busy = sum(end[0] - start[0] for start, end in zip(begun, done, strict=False))
    assert 0.15 < busy / (done[-1][0] - begun[0][0]) < 0.5


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_gpu_is_released_within_a_second(stressed: Stressed, number: int, deaf: bool) -> None:
    """Also in the middle of a long step, and where PyTorch does not heed TERM; to be told is no failure."""
    stressed.environment |= {"TORCH_STEP": "1000"} | ({"TORCH_DEAF": "1"} if deaf else {})
    process = stressed.stress()
    until(lambda: len({call[1] for call in stressed.calls("mul")}) == 2)
    loads = {call[1] for call in stressed.calls("mul")}
    process.send_signal(number)
    told = time.monotonic()
    until(lambda: not loads & {one.pid for one in stressed.ours()})
    assert time.monotonic() - told < 1.0
    assert process.wait(PATIENCE) == 0
    stressed.until_gone()


def test_nobody_outlives_it_when_it_is_killed(stressed: Stressed) -> None:
    """Stressor: kill -9 leaves no load on a GPU."""
    stressed.environment["TORCH_DEAF"] = "1"
    process = stressed.stress()
    until(lambda: len({call[1] for call in stressed.calls("mul")}) == 2)
    process.kill()
    process.wait(PATIENCE)
    stressed.until_gone()


def test_without_pytorch_it_says_what_to_install(stressed: Stressed) -> None:
    """And exits with 3."""
    stressed.environment["PYTHONPATH"] = os.getcwd()
    code, out, err = stressed.run_stress()
    assert (code, out) == (3, "")
    assert "costguard's Python has no PyTorch" in err
    assert "'torch>=2.2'`" in err
    code, _out, err = stressed.run_stress("--python", "/no/python")
    assert code == 2
    assert "/no/python cannot be run: No such file or directory" in err


def test_less_memory_than_asked_for_is_said(stressed: Stressed) -> None:
    """Stressor: what another one took meanwhile is no failure."""
    stressed.environment["TORCH_MOST_MIB"] = "1024"
    code, out, _err = stressed.run_stress("--gpus", "0", "--duration", "1s")
    assert code == 0
    assert "1.0 GiB held in 2 chunks (less than asked for: CUDA out of memory.)" in out
    assert stressed.calls("mul")


def test_memory_that_runs_out_while_it_computes_costs_a_chunk(stressed: Stressed) -> None:
    """Stressor: the loop's own need must not end the load."""
    stressed.environment |= {"TORCH_MOST_MIB": "3584", "TORCH_FULL": "1"}
    assert stressed.run_stress("--gpus", "0", "--duration", "1s", "--memory", "100%")[0] == 0
    assert stressed.calls("mul")


def test_a_load_that_fails_is_a_failure(stressed: Stressed) -> None:
    """Exit code 1, at once, and the GPU is named."""
    stressed.environment["TORCH_BLIND"] = "1"
    code, out, _err = stressed.run_stress("--gpus", "0")
    assert code == 1
    assert "GPU 0: failed after" in out
    assert "PyTorch finds no GPU" in out


def test_a_pytorch_that_cannot_be_loaded_is_named(stressed: Stressed) -> None:
    """Its own error, and no trace of our program."""
    stressed.environment["TORCH_BROKEN"] = "1"
    code, out, err = stressed.run_stress("--gpus", "0")
    assert (code, err) == (1, "")
    assert "PyTorch cannot be loaded: OSError: libcudart.so.12: cannot open" in out


def test_a_load_that_closes_its_output_and_lives_on_is_ended(stressed: Stressed) -> None:
    """It can say nothing any more; neither its time nor a signal waits for it."""
    stressed.environment["TORCH_CLOSES"] = "1"
    code, out, _err = stressed.run_stress("--gpus", "0", "--duration", "2s")
    assert code == 1
    assert "GPU 0: failed after" in out


def test_a_load_that_never_began_is_a_failure(stressed: Stressed) -> None:
    """A burn-in that held nothing has shown nothing."""
    stressed.environment["TORCH_SLOW"] = "1"
    code, out, _err = stressed.run_stress("--gpus", "0", "--duration", "1s")
    assert code == 1
    assert "it held no memory when its time was over" in out


def test_one_that_fails_is_said_at_once_while_the_others_go_on(stressed: Stressed) -> None:
    """They may go on for days, and nobody would hear of it."""
    stressed.environment["TORCH_BREAKS_ON"] = UUIDS[1]
    process = stressed.stress()
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    assert (
        said
        == "costguard stress: GPU 1 failed: RuntimeError: CUDA error: an illegal memory access was encountered; the others go on\n"
    )
    assert process.poll() is None
    process.terminate()
    assert process.wait(PATIENCE) == 1
    stressed.until_gone()


def test_whom_the_load_starts_is_ended_with_it(stressed: Stressed) -> None:
    """Also in a session of its own, and deaf."""
    stressed.environment["TORCH_HELPER"] = "1"
    process = stressed.stress()
    until(lambda: len({call[1] for call in stressed.calls("mul")}) == 2)
    assert len(stressed.ours()) >= 6  # costguard, its reader, and two of each load
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert not [one for one in stressed.ours() if one.pid != process.pid]


def test_gpus_that_are_not_there_are_refused(stressed: Stressed) -> None:
    """2 for one that is named, 3 where there is none; nothing was started."""
    code, _out, err = stressed.run_stress("--gpus", "7")
    assert code == 2
    assert f"there is no GPU 7 to use\nhint: there are 0 ({UUIDS[0]}), 1 ({UUIDS[1]})" in err
    stressed.environment["CUDA_VISIBLE_DEVICES"] = UUIDS[1]
    assert stressed.run_stress("--gpus", "0")[0] == 2
    del stressed.environment["CUDA_VISIBLE_DEVICES"]
    stressed.gpus.fail("nvmlInit", 9)
    code, _out, err = stressed.run_stress()
    assert code == 3
    assert "no GPU can be used: the driver is not loaded" in err
    assert not stressed.calls("empty")


def test_sensors_that_fail_cost_the_summary_and_not_the_load(stressed: Stressed) -> None:
    """They are unknown then, not 0."""
    for function in ("nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage"):
        stressed.gpus.fail(function, 3)
    code, out, _err = stressed.run_stress("--gpus", "0", "--duration", "2s")
    assert code == 0
    assert out.endswith("; temperature unknown; power unknown\n")


def test_a_dry_run_starts_nothing(stressed: Stressed) -> None:
    """It says what would be done."""
    code, out, _err = stressed.run_stress("--dry-run", "--load", "30%", "--duration", "10m")
    assert code == 0
    assert out.splitlines()[0] == (
        f"DRY RUN: would take 88% of the free memory of GPU 0 ({UUIDS[0]}) and compute (elementwise, 30% of the time), for 10m"
    )
    assert not stressed.calls("empty")


def test_a_dry_run_finds_what_the_load_would_miss(stressed: Stressed) -> None:
    """The Python, and PyTorch in it, with the exit codes of the load itself."""
    code, out, err = stressed.run_stress("--dry-run", "--python", "/no/python")
    assert (code, out) == (2, "")
    assert "/no/python cannot be run: No such file or directory" in err
    stressed.environment["PYTHONPATH"] = os.getcwd()
    code, out, err = stressed.run_stress("--dry-run")
    assert (code, out) == (3, "")
    assert "costguard's Python has no PyTorch (No module named 'torch')" in err


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--duration", "0s", "0s is zero; allowed: more than 0s, such as 30s, 10m, 1h30m"),
        ("--load", "0%", "0% is zero; allowed: more than 0%, up to 100%"),
        ("--load", "101%", "101% is not a share; allowed: more than 0%, up to 100%"),
        ("--memory", "0", "0 is zero; allowed: more than 0%, up to 100%"),
        ("--chunk", "1KiB", "1KiB is out of range; allowed: 1MiB to 1TiB, such as 512MiB"),
        ("--chunk", "2TiB", "2TiB is out of range; allowed: 1MiB to 1TiB, such as 512MiB"),
        ("--python", "", "it is empty; allowed: a program, such as /usr/bin/python3"),
    ],
)
def test_a_value_that_loads_nothing_is_refused(stressed: Stressed, option: str, value: str, allowed: str) -> None:
    """At once, without a look at a GPU or for PyTorch, with what is allowed."""
    stressed.gpus.fail("nvmlInit", 9)
    code, out, err = stressed.run_stress(option, value)
    assert (code, out) == (2, "")
    assert f"error: {option}: {allowed}\n" in err


def test_the_summary_for_programs_is_that_of_the_page(stressed: Stressed) -> None:
    """Every field stands in docs/json.md, and each comes."""
    code, out, _err = stressed.run_stress("--duration", "1.5s", "--json")
    answer = json.loads(out)
    assert code == 0
    assert fields("stress", [answer]) == listed()["stress"]
    assert [row["gpu"] for row in answer["gpus"]] == [0, 1]
    assert answer["gpus"][0]["temperature_max"] == 64


def test_as_background_work_it_makes_room(stressed: Stressed) -> None:
    """Stressor: the stressor on each idle GPU, gone within two seconds when somebody comes, and that one is not touched."""
    process = stressed.start(*QUICK, "--grace", "1s", "--", sys.executable, "-m", "costguard", "stress")
    until(lambda: {call[2] for call in stressed.calls("mul")} == set(UUIDS), told=lambda: stressed.said)
    loads = {call[2]: call[1] for call in stressed.calls("mul")}
    with somebody() as newcomer:
        came = time.monotonic()
        stressed.on_gpu(0, newcomer.pid, loads[UUIDS[0]])
        until(lambda: loads[UUIDS[0]] not in {one.pid for one in stressed.ours()})
        assert time.monotonic() - came < 2.0
        assert loads[UUIDS[1]] in {one.pid for one in stressed.ours()}
        stressed.end(process)
