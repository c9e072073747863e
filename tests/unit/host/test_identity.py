"""Which boot and which machine."""

import os
from pathlib import Path

import pytest

from costguard.host import identity

UUID = "EC2B1C9F-6E61-4E0B-9D3B-0242AC120002"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    (tmp_path / "class/dmi/id").mkdir(parents=True)
    return tmp_path


def test_the_boot_id_is_the_kernels() -> None:
    """The same within a boot, and empty when it cannot be read."""
    assert identity.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert identity.boot_id("/nowhere") == ""


def test_the_machine_is_named_by_its_firmware(sysfs: Path) -> None:
    """The DMI product UUID, in lower case: firmware versions differ in that."""
    (sysfs / "class/dmi/id/product_uuid").write_text(f"{UUID}\n")
    assert identity.instance_id(str(sysfs)) == f"dmi:{UUID.lower()}"


@pytest.mark.parametrize("uuid", ["", "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009"])
def test_a_firmware_without_a_name_of_its_own_does_not_count(sysfs: Path, uuid: str) -> None:
    """Placeholders are shared by many machines: the installation's own id is used, else the host name."""
    (sysfs / "class/dmi/id/product_uuid").write_text(uuid)
    (sysfs / "machine-id").write_text("abc123\n")
    assert identity.instance_id(str(sysfs), str(sysfs / "machine-id")) == "machine:abc123"
    assert identity.instance_id(str(sysfs), "/nowhere") == f"host:{os.uname().nodename}"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("root=/dev/sda1 quiet costguard=off", "costguard=off"),
        ("costguard=off\n", "costguard=off"),
        ("root=/dev/sda1 costguard=on", ""),
        ("notcostguard=off costguard=offline", ""),
    ],
)
def test_the_kernel_parameter_is_one_word(tmp_path: Path, line: str, found: str) -> None:
    """Only the very word counts; a /proc that cannot be read has none."""
    (tmp_path / "cmdline").write_text("x" * 300 + " " + line)
    assert identity.escape_hatch(str(tmp_path)) == found
    assert identity.escape_hatch(str(tmp_path / "nothing")) == ""
