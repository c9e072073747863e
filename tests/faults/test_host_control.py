"""Clients of the control socket that are slow, silent, rude or many."""

import json
import os
import resource
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from costguard.host.address import address
from costguard.host.client import AgentBusyError, AgentUnreachableError, ask
from costguard.host.control import (
    ALL_BURST,
    ANSWER_SECONDS,
    BACKLOG,
    CLIENTS,
    FLOOD_SHARE,
    LINE_LIMIT_BYTES,
    OWN_BURST,
    OWN_EVERY_SECONDS,
    OWNERS_SOCKET,
    PAUSE_SECONDS,
    READS_LIMIT,
    REQUEST_SECONDS,
    SOCKET,
    USER_BURST,
    USER_EVERY_SECONDS,
    Control,
)
from costguard.host.poller import Poller
from costguard.host.ports import HostEvent, Request


class Time:
    """A clock that the test moves."""

    def __init__(self, step: float = 0.0) -> None:
        self.value, self.step = 1000.0, step

    def __call__(self) -> float:
        self.value += self.step
        return self.value


class Server:
    """The control socket alone, on a clock of the test."""

    def __init__(self, folder: Path, time: Time | None = None, whose: Callable[[int], int] = int) -> None:
        self.time, self.poller, self.folder = time or Time(), Poller(), folder
        self.control = Control(self.poller, str(folder), self.time, whose)
        assert self.control.open() is None

    def client(self, text: bytes = b"") -> socket.socket:
        """Connect, and send something."""
        made = socket.socket(socket.AF_UNIX)
        with address(str(self.folder / SOCKET)) as name:
            made.connect(name)
        made.sendall(text)
        return made

    def fill_the_queue(self) -> list[socket.socket]:
        """Take every place where connections to everybody's socket wait."""
        made: list[socket.socket] = []
        with suppress(BlockingIOError), address(str(self.folder / SOCKET)) as name:
            while len(made) <= BACKLOG:
                made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                made[-1].connect(name)
        return made

    def turn(self) -> list[Request]:
        """Handle what is ready, as `wait` does."""
        events: list[HostEvent] = []
        for _ in range(4 * CLIENTS):
            self.control.expire()
            self.poller.poll(0, events)
        return [event for event in events if isinstance(event, Request)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.control.close()
    made.poller.close()


def closed(client: socket.socket) -> bool:
    """Whether the server has hung up."""
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def turned_away(client: socket.socket) -> bool:
    """Whether the server told it to come again, and hung up."""
    client.setblocking(False)
    try:
        said = client.recv(100)
    except BlockingIOError:
        return False
    return float(json.loads(said)["busy"]) > 0 and closed(client)


def test_a_request_is_told_with_its_user_and_answered_once(server: Server) -> None:
    """The kernel names the user; after the answer the connection is closed."""
    with server.client(b'{"ask":1}\n') as client:
        (request,) = server.turn()
        assert (request.uid, request.data) == (os.getuid(), b'{"ask":1}')
        server.control.answer(request.client, b"yes")
        assert client.recv(100) == b"yes\n"
        assert closed(client)
        server.control.answer(request.client, b"twice")


def test_a_request_may_come_in_pieces(server: Server) -> None:
    """Nothing is told before the newline; one line per connection counts."""
    with server.client(b'{"ask"') as client:
        assert server.turn() == []
        client.sendall(b":1}\nmore\n")
        assert [request.data for request in server.turn()] == [b'{"ask":1}']
        assert server.turn() == []


def test_a_silent_client_is_dropped(server: Server) -> None:
    """Who does not finish a line within 5 s is hung up on."""
    with server.client(b"half a li") as client:
        server.turn()
        server.time.value += REQUEST_SECONDS - 0.1
        server.turn()
        assert not closed(client)
        assert server.control.next_expiry() == 1000 + REQUEST_SECONDS
        server.time.value += 0.2
        server.turn()
        assert closed(client)
        assert server.control.next_expiry() is None


def test_a_client_may_wait_for_its_answer(server: Server) -> None:
    """Some answers need a worker: a client that asked is kept for 30 s."""
    with server.client(b"reload\n") as client:
        (request,) = server.turn()
        server.time.value += ANSWER_SECONDS - 1
        server.turn()
        assert not closed(client)
        server.time.value += 2
        server.turn()
        assert closed(client)
        server.control.answer(request.client, b"too late")


@pytest.mark.parametrize("length", [LINE_LIMIT_BYTES, LINE_LIMIT_BYTES + 1])
def test_a_request_has_at_most_64_kib(server: Server, length: int) -> None:
    """64 KiB pass, one byte more is hung up on."""
    with server.client() as client:
        sender = threading.Thread(target=lambda: client.sendall(b"x" * length + b"\n"))
        sender.start()
        requests: list[Request] = []
        while sender.is_alive() or (not requests and not closed(client)):
            requests += server.turn()
        sender.join()
        assert [len(request.data) for request in requests] == ([length] if length == LINE_LIMIT_BYTES else [])


def test_a_large_answer_is_sent_as_the_client_reads(server: Server) -> None:
    """An answer larger than the socket's buffer arrives whole, and a client that never reads it is dropped."""
    with server.client(b"all\n") as reader, server.client(b"all\n") as lazy:
        for request in server.turn():
            server.control.answer(request.client, b"x" * 2_000_000)
        text = b""
        while not text.endswith(b"\n"):
            server.turn()
            text += reader.recv(1 << 20)
        assert len(text) == 2_000_001
        server.time.value += REQUEST_SECONDS + 1
        server.turn()
        assert server.control.next_expiry() is None
        assert lazy.recv(10) == b"x" * 10


def test_a_client_that_hangs_up_costs_nothing(server: Server) -> None:
    """Before its line, or before its answer: it is forgotten."""
    server.client(b"half").close()
    asked = server.client(b"status\n")
    (request,) = server.turn()
    asked.close()
    server.turn()
    assert server.control.next_expiry() is None
    server.control.answer(request.client, b"nobody")


def test_a_flood_pushes_out_its_own(server: Server) -> None:
    """At most 16 connections; one more of the same user is refused, and those there are served on."""
    clients = [server.client() for _ in range(CLIENTS)]
    server.turn()
    with server.client(b"one more\n") as surplus:
        assert server.turn() == []
        assert turned_away(surplus)
    clients[0].sendall(b"first\n")
    assert [request.data for request in server.turn()] == [b"first"]
    for client in clients:
        client.close()


def test_who_asks_too_often_is_told_to_come_again(server: Server) -> None:
    """The allowance of root and of the agent's own user is large, and it fills up again."""
    asked = 0
    for _ in range(OWN_BURST):
        with server.client(b"status\n"):
            (request,) = server.turn()
            server.control.answer(request.client, b"yes")
            asked += 1
    with server.client(b"status\n") as surplus:
        assert server.turn() == []
        assert turned_away(surplus)
    server.time.value += OWN_EVERY_SECONDS
    with server.client(b"status\n"):
        assert len(server.turn()) == 1
    assert asked == OWN_BURST


def test_no_user_uses_up_the_allowance_of_another(server: Server) -> None:
    """Each has a small one of its own; all users together have one beside root's."""
    control, stranger = server.control, os.getuid() + 1
    assert [bool(control._rate_limited(stranger)) for _ in range(USER_BURST + 2)] == [False] * USER_BURST + [True] * 2
    assert control._rate_limited(stranger + 1) == 0.0
    many = [control._rate_limited(stranger + 2 + number) for number in range(2 * ALL_BURST)]
    assert many.count(0.0) < ALL_BURST
    assert control._rate_limited(0) == 0.0
    assert control._rate_limited(os.getuid()) == 0.0
    server.time.value += USER_EVERY_SECONDS
    assert control._rate_limited(stranger) == 0.0


def test_a_flood_of_connections_takes_a_small_share_of_one_core(tmp_path: Path) -> None:
    """After a turn that sent somebody away the door stays closed for many times as long as the turn took."""
    server = Server(tmp_path, Time(step=0.0001))  # so much goes by between two looks at the clock
    while not server.control._rate_limited(os.getuid()):
        pass
    clients = [server.client() for _ in range(BACKLOG // 2)]
    began = server.time.value
    server.poller.poll(0, [])
    spent = server.time.value - began
    reopens = server.control.next_expiry()
    assert reopens is not None
    assert spent / (reopens - began) < 2 * FLOOD_SHARE
    assert 0 < sum(map(turned_away, clients)) < BACKLOG // 2
    server.poller.poll(0, [])
    assert server.time.value == began + spent  # nobody was looked at
    for client in clients:
        client.close()
    server.control.close()
    server.poller.close()


def test_who_fills_the_queue_keeps_the_owner_out_of_it_no_longer(tmp_path: Path) -> None:
    """The agent's own user has a queue of his own, and what comes through it is answered while everybody's door is shut."""
    asking = [os.getuid() + 1]
    server = Server(tmp_path, Time(step=0.0001), whose=lambda _uid: asking[0])
    surplus = [server.client() for _ in range(USER_BURST + 1)]
    server.poller.poll(0, [])
    assert any(map(turned_away, surplus))
    server.time.step = 0.0  # the door stays shut
    waiting = server.fill_the_queue()
    asking[0] = os.getuid()
    found: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: found.append(ask(str(tmp_path), {"command": "status"}, 20.0)))
    thread.start()
    while thread.is_alive():
        for request in server.turn():
            assert request.uid == os.getuid()
            server.control.answer(request.client, b'{"phase":"WATCHING"}')
    assert found == [{"phase": "WATCHING"}]
    for client in (*surplus, *waiting):
        client.close()
    server.control.close()
    server.poller.close()


def test_an_agent_with_one_socket_is_asked_there(tmp_path: Path) -> None:
    """An older one; beside it what a newer one, which was killed, has left."""
    with socket.socket(socket.AF_UNIX) as killed, address(str(tmp_path / OWNERS_SOCKET)) as name:
        killed.bind(name)
        killed.listen(1)
    with socket.socket(socket.AF_UNIX) as server:
        with address(str(tmp_path / SOCKET)) as name:
            server.bind(name)
        server.listen(1)
        found: list[dict[str, object]] = []
        thread = threading.Thread(target=lambda: found.append(ask(str(tmp_path), {"command": "status"}, 20.0)))
        thread.start()
        with server.accept()[0] as connection:
            connection.sendall(b'{"phase":"WATCHING"}\n')
        thread.join()
    assert found == [{"phase": "WATCHING"}]


def test_a_request_in_crumbs_is_hung_up_on(server: Server) -> None:
    """Each piece wakes the guard: a client of ours sends its line in one."""
    with server.client(b"{") as client:
        for _ in range(READS_LIMIT):
            server.turn()
            with suppress(BrokenPipeError):
                client.sendall(b" ")
        server.turn()
        assert closed(client)


def test_a_client_waits_for_its_turn(tmp_path: Path) -> None:
    """No place in the kernel's queue, then sent away as too frequent: it tries again within its time, and is served."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        with address(str(tmp_path / "control.sock")) as name:
            server.bind(name)
            server.listen(0)
            first.connect(name)  # takes the only place
        found: list[dict[str, object]] = []
        thread = threading.Thread(target=lambda: found.append(ask(str(tmp_path), {"command": "status"}, 30.0)))
        thread.start()
        for answer in (b"", b'{"busy":0.01}\n', b'{"phase":"WATCHING"}\n'):
            with server.accept()[0] as connection:
                if answer:
                    connection.sendall(answer)
        thread.join()
    assert found == [{"phase": "WATCHING"}]


def test_a_client_that_never_gets_in_says_that_nothing_was_done(tmp_path: Path) -> None:
    """And why: no silence, and no *it may take effect all the same*."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        with address(str(tmp_path / "control.sock")) as name:
            server.bind(name)
            server.listen(0)
            first.connect(name)
        with pytest.raises(AgentBusyError, match="nothing was done"):
            ask(str(tmp_path), {"command": "hold"}, 0.05)


def test_another_user_gets_in_during_a_flood(server: Server) -> None:
    """The user with most connections loses the oldest one to somebody who has fewer."""
    clients = [server.client() for _ in range(CLIENTS)]
    server.turn()
    assert server.control._make_room(os.getuid() + 1)
    assert closed(clients[0])
    assert not closed(clients[1])
    for client in clients:
        client.close()


def test_no_free_descriptor_is_no_busy_loop(server: Server) -> None:
    """The kernel has no descriptor for a client: it is let in a second later, and meanwhile nothing spins."""
    with server.client(b"patient\n") as client:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, before[1]))
        try:
            assert server.turn() == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert server.control.next_expiry() == server.time.value + PAUSE_SECONDS
        assert server.turn() == []
        server.time.value += PAUSE_SECONDS
        assert [request.data for request in server.turn()] == [b"patient"]


