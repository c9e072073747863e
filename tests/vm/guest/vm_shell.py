"""In the machine: one line of JSON says what to run, one says how it ended. Written for the guest's own Python."""

import json
import os
import subprocess
import time
from typing import Any

PORT = "/dev/virtio-ports/test"


def ended(job: dict[str, Any]) -> dict[str, Any]:
    given = job.get("input")
    try:
        done = subprocess.run(
            job["argv"], input=given.encode() if given is not None else None,
            stdin=subprocess.DEVNULL if given is None else None, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=job["seconds"], check=False, cwd="/",
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "COLUMNS": "200"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return {"code": 124, "output": (error.output or b"").decode("utf-8", "replace")}
    except OSError as error:
        return {"code": 127, "output": str(error)}
    return {"code": done.returncode, "output": done.stdout.decode("utf-8", "replace")}


def main() -> None:
    port = os.open(PORT, os.O_RDWR)
    kept = b""
    while True:
        data = os.read(port, 65536)
        if not data:  # nobody holds the other end
            time.sleep(0.05)
            continue
        *lines, kept = (kept + data).split(b"\n")
        for line in lines:
            answer = json.dumps(ended(json.loads(line))).encode() + b"\n"
            while answer:
                answer = answer[os.write(port, answer) :]


main()
