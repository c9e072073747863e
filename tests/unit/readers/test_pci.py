"""The PCI bus: which GPUs the machine should have."""

from pathlib import Path

import pytest

from costguard.readers.nvml.pci import Bus
from costguard.testing.nvml import write_sysfs


def bus(root: Path) -> Bus:
    found = Bus(str(root), str(root / "dev"))
    found.look()
    return found


def test_only_display_devices_of_nvidia_are_expected(tmp_path: Path) -> None:
    """Other vendors, and NVIDIA's sound and USB controllers, are no GPUs."""
    write_sysfs(tmp_path, ["0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:03:00.0"])
    devices = tmp_path / "bus/pci/devices"
    (devices / "0000:01:00.1/class").write_text("0x040300\n")
    (devices / "0000:02:00.0/vendor").write_text("0x1002\n")
    (devices / "0000:03:00.0/class").write_text("0x030000\n")
    assert bus(tmp_path).expected == ["0000:01:00.0", "0000:03:00.0"]


@pytest.mark.parametrize(("driver", "ours"), [("nvidia", True), (None, True), ("vfio-pci", False), ("nouveau", False)])
def test_another_driver_takes_a_gpu_away(tmp_path: Path, driver: str | None, ours: bool) -> None:
    """A GPU without a driver may still be NVIDIA's to come; one that another driver has is not ours to judge."""
    write_sysfs(tmp_path, ["0000:01:00.0"], driver=driver)
    found = bus(tmp_path)
    assert (found.expected, found.elsewhere) == ((["0000:01:00.0"], []) if ours else ([], ["0000:01:00.0"]))
    assert found.hardware() is True


def test_virtual_function_is_covered_by_its_parent(tmp_path: Path) -> None:
    """NVML lists the parent of a virtual GPU, so only that is expected."""
    write_sysfs(tmp_path, ["0000:01:00.0", "0000:01:00.4"])
    (tmp_path / "bus/pci/devices/0000:01:00.4/physfn").symlink_to("../0000:01:00.0")
    assert bus(tmp_path).expected == ["0000:01:00.0"]


def test_bus_is_read_again_only_after_a_change(tmp_path: Path) -> None:
    """Nothing new: no second reading; a device that came or went is noticed."""
    write_sysfs(tmp_path, ["0000:01:00.0"])
    found = Bus(str(tmp_path))
    assert [found.look(), found.look()] == [True, False]
    write_sysfs(tmp_path, ["0000:02:00.0"])
    assert found.look()
    assert found.expected == ["0000:01:00.0", "0000:02:00.0"]


def test_device_taken_by_another_driver_is_noticed(tmp_path: Path) -> None:
    """The list of devices is the same, their driver is not."""
    write_sysfs(tmp_path, ["0000:01:00.0"])
    found = bus(tmp_path)
    (tmp_path / "bus/pci/drivers/nvidia/0000:01:00.0").unlink()
    driver = tmp_path / "bus/pci/devices/0000:01:00.0/driver"
    driver.unlink()
    driver.symlink_to("../../drivers/vfio-pci")
    assert found.look()
    assert found.expected == []


def test_no_bus_is_not_no_gpu(tmp_path: Path) -> None:
    """Without a readable /sys nobody knows; with an empty one there is no GPU, unless a device node says otherwise."""
    assert bus(tmp_path / "missing").hardware() is None
    write_sysfs(tmp_path, [])
    assert bus(tmp_path).hardware() is False
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert bus(tmp_path).hardware() is None


def test_a_bus_at_which_nobody_looked_says_nothing(tmp_path: Path) -> None:
    """Not even an empty one."""
    write_sysfs(tmp_path, [])
    assert Bus(str(tmp_path), str(tmp_path / "dev")).hardware() is None


@pytest.mark.parametrize("file", ["vendor", "class"])
def test_a_device_that_cannot_be_read_may_be_a_gpu(tmp_path: Path, file: str) -> None:
    """Whichever of several it is; one that went away while we looked was none."""
    write_sysfs(tmp_path, ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"])
    devices = tmp_path / "bus/pci/devices"
    for address in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (devices / address / "vendor").write_text("0x8086\n")
    assert bus(tmp_path).hardware() is False
    (devices / "0000:02:00.0" / file).unlink()
    assert bus(tmp_path).hardware() is False
    (devices / "0000:02:00.0" / file).mkdir()
    assert bus(tmp_path).hardware() is None
    found = bus(tmp_path)
    (devices / "0000:02:00.0" / file).rmdir()
    write_sysfs(tmp_path, ["0000:04:00.0"])
    (devices / "0000:04:00.0/vendor").write_text("0x8086\n")
    assert (found.look(), found.hardware()) == (True, False)


def test_a_bus_that_cannot_be_listed_says_nothing(tmp_path: Path) -> None:
    """Neither that there are GPUs nor that there are none; what was known of it stays."""
    (tmp_path / "sick/bus/pci").mkdir(parents=True)
    (tmp_path / "sick/bus/pci/devices").symlink_to("devices")  # a loop: there, and not to be listed
    found = bus(tmp_path / "sick")
    assert (found.look(), found.expected, found.elsewhere, found.hardware()) == (False, [], [], None)
    write_sysfs(tmp_path, ["0000:01:00.0"])
    known, devices = bus(tmp_path), tmp_path / "bus/pci/devices"
    devices.rename(tmp_path / "aside")
    devices.symlink_to("devices")
    assert (known.look(), known.expected, known.hardware()) == (False, ["0000:01:00.0"], True)
    devices.unlink()
    (tmp_path / "aside").rename(devices)
    assert (known.look(), known.look(), known.expected) == (True, False, ["0000:01:00.0"])