def test_everybody_may_connect(server: Server) -> None:
    """One socket is open to all users, for the loop decides who may do what; the other to the agent's own user and root."""
    assert [(server.folder / name).stat().st_mode & 0o777 for name in (SOCKET, OWNERS_SOCKET)] == [0o666, 0o600]


def test_a_stale_socket_is_replaced_and_removed_at_the_end(tmp_path: Path) -> None:
    """What a killed guard left does not hinder the next one; an orderly end leaves nothing."""
    for name in (SOCKET, OWNERS_SOCKET):
        (tmp_path / name).write_text("left behind")
    server = Server(tmp_path)
    server.client().close()
    server.control.close()
    server.poller.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [SOCKET, OWNERS_SOCKET])
def test_the_socket_of_another_is_not_removed(server: Server, name: str) -> None:
    """A guard whose path was taken leaves the newcomer's socket alone."""
    path = server.folder / name
    path.unlink()
    path.write_text("somebody else's")
    assert server.control.lost()
    server.control.close()
    assert list(server.folder.iterdir()) == [path]


def test_a_path_that_cannot_be_bound_is_said(tmp_path: Path) -> None:
    """Without a socket the guard runs; the words say what will not work."""
    poller = Poller()
    words = Control(poller, str(tmp_path / ("x" * 200)), Time()).open()
    poller.close()
    assert words is not None
    assert "status and hold cannot reach this agent" in words


