"""`python -m release FOLDER`: a release of the last commit. Twice the same commit gives twice the same bytes."""

import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from release import lock
from release.build import build, builder, export
from release.sbom import sbom


def collect(source: Path, out: Path, epoch: int, python: str) -> None:
    """Everything that is handed out, of one tree."""
    out.mkdir(parents=True, exist_ok=True)
    build(source, out, epoch, python)
    (wheel,) = out.glob("*.whl")
    name = "-".join(wheel.name.split("-")[:2])
    shutil.copyfile(source / "release" / lock.LOCK.name, out / f"{name}.lock.txt")
    (out / f"{name}.cdx.json").write_text(sbom(wheel, epoch), encoding="utf-8")
    files = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def main() -> None:
    """Into an empty folder."""
    out = Path(sys.argv[1])
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"error: {out} is not empty\nhint: rm -r {out}")
    with tempfile.TemporaryDirectory() as folder:
        epoch = export(lock.ROOT, Path(folder) / "tree")
        collect(Path(folder) / "tree", out, epoch, builder(Path(folder) / "python"))
    sys.stdout.write((out / "SHA256SUMS").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
