"""An upgrade is typed as docs/service.md says, and then it is one."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def build(folder: Path, text: str) -> Path:
    """A wheel of one module, which says which build it is; all of them have one version."""
    folder.mkdir()
    wheel = folder / "guard-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("guard.py", f"print({text!r})\n")
        file.writestr("guard-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: guard\nVersion: 1.0\n")
        file.writestr("guard-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("guard-1.0.dist-info/RECORD", "guard.py,,\n")
    return wheel


def test_another_build_of_the_same_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """As every wheel of a checkout is one: pip alone would leave the old code, and say so to nobody who types --quiet."""
    (upgrade,) = re.findall(r"(?m)^\| venv \|.*\|(.*)\|$", PAGE.read_text(encoding="utf-8"))
    options = re.findall(r"`(--\S+)`", upgrade)
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    for text, more in (("old", []), ("new", options)):
        subprocess.run([*install, *more, str(build(tmp_path / text, text))], check=True, timeout=60)
    said = subprocess.run([python, "-I", "-m", "guard"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == "new\n"
