"""Who listens where: asked of the kernel, and read from /proc where the kernel cannot be asked."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from costguard.readers.host.listening import Listener, listeners, make_socket, network
from costguard.readers.host.opened import sockets_of
from costguard.readers.host.page import Page

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0 100 0 0 10 0\n"


@pytest.mark.parametrize("proc", ["/proc", "read"])
def test_a_listening_socket_is_found_with_its_owner(tmp_path: Path, proc: str) -> None:
    """By both ways the same: address, port, user and inode."""
    if proc == "read":  # as where the kernel does not answer: the tables alone
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "net").symlink_to("/proc/self/net")
        proc = str(tmp_path)
    with (
        socket.create_server(("127.0.0.5", 0)) as one,
        socket.create_server(("0.0.0.0", 0)) as any_address,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both,
        socket.create_connection(one.getsockname()),
    ):
        found = {row.port: row for row in listeners(proc)}
        for opened, address in ((one, "127.0.0.5"), (any_address, "127.0.0.1"), (six, "::1"), (both, "::1")):
            port = opened.getsockname()[1]
            inode = os.fstat(opened.fileno()).st_ino
            assert found[port] == Listener(address, port, os.getuid(), inode)
            assert inode in sockets_of("/proc", os.getpid())


def table(folder: Path, *rows: str, name: str = "tcp") -> str:
    (folder / "self" / "net").mkdir(parents=True, exist_ok=True)
    (folder / "self" / "net" / name).write_text(HEADER + "".join(rows))
    return str(folder)


def test_what_listens_on_other_addresses_alone_is_not_reached(tmp_path: Path) -> None:
    """Its row is there, for whoever asks whose port it is, and it has no address."""
    row = ROW.format(address="0A00000A", port=8888, state="0A", uid=1000, inode=77)
    assert listeners(table(tmp_path, row)) == [Listener("", 8888, 1000, 77)]


def test_connections_are_no_listeners(tmp_path: Path) -> None:
    """They stand behind the listening sockets, and end the list; an IPv4 address in IPv6 is one of IPv4."""
    listening = ROW.format(address="0100007F", port=80, state="0A", uid=0, inode=1)
    connected = ROW.format(address="0100007F", port=81, state="01", uid=0, inode=2)
    mapped = ROW.format(address="0000000000000000FFFF00000100007F", port=82, state="0A", uid=5, inode=3)
    proc = table(tmp_path, listening, connected)
    assert listeners(proc) == [Listener("127.0.0.1", 80, 0, 1)]
    table(tmp_path, mapped, name="tcp6")
    assert listeners(proc) == [Listener("127.0.0.1", 80, 0, 1), Listener("127.0.0.1", 82, 5, 3)]


def test_a_table_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Unknown is not "nobody listens"."""
    with pytest.raises(OSError, match="No such file"):
        listeners(str(tmp_path))


def test_networks_are_told_apart(tmp_path: Path) -> None:
    """Its own has no name; another namespace has a name."""
    assert network("/proc", os.getpid()) == ""
    assert network("/proc", 4194305) == ""
    (tmp_path / "7" / "ns").mkdir(parents=True)
    (tmp_path / "7" / "ns" / "net").symlink_to("net:[1]")
    assert network(str(tmp_path), 7) == "net:[1]"


INSIDE = """
import ctypes, fcntl, socket, struct, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
    print("refused", flush=True)
    sys.exit()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 1))
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\ninside")
    connection.close()
"""


def test_a_server_in_a_container_is_reached_in_its_own_network() -> None:
    """Its port is another one outside, or none; afterwards this process is where it was. Without the right to it: an error."""
    before = os.readlink("/proc/self/ns/net")
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", INSIDE], stdout=subprocess.PIPE, text=True) as inside:
        assert inside.stdout is not None
        word = inside.stdout.readline().strip()
        if word == "refused":
            with pytest.raises(PermissionError):
                make_socket(socket.AF_INET, socket.SOCK_STREAM, beside=1)
            return
        assert network("/proc", inside.pid) == os.readlink(f"/proc/{inside.pid}/ns/net")
        assert [row.port for row in listeners("/proc", inside.pid)] == [int(word)]
        one = Page("127.0.0.1", int(word), "/", beside=inside.pid)
        one.ask(1.0)
        while (answer := one.look(1.0)) is None:
            select.select([one.fileno()], [], [], 10.0)
        assert answer.body == b"inside"
        assert os.readlink("/proc/self/ns/net") == before
        inside.kill()
    with pytest.raises(FileNotFoundError):
        listeners("/proc", inside.pid)
    assert os.readlink("/proc/self/ns/net") == before
