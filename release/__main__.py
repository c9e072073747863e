"""`python -m release FOLDER`: a release of the last commit. Twice the same commit gives twice the same bytes."""

import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from release import lock
from release.build import TOOLS, build, export, locked


def collect(source: Path, out: Path, epoch: int, builder: str, libraries: str) -> None:
    """Everything that is handed out, of one tree. One Python has what builds it, the other the libraries of its lock."""
    out.mkdir(parents=True, exist_ok=True)
    build(source, out, epoch, builder)
    (wheel,) = out.glob("*.whl")
    name = "-".join(wheel.name.split("-")[:2])
    shutil.copyfile(source / "release" / lock.LOCK.name, out / f"{name}.lock.txt")
    listed = [libraries, "-m", "release.sbom", str(wheel.absolute()), str(epoch)]
    (out / f"{name}.cdx.json").write_bytes(
        subprocess.run(listed, cwd=source, stdout=subprocess.PIPE, check=True).stdout
    )
    files = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def main() -> None:
    """Into an empty folder."""
    out = Path(sys.argv[1])
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"error: {out} is not empty\nhint: rm -r {out}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        epoch = export(lock.ROOT, place / "tree")
        pythons = (locked(place / "builder", TOOLS), locked(place / "libraries", lock.LOCK))
        collect(place / "tree", out, epoch, *pythons)
    sys.stdout.write((out / "SHA256SUMS").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
