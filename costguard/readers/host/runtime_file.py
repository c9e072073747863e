"""The short-lived process that finds where a Jupyter server answers, and its token: ``jpserver-PID.json`` of its user.

It reads as that user, from the file system that the server sees: a malicious path leads nowhere that the user could not
go, a home directory that root may not read can be read, and one that hangs blocks nobody else.
Sources: jupyter_core.paths (``jupyter_runtime_dir``), jupyter_server (``server_info``), pid_namespaces(7).
"""

import errno
import json
import os
import stat
import sys
from typing import Any, NamedTuple

from costguard.parent import end_with_parent
from costguard.process.worker import serve
from costguard.readers.host.errand_jobs import RuntimeFound, RuntimeJob
from costguard.readers.host.text import read

NAMES = ("jpserver", "nbserver")
"""How its name begins: of a server, and of the notebook before version 7."""

ENVIRONMENT_BYTES = 1 << 18


class Server(NamedTuple):
    """A process that may be a server: its number where it runs, the root of its files, and what its environment names."""

    pid: int
    inner: str
    root: int
    environment: dict[str, str]


def main() -> int:
    """Do one job."""
    end_with_parent()
    return serve(RuntimeJob, find, RuntimeFound)


def find(job: RuntimeJob) -> RuntimeFound:
    """Look for the file of each process."""
    try:
        servers = [_server(job.proc, pid) for pid in job.pids]
        if os.geteuid() == 0 != job.uid:
            _become(job.uid, os.stat(f"{job.proc}/{job.pids[0]}").st_gid)
    except OSError as error:
        return RuntimeFound(f"its runtime file cannot be looked for ({error.strerror})")
    trouble = ""
    for server in servers:
        for folder in dict.fromkeys((job.folder, *folders(server.environment))):
            for name in NAMES:
                try:
                    text = _read(server.root, f"{folder}/{name}-{server.inner}.json", job.uid)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    trouble = trouble or f"its runtime file cannot be read ({error.strerror})"
                    continue
                return _found(server, text)
    return RuntimeFound(trouble)


def folders(environment: dict[str, str]) -> list[str]:
    """Where a process with this environment writes the file."""
    given = environment.get
    data = given("XDG_DATA_HOME") or (f"{given('HOME')}/.local/share" if given("HOME") else "")
    wanted = (
        given("JUPYTER_RUNTIME_DIR"),
        given("JUPYTER_DATA_DIR") and f"{given('JUPYTER_DATA_DIR')}/runtime",
        data and f"{data}/jupyter/runtime",
        given("XDG_RUNTIME_DIR") and f"{given('XDG_RUNTIME_DIR')}/jupyter",
    )
    return [folder for folder in wanted if folder and folder.startswith("/")]


def _server(proc: str, pid: int) -> Server:
    """Raises OSError."""
    with open(f"{proc}/{pid}/status", encoding="utf-8", errors="replace") as file:
        inner = next((line.split()[-1] for line in file if line.startswith("NSpid:")), str(pid))
    root = os.open(f"{proc}/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        given = read(f"{proc}/{pid}/environ", ENVIRONMENT_BYTES).decode(errors="surrogateescape").split("\0")
    except OSError:
        given = []
    return Server(pid, inner, root, {name: value for name, _, value in (entry.partition("=") for entry in given)})


def _become(uid: int, gid: int) -> None:
    """Become that user. If a sandbox forbids that, the check of the file's owner has to do."""
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except PermissionError:
        return
    end_with_parent()  # forgotten by the kernel with every change of the user


def _read(root: int, path: str, uid: int) -> str:
    """Read a regular file of this user. Raises OSError.

    Its kind is checked before it is opened for reading, as opening a device may have an effect.
    """
    named = os.open(path.lstrip("/"), os.O_PATH | os.O_CLOEXEC, dir_fd=root)
    try:
        status = os.fstat(named)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
            raise OSError(errno.EINVAL, "it is not a file of that user")
        return read(f"/proc/self/fd/{named}").decode(errors="replace")
    finally:
        os.close(named)


def _found(server: Server, text: str) -> RuntimeFound:
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or str(info.get("pid")) != server.inner:
        return RuntimeFound("its runtime file is not valid")
    base: Any = info.get("base_url", "/")
    port: Any = info.get("port")
    token = info.get("token") or server.environment.get("JUPYTERHUB_API_TOKEN", "")
    if info.get("sock"):
        return RuntimeFound(pid=server.pid, sock=True)
    sound = isinstance(base, str) and isinstance(token, str) and isinstance(port, int) and 0 < port < 1 << 16
    if not sound or not is_plain(base, 256) or not is_plain(token, 1024):
        return RuntimeFound("its runtime file is not valid")
    return RuntimeFound(
        "", server.pid, port, f"/{base.strip('/')}/".replace("//", "/"), token, bool(info.get("secure"))
    )


def is_plain(text: str, longest: int) -> bool:
    """Whether text can stand in a request as it is."""
    return len(text) <= longest and all("!" <= letter <= "~" for letter in text)


if __name__ == "__main__":
    sys.exit(main())
