"""One request to the master: no proxy, no redirect, an answer of bounded size, and an end in time. The token stands in a header alone."""

import http.client
import json
import os
import re
import ssl
from typing import Any
from urllib.parse import urlsplit

from costguard.cloud.http import whole
from costguard.cloud.plain import retry_after
from costguard.cloud.retry import LateError, bounded
from costguard.tasks.api import Place, SchedulerError
from costguard_determined.errors import explain, foreign, unreachable

CALL_SECONDS = 5.0
"""For one request. A master that answers at all does so in less than one."""

LONGEST_BYTES = 4 << 20
TOKEN_BYTES = 8192

_TOKEN = re.compile(r"[\w.~+/=-]+", re.ASCII)


class Master:
    """The master of a task's cluster."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._address = str(place.settings.get("master") or "") or place.environ.get("DET_MASTER", "")

    def ask(self, method: str, path: str, within: float) -> dict[str, Any]:
        """One request; its answer. Raises SchedulerError, which says whether the request may have had its effect."""
        limit = min(CALL_SECONDS, within)
        what = f"{method} {path}"
        if limit <= 0:
            raise unreachable(what, TimeoutError("no time was left"), "no")
        try:
            return bounded(lambda: self._asked(method, path, limit), limit)
        except LateError as error:
            raise unreachable(what, TimeoutError(f"no answer within {limit:.0f} s"), "silent") from error

    def _asked(self, method: str, path: str, limit: float) -> dict[str, Any]:
        token, connection = self._token(), self._connection(limit)
        try:
            return self._answered(connection, method, path, token)
        except SchedulerError as error:  # whoever repeats the token in an answer does not get it into a message
            error.args = tuple(one.replace(token, "***") if isinstance(one, str) else one for one in error.args)
            raise
        finally:
            connection.close()

    def _answered(self, connection: http.client.HTTPConnection, method: str, path: str, token: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "costguard"}
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise unreachable(f"{method} {path}", error, "no") from error
        return self._exchange(connection, method, path, headers)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]
    ) -> dict[str, Any]:
        what, base = f"{method} {path}", urlsplit(self._address).path.rstrip("/")
        try:
            connection.request(method, base + path, body=b"{}" if method == "POST" else None, headers=headers)
            answer = connection.getresponse()
            body = whole(answer, LONGEST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(what, error, "silent") from error
        if answer.status != http.client.OK:
            raise explain(what, answer.status, body, retry_after(answer.getheader("Retry-After")))
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):  # an empty answer, or somebody's page
            raise foreign(what, answer.status, "silent")
        return found

    def _connection(self, limit: float) -> http.client.HTTPConnection:
        try:
            parts = urlsplit(self._address)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if not host or parts.scheme not in {"http", "https"}:
            text = "DET_MASTER is not the address of a master"
            raise SchedulerError("refused", text, hint="set master under [task.determined]")
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=limit)
        try:
            return _Tls(host, port, limit, self._place.environ)
        except OSError as error:
            text = f"the certificate in DET_MASTER_CERT_FILE cannot be used ({error.strerror or type(error).__name__})"
            raise SchedulerError("credentials", text, hint="let costguard's user read that file") from error

    def _token(self) -> str:
        """A user's token: from the file that is named, else the one that Determined gave to the task."""
        environ = self._place.environ
        path = str(self._place.settings.get("token_file") or "")
        if path:
            try:
                with open(path, encoding="ascii") as file:
                    token = file.read(TOKEN_BYTES).strip()
            except (OSError, ValueError) as error:
                text = f"the token in {path} cannot be read ({getattr(error, 'strerror', None) or 'it is not text'})"
                raise SchedulerError("credentials", text, hint="let costguard's user read token_file") from error
        else:
            token = environ.get("DET_USER_TOKEN") or environ.get("DET_SESSION_TOKEN") or ""
        if not _TOKEN.fullmatch(token):
            text = "there is no token of a user, neither in token_file nor in the task's environment"
            raise SchedulerError("credentials", text, hint="name a file with one: [task.determined] token_file")
        return token


class _Tls(http.client.HTTPSConnection):
    """TLS as the task's environment says: a certificate in a file, and the name in it; or, where the cluster says so, none."""

    def __init__(self, host: str, port: int | None, limit: float, environ: Any) -> None:
        said, self._named = environ.get("DET_MASTER_CERT_FILE", ""), environ.get("DET_MASTER_CERT_NAME", "")
        context = ssl.create_default_context(cafile=said if said and os.path.isfile(said) else None)
        if said == "noverify":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._ours = context
        super().__init__(host, port, timeout=limit, context=context)

    def connect(self) -> None:
        """Connect; the name in the certificate may be another one than that of the address."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._ours.wrap_socket(self.sock, server_hostname=self._named or self.host)
