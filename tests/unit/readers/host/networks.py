"""Two hosts on one machine: networks of their own, joined by a real pair of interfaces."""

import subprocess
import sys

import pytest

NOT_ALLOWED = 77

TWO_HOSTS = """
import ctypes, os, socket, subprocess, sys, time
unshare = ctypes.CDLL(None, use_errno=True).unshare
def ip(*words): subprocess.run(["ip", *words], check=True)
def two_hosts(port, serve):
    'Connected to that port of the other host, where `serve` has the other end; and the process of that host.'
    if unshare(0x40000000) and unshare(0x10000000 | 0x40000000): sys.exit(77)
    here, there = os.pipe(), os.pipe()
    other = os.fork()
    if not other:
        if unshare(0x40000000): os._exit(77)
        os.write(here[1], b".")
        os.read(there[0], 1)
        ip("address", "add", "10.77.0.2/24", "dev", "vb"); ip("link", "set", "vb", "up")
        door = socket.create_server(("10.77.0.2", port)); os.write(here[1], b".")
        serve(door.accept()[0])
        os._exit(0)
    os.read(here[0], 1)
    ip("link", "add", "va", "type", "veth", "peer", "name", "vb"); ip("link", "set", "vb", "netns", str(other))
    ip("address", "add", "10.77.0.1/24", "dev", "va"); ip("link", "set", "va", "up"); os.write(there[1], b"."); os.read(here[0], 1)
    deadline = time.monotonic() + 20
    while True:
        try: return socket.create_connection(("10.77.0.2", port), 1), other
        except OSError:
            if time.monotonic() > deadline: raise
"""
"""The beginning of a script."""


def run(script: str, *arguments: str) -> list[str]:
    """The lines that the script writes; the test is skipped where the kernel allows no network of one's own."""
    argv = [sys.executable, "-c", TWO_HOSTS + script, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == NOT_ALLOWED:
        pytest.skip("the kernel allows no network of one's own here")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
