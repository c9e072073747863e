"""A real API server of Kubernetes with its etcd and its controllers, on loopback, without a kubelet: tests say what a kubelet would.

What ends a pod is the controllers' work and real; that a container has started or ended is a change of the API which a test makes.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "etcd", "kubectl")
"""Each on the search path, or named by a variable: KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, ETCD, KUBECTL."""

ADMIN = "token-of-the-administrator"
ISSUER = "https://kubernetes.default.svc"
MERGE, JSON = "application/merge-patch+json", "application/json"
PATIENCE = 60.0

AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: ["system:serviceaccounts"]}
  - {level: None}
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %s/ca.crt}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def variable(name: str) -> str:
    return name.upper().replace("-", "_")


def found(name: str) -> str:
    """Where a program is; empty for nowhere."""
    return shutil.which(os.environ.get(variable(name)) or name) or ""


def missing() -> str:
    """Why there can be no server here; empty where there can."""
    lacking = [name for name in PROGRAMS if not found(name)]
    names = ", ".join(f"{name} (or {variable(name)}=PATH)" for name in lacking)
    return f"not on the search path: {names}; tests/kubernetes/README.md says where they come from" if lacking else ""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class Answer(NamedTuple):
    """Of the API server."""

    code: int
    data: Any


class Cluster:
    """Started with `start`, ended with `stop`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.version = (0, 0)
        self.audit = folder / "audit.log"
        self.authority = trustme.CA()
        self.context = ssl.create_default_context()
        self.authority.configure_trust(self.context)
        self._etcd_port = free_port()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Write the files, start everything, wait for it."""
        folder = self.folder
        self.authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        own = self.authority.issue_cert("127.0.0.1", "localhost")
        own.private_key_pem.write_to_path(str(folder / "server.key"))
        own.cert_chain_pems[0].write_to_path(str(folder / "server.crt"))
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL)
        (folder / "accounts.key").write_bytes(key.private_bytes(*form, serialization.NoEncryption()))
        (folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        (folder / "audit.yaml").write_text(AUDIT)
        (folder / "kubeconfig").write_text(KUBECONFIG % (self.port, folder, ADMIN))
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        self._run(
            "etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        )  # fmt: skip
        self.start_server()
        said = re.match(r"v(\d+)\.(\d+)", self.ask("GET", "/version").data["gitVersion"])
        assert said is not None, "the server does not say its version"
        self.version = int(said[1]), int(said[2])
        self.start_controllers()

    def start_controllers(self) -> None:
        """What makes pods of owners and ends them, and reckons budgets."""
        insecure = ("--port=0",) * (self.version < (1, 24))
        self._run(
            "kube-controller-manager", f"--kubeconfig={self.folder}/kubeconfig", "--leader-elect=false", "--secure-port=0", *insecure,
            "--controllers=deployment,replicaset,statefulset,job,disruption,garbagecollector,namespace",
        )  # fmt: skip

    def stop_controllers(self) -> None:
        """End them alone."""
        self._end("kube-controller-manager")

    def start_server(self, *more: str) -> None:
        """The API server, the first time or again, with more options."""
        folder = self.folder
        self._run(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key", f"--cert-dir={folder}",
            "--service-cluster-ip-range=192.0.2.0/24", "--authorization-mode=RBAC", f"--service-account-issuer={ISSUER}",
            f"--service-account-signing-key-file={folder}/accounts.key", f"--service-account-key-file={folder}/accounts.key",
            f"--token-auth-file={folder}/tokens.csv", "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={folder}/audit.yaml", f"--audit-log-path={self.audit}", "--audit-log-mode=blocking", *more,
        )  # fmt: skip
        self.until(self._ready)

    def _ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz").code == 200
        except OSError:
            return False

    def stop_server(self) -> None:
        """End the API server alone."""
        self._end("kube-apiserver")

    def pause(self, name: str) -> None:
        """It hangs from now on."""
        self._running[name].send_signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """It hangs no more."""
        self._running[name].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End everything."""
        for name in reversed(list(self._running)):
            self._end(name)

    def _run(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [found(name), *options], stdout=log, stderr=log, start_new_session=True
            )

    def _end(self, name: str) -> None:
        one = self._running.pop(name)
        one.kill()  # who is asked waits for the connections of others
        one.wait()

    def ask(self, method: str, path: str, body: Any = None, *, token: str = ADMIN, form: str = "") -> Answer:
        """One request. Raises OSError."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.context)
        try:
            kind = form or (MERGE if method == "PATCH" else JSON)
            sent = None if body is None else json.dumps(body)
            connection.request(
                method, path, sent, {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": JSON}
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return Answer(answer.status, json.loads(text))
        except ValueError:
            return Answer(answer.status, text)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the administrator that must be taken; its answer."""
        answer = self.ask(method, path, body)
        assert 200 <= answer.code < 300, answer
        return answer.data

    def kubectl(self, *arguments: str, said: str = "") -> str:
        """What a person types, as the administrator."""
        argv = [found("kubectl"), f"--kubeconfig={self.folder}/kubeconfig", *arguments]
        done = subprocess.run(
            argv, input=said, capture_output=True, text=True, timeout=30, check=False, env=environment(self.folder)
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def audited(self, user: str) -> list[Mapping[str, Any]]:
        """The requests of a service account, as the server's own audit log has them."""
        lines = self.audit.read_text().splitlines() if self.audit.exists() else []
        listed = [json.loads(line) for line in lines]
        return [one for one in listed if one["user"]["username"] == user]

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for something that happens; what the programs wrote, where it does not."""
        end = time.monotonic() + seconds
        while not holds():
            logs = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.out")]
            assert time.monotonic() < end, "\n".join(logs)
            time.sleep(0.05)


def environment(folder: Path) -> dict[str, str]:
    """For kubectl, which keeps what it learns in a home."""
    return {**os.environ, "HOME": str(folder)}


def path(version: str, plural: str, namespace: str = "", *rest: str) -> str:
    """Where objects are; ``version`` as an object's ``apiVersion`` has it."""
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope: Sequence[str] = ("namespaces", namespace) if namespace else ()
    return "/".join((root, *scope, plural, *rest))