def test_an_agent_that_hangs_up_is_said(server: Server) -> None:
    """The client turns an empty answer into words instead of a traceback."""
    found: list[str] = []

    def request() -> None:
        try:
            ask(str(server.folder), {"ask": 1})
        except AgentUnreachableError as error:
            found.append(str(error))

    thread = threading.Thread(target=request)
    thread.start()
    while thread.is_alive():
        for asked in server.turn():
            server.control.answer(asked.client, b"")
    thread.join()
    assert "closed the connection without an answer" in found[0]


def test_a_request_bears_the_person_behind_the_user_id(tmp_path: Path) -> None:
    """Limits and holds count people, not the ids that a container of theirs may use."""
    server = Server(tmp_path, whose=lambda uid: uid + 4242)
    with server.client(b'{"command":"status"}\n'):
        assert [request.uid for request in server.turn()] == [os.getuid() + 4242]
    server.control.close()


def test_whoever_sees_the_socket_can_connect(tmp_path: Path) -> None:
    """An agent that has just begun is not taken for none: the name appears when somebody listens."""
    folders = [tmp_path / str(number) for number in range(200)]
    found: list[int] = []

    def knock() -> None:
        for folder in folders:
            code = 2
            while code == 2:  # ENOENT
                with socket.socket(socket.AF_UNIX) as made, address(str(folder / "control.sock")) as name:
                    code = made.connect_ex(name)
            found.append(code)

    for folder in folders:
        folder.mkdir()
    thread = threading.Thread(target=knock)
    thread.start()
    poller = Poller()
    opened = [Control(poller, str(folder), Time()) for folder in folders]
    assert [control.open() for control in opened] == [None] * len(folders)
    thread.join(30.0)
    for control in opened:
        control.close()
    poller.close()
    assert found == [0] * len(folders)
