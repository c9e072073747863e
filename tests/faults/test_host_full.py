"""A really full folder: what must be remembered still is, in the room that was set aside for it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path

subprocess.run(["mount", "-t", "tmpfs", "-o", "size=768k", "none", sys.argv[1]], check=True)
from costguard.host.files import RESERVE, keep_room, replace

folder = Path(sys.argv[1])
assert keep_room(str(folder))
assert replace(str(folder / "state.json"), b"1") is False
with open(folder / "filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
state = json.dumps(["x" * 40_000]).encode()
print(replace(str(folder / "state.json"), state), (folder / RESERVE).exists())
print(replace(str(folder / "commitments.json"), state), (folder / "state.json").read_bytes() == state)
print(keep_room(str(folder)), (folder / RESERVE).exists())
(folder / "filler").unlink()
print(keep_room(str(folder)))
"""


def test_the_reserve_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    """State and hold are saved on a full tmpfs, in a mount namespace of the test's own; the use of the reserve is said."""
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True False", "False True", "False False", "True"], done.stderr
