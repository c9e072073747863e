"""A stand-in for a Jupyter server, run as a program: its runtime file, its kernels, and its answers.

The answers were recorded from jupyter_server 2.21 (tornado 6.6): a list of kernels, 403 for a wrong token, 302 for a page. A kernel
that nobody has connected to stays *starting*; one that runs a cell stays *busy* while its last activity ages. What it
answers is told line by line on standard input, and acknowledged.
"""

import ctypes
import json
import os
import select
import socket
import sys

ID = "0f30422a-018b-4275-8bc0-a96928e99e8"
"""Of kernels, but for the last digit; their connection files are named after them."""

TOKEN = "5bd9f1a8c4cf0dfe0c7d2b6f4c1e9a3377aa2b4c6d8e0f12"

LISTED = """HTTP/1.1 200 OK\r
Server: TornadoServer/6.6.1\r
Content-Type: application/json\r
Date: Sun, 22 Nov 2026 23:12:01 GMT\r
X-Content-Type-Options: nosniff\r
Content-Security-Policy: frame-ancestors 'self'; report-uri /api/security/csp-report; default-src 'none'\r
Access-Control-Allow-Origin: \r
Etag: "3e7bda14d9aca8f3d4a51e48d153ba366f42ffcb"\r
Content-Length: {length}\r
Set-Cookie: username-127-0-0-1-8888="2|1:0|10:1795389121|23:username-127-0-0-1-8888"; HttpOnly; Path=/\r
\r
{body}"""
FORBIDDEN = """HTTP/1.1 403 Forbidden\r
Server: TornadoServer/6.6.1\r
Content-Type: application/json\r
Content-Length: 40\r
\r
{"message": "Forbidden", "reason": null}"""
MOVED = """HTTP/1.1 302 Found\r
Server: TornadoServer/6.6.1\r
Location: /login?next=%2Flab\r
Content-Length: 0\r
\r
"""


class Notebook:
    """``job``: ``runtime`` folder, ``base`` path, ``token``, ``uid`` and what else its runtime file says."""

    def __init__(self, job: dict[str, object]) -> None:
        self.job = job
        self.kernels: dict[str, str] = {}
        self.mode = "list"
        self.seen: list[str] = []
        self.listener: socket.socket | None = None
        self.connections: dict[int, socket.socket] = {}
        self.children: list[int] = []
        self.keys: list[int] = []

    def begin(self) -> None:
        """Become the user, then write the file and start the kernels, as a server does."""
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(str(self.job.get("comm", "jupyter-lab")))
        if (uid := int(str(self.job["uid"]))) != os.getuid():
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: as after the exec of a real one
        self.listener = socket.create_server(("127.0.0.1", 0))
        info = {
            "base_url": self.job.get("base", "/"),
            "hostname": "localhost",
            "password": False,
            "pid": os.getpid(),
            "port": self.listener.getsockname()[1],
            "root_dir": "/",
            "secure": False,
            "sock": "",
            "token": self.job.get("token", TOKEN),
            "url": "http://example.org:1/elsewhere/",
            "version": "2.21.1",
        }  # fmt: skip
        extra = self.job.get("info", {})
        assert isinstance(extra, dict)
        path = f"{self.job['runtime']}/{self.job.get('prefix', 'jpserver')}-{os.getpid()}.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, json.dumps(info | extra).encode())
        os.close(descriptor)

    def kernel(self, name: str, state: str) -> int:
        """Start one, which names its connection file as real ones do; it ends with this process."""
        self.kernels[name] = state
        path = f"{self.job['runtime']}/kernel-{ID}{len(self.children)}.json"
        given, end = os.pipe()
        became, other = os.pipe()  # closed by exec
        pid = os.fork()
        if not pid:
            os.dup2(given, 0)
            os.execv("/bin/sh", ["python3", "-c", "read line", path])
        os.close(given)
        os.close(other)
        os.read(became, 1)
        os.close(became)
        self.children.append(pid)
        self.keys.append(end)
        return pid

    def told(self, line: str) -> object:
        """Do what the test says."""
        word, *rest = line.split()
        if word == "kernel":
            return self.kernel(rest[0], rest[1])
        if word == "state":
            self.kernels[rest[0]] = rest[1]
        elif word == "forget":
            del self.kernels[rest[0]]
        elif word == "mode":
            self.mode = rest[0]
        elif word == "requests":
            return self.seen
        return None

    def answer(self, connection: socket.socket, request: str) -> None:
        """Answer one request."""
        self.seen.append(request)
        if self.mode == "silent":
            return
        wanted = f"GET {self.job.get('base', '/')}api/kernels"
        token = str(self.job.get("token", TOKEN))
        if self.mode == "403" or (token and f"Authorization: token {token}\r\n" not in request):
            connection.sendall(FORBIDDEN.encode())
        elif self.mode == "302" or not request.startswith(wanted):
            connection.sendall(MOVED.encode())
        else:
            models = [
                {
                    "id": f"{ID}{number}", "name": name.partition("#")[0],
                    "last_activity": "2026-11-22T09:00:00.000000Z", "execution_state": state, "connections": 1,
                }
                for number, (name, state) in enumerate(self.kernels.items())
            ]  # fmt: skip
            body = {"huge": "x" * 300_000, "stranger": '{"hello": "world"}'}.get(self.mode, json.dumps(models))
            connection.sendall(LISTED.format(length=len(body), body=body).encode())

    def run(self) -> None:
        """Until the test closes the input."""
        assert self.listener is not None
        while True:
            waiting = [0, self.listener.fileno(), *self.connections]
            for fd in select.select(waiting, [], [])[0]:
                if fd == 0:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    sys.stdout.write(json.dumps(self.told(line)) + "\n")
                    sys.stdout.flush()
                elif fd == self.listener.fileno():
                    connection, _ = self.listener.accept()
                    self.connections[connection.fileno()] = connection
                else:
                    self.hear(self.connections[fd])

    def hear(self, connection: socket.socket) -> None:
        """Answer what one connection asks, until it ends."""
        try:
            if data := connection.recv(65536):
                self.answer(connection, data.decode(errors="replace"))
                return
        except OSError:  # it was ended in the middle of an answer
            pass
        del self.connections[connection.fileno()]
        connection.close()


if __name__ == "__main__":
    server = Notebook(json.loads(sys.stdin.readline()))
    server.begin()
    assert server.listener is not None
    sys.stdout.write(f"{server.listener.getsockname()[1]}\n")
    sys.stdout.flush()
    server.run()
