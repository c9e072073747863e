"""Start the stand-in for a Jupyter server, and talk to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = os.geteuid() == 0

OTHER = 12345 if ROOT else os.geteuid()
"""Whose server it is: root's agent reads every user's, any other one its own."""

PROGRAM = Path(__file__).with_name("notebook_server.py")


class Notebook:
    """The stand-in, as a process of its own whose kernels are visible in ``proc``."""

    def __init__(self, proc: Path, runtime: Path, env: dict[str, str] | None, **job: object) -> None:
        runtime.mkdir(mode=0o700, exist_ok=True)
        os.chown(runtime, OTHER, -1)
        argv = [sys.executable, "-I", "-S", str(PROGRAM)]
        self.process = subprocess.Popen(argv, stdin=-1, stdout=-1, env={"PATH": os.environ["PATH"], **(env or {})})
        self.proc = proc
        self.show(self.process.pid)
        self.port = self.say(json.dumps({"runtime": str(runtime), "uid": OTHER, **job}))

    def say(self, line: str) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def show(self, pid: int) -> None:
        (self.proc / str(pid)).symlink_to(f"/proc/{pid}")

    def kernel(self, name: str = "python3", state: str = "idle") -> None:
        self.show(int(str(self.say(f"kernel {name} {state}"))))

    def end(self) -> None:
        """End it and its kernels, and wait for that: no process may outlive its test."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait()
