"""`python -m release.wheels FOLDER CLOUD`: every library that costguard needs there, and pip, for machines that reach no package index.

At the versions of the lock, compared with its checksums, for each Python and machine that it knows.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from release import lock


def locked(extra: str) -> Iterator[str]:
    """The lines of the lock for costguard with an extra, and for the pip that installs it."""
    known = lock.read() | lock.read(lock.PIP)
    wanted = sorted({*lock.graph(lock.declared([extra])), "pip"})
    if missing := [name for name in wanted if name not in known]:
        raise SystemExit(
            f"error: what is installed here needs what the lock does not know: {', '.join(missing)}\nhint: pip install --require-hashes -r {lock.LOCK}"
        )
    for name in wanted:
        version, sums = known[name]
        yield " ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in sums)])


def main() -> None:
    """Ask the index for them, one Python and machine after the other; what is there already is not fetched again."""
    folder, extra = sys.argv[1:]
    if extra not in lock.all_extras():
        raise SystemExit(f"error: {extra} is none of costguard's extras\nhint: one of {', '.join(lock.all_extras())}")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as asked:
        asked.write("\n".join(locked(extra)) + "\n")
        asked.flush()
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder]
        for python in lock.PYTHONS:
            for machine in lock.MACHINES:
                platforms = [part for one in lock.GLIBC for part in ("--platform", f"{one}_{machine}")]
                where = ["--python-version", python, *platforms, "--require-hashes", "--requirement", asked.name]
                subprocess.run([*pip, *where], check=True)
    print(f"{len(list(Path(folder).iterdir()))} wheels in {folder}")


if __name__ == "__main__":
    main()
