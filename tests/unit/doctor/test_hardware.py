"""The bus, the driver, and what to do about what cannot be read."""

from pathlib import Path

import pytest

from costguard.doctor import hardware
from costguard.notify.job import DeliveryResult
from costguard.process.child import EndedError, SilentError, first_answer, first_line
from costguard.readers.nvml.codes import words
from costguard.testing.nvml import write_sysfs

NO_DRIVER_CODES = (1, 3, 4, 9, 12, 13, 15, 16, 17, 18, 27, 999)


def places(folder: Path) -> dict[str, str]:
    for name in ("proc", "dev", "sys/bus"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {"procfs": str(folder / "proc"), "sysfs": str(folder / "sys"), "devfs": str(folder / "dev")}


def test_a_machine_with_everything_has_no_complaint(tmp_path: Path) -> None:
    """The bus, the kernel module with its version, and the device."""
    write_sysfs(tmp_path / "sys", ["0000:01:00.0"])
    here = places(tmp_path)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.148.08  Release Build\nGCC version:  gcc 12.2.0\n"
    )
    (tmp_path / "dev/nvidiactl").touch()
    found = hardware.look(here)
    assert found == hardware.Hardware(True, ("0000:01:00.0",), (), "570.148.08")
    assert [check.level for check in hardware.checks(found, here)] == ["ok", "ok"]


def test_a_gpu_without_driver_or_device_is_told_with_the_next_command(tmp_path: Path) -> None:
    """Each missing part has its own line and its own remedy."""
    write_sysfs(tmp_path / "sys", ["0000:01:00.0"])
    here = places(tmp_path)
    complaints = [check for check in hardware.checks(hardware.look(here), here) if check.level == "warn"]
    assert "kernel module" in complaints[0].text
    assert "modprobe" in complaints[0].hint
    assert "nvidiactl is missing: programs here cannot" in complaints[1].text
    assert all(check.hint for check in complaints)


def test_without_any_gpu_there_is_nothing_to_guard(tmp_path: Path) -> None:
    """That is no success either: somebody who asks expects a GPU."""
    here = places(tmp_path)
    (check,) = hardware.checks(hardware.look(here), here)
    assert check.level == "bad"


def test_what_cannot_be_told_is_not_called_missing(tmp_path: Path) -> None:
    """Without a readable bus there may be a GPU."""
    here = places(tmp_path) | {"sysfs": "/nonexistent"}
    (check,) = hardware.checks(hardware.look(here), here)
    assert check.level == "note"


@pytest.mark.parametrize("code", NO_DRIVER_CODES)
def test_every_known_failure_has_its_own_advice(code: int) -> None:
    """From the reader's own words; no two codes share one, and none falls through to the general one."""
    told = hardware.advice(f"{words(code)} (NVML {code}, DeviceGetUtilizationRates)")
    assert told == hardware.ADVICE[code]
    assert list(hardware.ADVICE.values()).count(told) == 1


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ("the reader did not answer within 5 s and was killed", "the driver hangs"),
        ("readers hang in the driver and cannot be killed; no further one is started", "only a reboot"),
        ("detached on request; `costguard attach` ends that", "uses it again"),
        ("not listed any more", "dmesg"),
        ("failed (NVML 12345, Init)", "nvidia-smi"),
        ("", "nvidia-smi"),
    ],
)
def test_other_words_have_advice_too(said: str, part: str) -> None:
    """Nothing that cannot be read is left without a next step."""
    assert part in hardware.advice(said)


def test_a_program_that_says_nothing_is_not_waited_for() -> None:
    """Nor is one that ends; whatever answers is heard."""
    with pytest.raises(SilentError):
        first_line("act", [], 0.3)
    with pytest.raises(EndedError):
        first_line("cloud", [{"no": "job"}], 20.0)
    said = "internal error: malformed job (message is missing); please report it"
    assert first_answer("notify", DeliveryResult, {"no": "job"}, 20.0) == DeliveryResult(error=said)
