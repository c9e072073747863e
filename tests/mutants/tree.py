"""A copy of the tree, in which something may be broken."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("costguard", "providers", "tests", "docs", "pyproject.toml")


def copy(folder: Path) -> None:
    """The package, the plug-ins and the tests, away from the checkout."""
    for name in COPIED:
        source, place = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
