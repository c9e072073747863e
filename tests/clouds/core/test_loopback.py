"""The net under the tests themselves: no test leaves this machine, and one that tries fails."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import loopback

ROOT = Path(__file__).parents[3]
ELSEWHERE = "192.0.2.1"  # RFC 5737: an address for documentation, nobody's

TRIES = {
    "connect": f"""
import socket
def test_it():
    "A rule."
    with socket.socket() as one:
        one.settimeout(1)
        try:
            one.connect(({ELSEWHERE!r}, 80))
        except OSError:
            pass
""",
    "name": """
import contextlib, socket
def test_it():
    "A rule."
    with contextlib.suppress(OSError):
        socket.getaddrinfo("metadata.example.org", 80)
""",
    "datagram": f"""
import contextlib, socket
def test_it():
    "A rule."
    with socket.socket(type=socket.SOCK_DGRAM) as one, contextlib.suppress(OSError):
        one.sendto(b"x", ({ELSEWHERE!r}, 53))
""",
    "thread": f"""
import contextlib, socket, threading
def go():
    with socket.socket() as one, contextlib.suppress(OSError):
        one.connect(({ELSEWHERE!r}, 80))
def test_it():
    "A rule."
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
""",
}


def test_a_test_that_asks_for_another_machine_fails(tmp_path: Path) -> None:
    """Also when the code under test swallows the error, or another thread asks."""
    for name, text in TRIES.items():
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rN",
        "-p",
        "tests.loopback",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    done = subprocess.run(
        [*argv, "--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("left loopback") == len(TRIES) == 4, done.stdout


def test_loopback_works() -> None:
    """The stand-ins of the clouds answer on it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5) as one,
    ):
        assert one.getpeername()[0] == "127.0.0.1"


def test_what_a_test_starts_is_cut_off_as_well() -> None:
    """A child is in the same network: with nothing but lo in it, the kernel knows no way out."""
    program = f"import socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(({ELSEWHERE!r}, 80)))"
    if loopback.NETWORK.startswith("not cut off"):
        pytest.skip(loopback.NETWORK)
    interfaces = subprocess.run(
        [sys.executable, "-I", "-c", "import socket; print(socket.if_nameindex())"],
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert "'lo'" in interfaces.stdout
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "101"  # ENETUNREACH
