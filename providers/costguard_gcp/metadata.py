"""The metadata server of Compute Engine, over plain HTTP: no proxy, no redirect, at most a few seconds.

Sources: Compute Engine documentation "About VM metadata" and "View and query VM metadata" (the header that
every request and every answer carries, ``recursive``, 503 for less than a second during maintenance, requests
with ``X-Forwarded-For`` are refused); google-auth (``GCE_METADATA_HOST`` and ``GCE_METADATA_IP``).
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.answers import AnswerError, HttpAnswer
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.cloud.plain import Connection, address
from costguard.cloud.retry import until
from costguard_gcp import permissions

DEFAULT = "169.254.169.254"
"""The address instead of the name: a name would need a resolver that works."""

TRY_SECONDS = 1.0
"""Seconds for one try, to the last byte. The server is on the same host as the machine."""

CUT = "cut"
"""The code of an answer that broke off: a server that was just restarted. It is asked again, silence is not."""

TRIES, BUDGET_SECONDS = 3, 6.0
"""How often one question is asked, and within how many seconds."""

UNIVERSE = "googleapis.com"
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LARGEST_BYTES = 4 << 20  # bytes; the server's own limit for all attributes of a machine is 512 KB
_FLAVOR = "Metadata-Flavor"
_RETRIED = {500, 502, 503, 504}


class Token(NamedTuple):
    """An access token of the machine's service account, and for how many seconds it holds."""

    text: str
    seconds: float


class Metadata:
    """A client. ``base`` is where the server listens, as the settings or the SDK's environment say."""

    def __init__(self, site: Site) -> None:
        self.host, self.port, self.prefix = _endpoint(site)

    def text(self, path: str) -> str | None:
        """One value; None when the server does not have it. Raises CloudError."""
        body = self._get(path)
        return None if body is None else body.decode("utf-8", "replace").strip()

    def tree(self, path: str) -> Mapping[str, Any]:
        """Everything below a folder, empty when the server does not have it. Raises CloudError."""
        body = self._get(f"{path}?recursive=true&alt=json")
        if body is None:
            return {}
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._garbage(path)
        return found

    def universe(self) -> str:
        """The domain of the APIs: Google's own, or that of a cloud which a partner runs. Raises CloudError.

        Source: google-auth, ``compute_engine/_metadata.py`` (``universe/universe-domain``; 404 or nothing is Google's own).
        """
        found = self.text("universe/universe-domain") or UNIVERSE
        if not _DOMAIN.fullmatch(found):
            raise self._garbage("universe/universe-domain")
        return found

    def token(self) -> Token:
        """A fresh token of the service account. Raises CloudError; ``credentials`` when there is no account."""
        body = self._get("instance/service-accounts/default/token")
        if body is None:
            text = "this machine has no service account, so it may not call Google Cloud"
            hint = f"{permissions.set_scopes()}; `costguard permissions gcp` prints all commands"
            raise CloudError("credentials", text, code="credentials_missing", hint=hint)
        try:
            found = json.loads(body)
            return Token(str(found["access_token"]), float(found["expires_in"]))
        except (ValueError, KeyError, TypeError):
            raise self._garbage("the token of the service account") from None

    def _get(self, path: str) -> bytes | None:
        return until(time.monotonic() + BUDGET_SECONDS, lambda _: self._try(path), _again, tries=TRIES)

    def _try(self, path: str) -> bytes | None:
        headers = {_FLAVOR: "Google", "Host": "metadata.google.internal"}
        try:
            with Connection(self.host, self.port, TRY_SECONDS) as connection:
                answer = connection.ask("GET", f"{self.prefix}/computeMetadata/v1/{path}", headers, _LARGEST_BYTES)
        except TimeoutError:
            raise self._silent() from None
        except (ConnectionResetError, AnswerError) as error:
            raise self._unreachable(error, CUT) from None
        except OSError as error:
            raise self._unreachable(error, "no_connection") from None
        return self._judge(path, answer)

    def _judge(self, path: str, answer: HttpAnswer) -> bytes | None:
        code, answered = f"http_{answer.status}", f"the metadata server answered {answer.status}"
        if answer.status in _RETRIED:  # during maintenance they come without the header
            raise CloudError("internal", answered, code=code, hint=hints.AGAIN)
        if answer.field(_FLAVOR) != "Google":
            text = f"the answer of {self.host} is not from Google's metadata server: {answer.status} without `{_FLAVOR}: Google`"
            raise CloudError("changed", text, code="not_google", hint=hints.METADATA)
        if answer.status == 200:
            return answer.body
        if answer.status == 404:
            return None
        if answer.status == 429:
            text = "the metadata server throttles this machine: a program on it asks too often"
            raise CloudError("throttled", text, code=code, hint=hints.AGAIN)
        if answer.status == 403:
            text = f"the metadata server refuses `{path.partition('?')[0]}`: a proxy adds X-Forwarded-For, or a cluster conceals metadata"
            raise CloudError("denied", text, code=code, hint="run costguard on the machine itself, without a proxy")
        raise CloudError("internal", answered, code=code, hint=hints.AGAIN)

    def _silent(self) -> CloudError:
        text = f"the metadata server at {self.host} did not answer within {TRY_SECONDS:g} s"
        hint = f"{hints.HOST_NETWORK}; a firewall must let root reach the server"
        return CloudError("unreachable", text, code="timeout", hint=hint)

    def _unreachable(self, error: Exception, code: str) -> CloudError:
        reason = getattr(error, "strerror", None) or (
            f"it {error}" if isinstance(error, AnswerError) else type(error).__name__
        )
        text = f"the metadata server at {self.host} cannot be reached ({reason})"
        return CloudError("unreachable", text, code=code, hint=hints.AGAIN)

    def _garbage(self, what: str) -> CloudError:
        text = f"malformed answer of the metadata server for `{what}`"
        return CloudError("internal", text, code="garbage", hint=hints.METADATA)


def replaced(site: Site) -> bool:
    """Whether somebody named an address, so that asking it is no probe."""
    return bool(_named(site))


def _named(site: Site) -> str:
    environ = site.environ
    names = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
    return str(
        site.settings.get("metadata_endpoint") or next((environ[name] for name in names if environ.get(name)), "")
    )


def _endpoint(site: Site) -> tuple[str, int, str]:
    """Host, port and path prefix: the settings first, then the SDK's environment, then the well-known address."""
    if site.settings.get("metadata") == "never":
        raise CloudError("refused", hints.NO_METADATA, code="metadata_never", hint='set cloud.metadata = "auto"')
    given = _named(site) or DEFAULT
    where = address(given if "://" in given else f"http://{given}")
    if where is None:
        text = f"`{given}` is not the address of a metadata server"
        raise CloudError("refused", text, code="endpoint", hint=f"{hints.ADDRESS}, or correct GCE_METADATA_HOST")
    host, port, path = where
    return host, port, path.removesuffix("/computeMetadata/v1")


def _again(error: CloudError) -> float | None:
    """Trouble passes, and a server that was just restarted broke off; who is silent stays so."""
    return error.retry_after if error.trouble in {"internal", "throttled"} or error.code == CUT else None
