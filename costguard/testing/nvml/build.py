"""Compile the stand-in library."""

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("standin.c")
SONAME = "libnvidia-ml.so.1"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}")


class CompilerMissingError(RuntimeError):
    """No C compiler, or it failed; the words say which and what to install."""


def build(directory: str | os.PathLike[str], *, library_version: str = "", old_driver: bool = False) -> Path:
    """Build ``libnvidia-ml.so.1`` (and the link ``libnvidia-ml.so``) in ``directory``; return its path.

    ``library_version`` is compiled in: when the script's driver has another one, every call says
    "driver/library version mismatch" (18), as after an upgrade under a running system. ``old_driver``
    leaves out the process lists of version 3. The compiler is ``$CC`` or the first of cc, gcc, clang.

    Raises CompilerMissingError.
    """
    compiler = _compiler()
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / SONAME
    partial = folder / f".{SONAME}.{os.getpid()}"
    defines = [f'-DLIBRARY_VERSION="{library_version}"'] if library_version else []
    defines += ["-DOLD_DRIVER"] if old_driver else []
    command = [compiler, *_FLAGS, *defines, "-o", str(partial), str(SOURCE), "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerMissingError(f"{compiler} could not build the stand-in library:\n{done.stderr.strip()}")
    # A running program keeps the file that it has mapped: replace, never overwrite.
    partial.replace(library)
    link = folder / "libnvidia-ml.so"
    if not link.is_symlink():
        link.symlink_to(SONAME)
    return library


def _compiler() -> str:
    wanted = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for name in wanted:
        path = shutil.which(name)
        if path:
            return path
    raise CompilerMissingError(
        f"no C compiler found (looked for {', '.join(wanted)}), so the stand-in NVML library cannot be built; "
        "install one (Debian, Ubuntu: apt install gcc) or set CC"
    )
