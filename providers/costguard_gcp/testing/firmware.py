"""The files under ``/sys`` and ``/proc`` that a Compute Engine machine has."""

import pathlib

from costguard_gcp.testing.machine import Machine

_N1_GPUS = {"nvidia-tesla-t4": "0x1eb8", "nvidia-tesla-v100": "0x1db1", "nvidia-tesla-p100": "0x15f8"}


def firmware(folder: pathlib.Path, machine: Machine) -> tuple[str, str]:
    """Write them; the paths of ``sysfs`` and ``procfs``."""
    sysfs, procfs = folder / "sys", folder / "proc"
    _write(sysfs / "class/dmi/id/product_name", "Google Compute Engine")
    _write(sysfs / "class/dmi/id/sys_vendor", "Google")
    mounts = ["/dev/sda1 / ext4 rw 0 0"]
    _disk(sysfs, "sda", "PersistentDisk", written=True)
    (procfs / "self/root").mkdir(parents=True, exist_ok=True)
    for number, disk in enumerate(machine.local_ssds):
        name = f"nvme0n{number + 1}"
        _disk(sysfs, name, f"nvme_card{number}", written=disk.written)
        if disk.partitioned:
            _write(sysfs / "block" / name / f"{name}p1" / "size", "786432000")
        if disk.mounted:
            mounts.append(f"/dev/{name} /scratch{number} ext4 rw 0 0")
            place = procfs / "self/root" / f"scratch{number}"
            (place / "lost+found").mkdir(parents=True, exist_ok=True)
            if not disk.empty:
                _write(place / "checkpoint", "x")
    for number, (kind, count) in enumerate(machine.gpus.items()):
        for index in range(count):
            device = sysfs / "bus/pci/devices" / f"0000:{number:02x}:{index:02x}.0"
            _write(device / "vendor", "0x10de")
            _write(device / "device", _N1_GPUS.get(kind, "0x27b8"))
    _write(procfs / "self/mounts", "\n".join(mounts))
    _write(procfs / "swaps", "Filename Type Size Used Priority")
    _write(procfs / "uptime", f"{machine.age:.2f} 1.00")
    _write(procfs / "sys/kernel/hostname", machine.name)
    return str(sysfs), str(procfs)


def _disk(sysfs: pathlib.Path, name: str, model: str, *, written: bool) -> None:
    _write(sysfs / "block" / name / "device/model", model)
    _write(sysfs / "block" / name / "stat", f"10 0 80 1 {5 if written else 0} 0 {40 if written else 0} 1 0 1 1")
    (sysfs / "block" / name / "holders").mkdir(parents=True, exist_ok=True)


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
