"""The disk on which a data centre without a metadata service leaves user data for cloud-init (NoCloud)."""

import subprocess
import tempfile
from pathlib import Path


def drive(path: Path) -> list[str]:
    """Options of a machine that may read this file as a disk."""
    return ["-drive", f"if=virtio,file={path},format=raw,readonly=on"]


def seed(path: Path, instance: str, user_data: str) -> None:
    """What an instance finds on it at its next boot."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "user-data").write_text(user_data)
        (Path(made) / "meta-data").write_text(f"instance-id: {instance}\nlocal-hostname: {instance}\n")
        words = ["xorrisofs", "-quiet", "-V", "CIDATA", "-J", "-r", "-o", str(path), made]
        subprocess.run(words, check=True, capture_output=True)
