"""The two verbs, as people call them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from costguard.replay.formats.files import read
from costguard.testing.nvml import Script, write_sysfs

ADDRESSES = ["0000:01:00.0", "0000:02:00.0"]
POLICY = "kill_duration=10m, grace=1m, boot_grace=0s, unused_after=off"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed times are local; the tests live in UTC, without anybody's own configuration."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in [name for name in os.environ if name.startswith("COSTGUARD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five minutes of work, half an hour of nothing, five minutes of work."""
    loads = [90] * 30 + [0] * 180 + [90] * 30
    rows = [
        f"2026/01/31 {10 + k // 360}:{k // 6 % 60:02}:{10 * (k % 6):02}.000, 0, {load} %"
        for k, load in enumerate(loads)
    ]
    file = tmp_path / "log.csv"
    file.write_text("timestamp, index, utilization.gpu [%]\n" + "\n".join(rows) + "\n")
    return file


def replay(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["replay", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_time_line_and_numbers(log: Path) -> None:
    """Each decision with its local time and sentence, then what came of it."""
    code, out, _ = replay(str(log), "--policy", POLICY)
    assert code == 0
    lines = out.splitlines()
    (stop,) = [line for line in lines if line.startswith("2026-01-31") and "  stop  " in line]
    assert stop.startswith("2026-01-31 10:15:50")
    assert "DONE: " in stop
    assert [line.split()[-1] for line in lines if line.startswith(("stops ", "work came back within"))] == ["1", "1"]


def test_json_and_every_sample_agree(log: Path) -> None:
    """Programs get the same decisions, also when every sample is asked about."""
    code, out, _ = replay(str(log), "--policy", POLICY, "--json")
    each = json.loads(replay(str(log), "--policy", POLICY, "--json", "--every-sample")[1])
    few = json.loads(out)
    assert code == 0
    machine, other = few["policies"][0]["machines"][0], each["policies"][0]["machines"][0]
    assert machine["decisions"] == other["decisions"]
    assert machine["steps"] < other["steps"]
    assert few["policies"][0]["summary"]["recovered_interrupted"] == pytest.approx(1140 / 3600)


def test_policies_side_by_side(log: Path, tmp_path: Path) -> None:
    """A file, a preset and settings; more than four of them as one line each."""
    (tmp_path / "a.toml").write_text('kill_duration = "10m"\n')
    specs = [
        str(tmp_path / "a.toml"),
        "preset:gpu-sentinel",
        "preset:gpu-idle-timeout-any",
        POLICY,
        "gpu_devices=0, grace=1m",
    ]
    code, out, _ = replay(str(log), *[part for spec in specs for part in ("--policy", spec)], "--no-timeline")
    assert code == 0
    rows = [
        line for line in out.splitlines() if line.startswith(("a.toml ", "preset:", "kill_duration=", "gpu_devices="))
    ]
    assert len(rows) == 5


def test_several_bad_policies_are_exit_code_2(log: Path) -> None:
    """A file that is none, a preset that is none, a setting that is none."""
    for spec in ("nowhere.toml", "preset:nothing", "kill_duration=soon", "no_such_key=1"):
        code, _, err = replay(str(log), "--policy", spec)
        assert code == 2
        assert err.startswith("error: ")


def test_a_bad_policy_is_named(log: Path) -> None:
    """Among several, whoever asked must see which one; and nothing is about to start."""
    code, _, err = replay(str(log), "--policy", POLICY, "--policy", "kill_duration=soon, grace=5m")
    assert code == 2
    assert err.startswith("error: the policy 'kill_duration=soon, grace=5m' cannot be replayed:\n  At 'kill_duration'")
    assert "does not start" not in err


def test_a_recording_that_is_none_is_exit_code_2(tmp_path: Path) -> None:
    """The error names file, line, what was read and what is allowed."""
    (tmp_path / "log.csv").write_text("timestamp, utilization.gpu [%]\n2026/01/31 10:00:00, much\n")
    code, _, err = replay(str(tmp_path / "log.csv"))
    assert code == 2
    assert "log.csv:2: 'much' is not a load" in err
    assert replay(str(tmp_path / "nothing.csv"))[0] == 2


def test_too_coarse_is_said(tmp_path: Path) -> None:
    """Samples of 15 minutes prove little about a window of two hours, and nothing about a countdown of ten minutes."""
    rows = "".join(f"{1.75e9 + 900 * k},0,0\n" for k in range(20))
    (tmp_path / "log.csv").write_text("Time,GPU_ID,Utilization\n" + rows)
    assert "too coarse" in replay(str(tmp_path / "log.csv"), "--policy", "kill_duration=30m")[2]
    for policy, said in (
        ("kill_duration=2h, grace=20m", True),
        ("kill_duration=3h", True),
        ("kill_duration=3h, grace=20m", False),
    ):
        assert ("too coarse" in replay(str(tmp_path / "log.csv"), "--policy", policy)[2]) is said


def test_from_a_pipe(log: Path) -> None:
    """A dash reads standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "costguard", "replay", "-", "--policy", POLICY, "--no-timeline"],
        input=log.read_bytes(), capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"standard input: 1 GPU, 240 rows" in done.stdout


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_record_and_replay(tmp_path: Path, nvml_library: Path, ending: signal.Signals) -> None:
    """Two GPUs, one of which cannot be read; ended by a signal, the file is whole and can be replayed."""
    gpus = Script(tmp_path / "gpus", gpus=2, name="NVIDIA H200")
    for index, address in enumerate(ADDRESSES):
        gpus.set(index, pci=address)
    gpus.set(0, util=73)
    gpus.fail("nvmlDeviceGetUtilizationRates", 15, gpu=1)
    gpus.fail("nvmlDeviceGetSamples", 15, gpu=1)
    sysfs = write_sysfs(tmp_path / "sys", ADDRESSES)
    out = tmp_path / "made.jsonl.gz"
    command = [
        sys.executable,
        "-m",
        "costguard",
        "record",
        "--out",
        str(out),
        "--interval",
        "0.1s",
        "--sysfs",
        str(sysfs),
    ]
    process = subprocess.Popen(command, env=os.environ | gpus.environment(nvml_library), stderr=subprocess.PIPE)
    end = time.monotonic() + 20
    while time.monotonic() < end and not (out.exists() and out.stat().st_size > 400):
        time.sleep(0.1)
    process.send_signal(ending)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    (found,) = read(str(out)).traces
    assert [device.key for device in found.devices] == ADDRESSES
    assert found.interval == pytest.approx(0.1, abs=0.05)
    assert any(getattr(reading, "load", None) == 0.73 for reading in found.column(0))
    assert all(hasattr(reading, "reason") for reading in found.column(1))
    assert replay(str(out), "--policy", "preset:gpu-sentinel")[0] == 0


def test_record_never_overwrites(tmp_path: Path) -> None:
    """Exit code 2, and the file is as it was."""
    (tmp_path / "made").write_text("mine")
    sysfs = write_sysfs(tmp_path / "sys", ADDRESSES)
    asked = ["record", "--out", str(tmp_path / "made"), "--duration", "1s", "--sysfs", str(sysfs)]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 2
    assert (tmp_path / "made").read_text() == "mine"


def test_record_without_hardware_ends(tmp_path: Path, nvml_library: Path) -> None:
    """As `run` does: it says so, ends with exit code 0, and leaves no file."""
    gpus = Script(tmp_path / "gpus", gpus=0)
    for function in ("nvmlInit_v2", "nvmlInitWithFlags"):
        gpus.fail(function, 9)  # NVML: the driver is not loaded
    command = [sys.executable, "-m", "costguard", "record", "--out", str(tmp_path / "made"), "--duration", "2s"]
    command += ["--sysfs", str(write_sysfs(tmp_path / "sys", []))]
    environment = os.environ | gpus.environment(nvml_library)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No NVIDIA GPU on this machine")
    assert not (tmp_path / "made").exists()


RECORDED = """\
{"costguard_trace": 1, "version": "0.1.0", "began": 1767225600, "interval": 60.0}
{"gpus": [{"key": "g0", "index": 0, "uuid": "GPU-1", "name": "X"}]}
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Work, then a rest of two hours in which somebody typed, then work."""
    lines = [json.dumps([60.0 * k, 0.8 if k < 30 or k > 150 else 0.0]) for k in range(200)]
    lines.insert(30, json.dumps({"at": 1800.0, "senses": [["terminals", "ann\x1b[31m typed", False, False, "rest"]]}))
    file = tmp_path / "seen.jsonl"
    file.write_text(RECORDED + "\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("option", "stops"),
    [
        ("grace=1m", 0),
        ("senses.jupyter.enabled=false", 0),
        ("senses.enabled=false", 1),
        ("senses.terminals.enabled=false", 1),
    ],
)
def test_a_policy_that_switches_a_sense_off_is_replayed_without_it(seen: Path, option: str, stops: int) -> None:
    """Otherwise its wrong stops are hidden; and it is told."""
    code, out, err = replay(str(seen), "--policy", f"{POLICY}, {option}", "--json")
    (policy,) = json.loads(out)["policies"]
    assert (code, policy["summary"]["stops"], policy["summary"]["back_ever"]) == (0, stops, stops)
    assert bool(policy["senses"]) is (stops == 0)
    assert ("terminals recorded, but switched off here" in err) is (stops == 1)


def test_a_preset_without_senses_is_replayed_without_them(seen: Path) -> None:
    """As that tool would have stopped it."""
    _, out, _ = replay(str(seen), "--preset", "gpu-idle-timeout", "--json")
    assert json.loads(out)["policies"][0]["summary"]["back_ever"] == 1


def test_foreign_names_cannot_steer_a_terminal(tmp_path: Path, seen: Path) -> None:
    """Names of machines, files and policies, and what senses saw."""
    rows = [f"evil\x1b]0;x\x07,{1_767_225_600 + 60 * k},{90 if k < 30 else 0}" for k in range(200)]
    table = tmp_path / "a\x1b[2Jb.csv"
    table.write_text(
        "\n".join(["node,timestamp,utilization.gpu [%]", *rows, *[row.replace("evil", "m") for row in rows]])
    )
    policy = tmp_path / "p\x1b[1m.toml"
    policy.write_text("kill_duration = '10m'\n")
    for arguments in ([str(table), "--policy", str(policy)], [str(seen)], [str(seen), str(table), "--policy", POLICY]):
        code, out, err = replay(*arguments)
        assert code == 0
        assert "evil" in out or "ann" in out
        assert "\x1b" not in out + err
        assert "\x07" not in out + err


def test_two_prices_contradict_each_other(log: Path) -> None:
    """An amount in a currency that nobody chose is none."""
    code, _, err = replay(str(log), "--price", "3 GBP", "--policy", "kill_duration=30m,price_per_hour=1")
    assert code == 2
    assert "names a price, and so does --price" in err


@pytest.mark.parametrize(("action", "amount"), [("stop", "0.63"), ("reboot", "0.00")])
def test_an_action_that_ends_no_bill_saves_no_money(log: Path, action: str, amount: str) -> None:
    """And that is said."""
    _, out, err = replay(str(log), "--price", "2", "--policy", f"{POLICY}, kill_action={action}")
    assert f"about {amount} USD" in next(line for line in out.splitlines() if line.startswith("hours recovered"))
    assert ("ends no bill" in err) is (action == "reboot")


def test_the_time_line_begins_with_its_beginning(log: Path) -> None:
    """Also where the guard is armed by the first sample."""
    _, out, _ = replay(str(log), "--policy", f"{POLICY}, arm_duration=0s")
    kinds = [line.split()[2] for line in out.splitlines() if line.startswith("2026-01-31")]
    assert kinds[:2] == ["begin", "armed"]


def test_a_servers_warning_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """It is told on one line of standard error, without its control characters."""
    values = [[1_750_000_000 + 30 * k, "0"] for k in range(9)]
    one = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "Hostname": "a", "gpu": "0"}, "values": values}
    said = {"status": "success", "warnings": ["1 store\n\x1b[2Jtimed out"], "data": {"result": [one]}}
    (tmp_path / "answer.json").write_text(json.dumps(said))
    code, _, errors = replay(str(tmp_path / "answer.json"), "--policy", POLICY)
    assert code == 0, errors
    assert "note: the server warns of its answer: 1 store  [2Jtimed out\n" in errors
