"""The metadata server of Compute Engine, on the standard library: no proxy, no redirect, at most a few seconds.

Sources: Compute Engine documentation "About VM metadata" and "View and query VM metadata" (the header that
every request and every answer carries, ``recursive``, 503 for less than a second during maintenance, requests
with ``X-Forwarded-For`` are refused); google-auth (``GCE_METADATA_HOST`` and ``GCE_METADATA_IP``).
"""

import http.client
import json
import re
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.cloud.http import Connection, whole

DEFAULT = "169.254.169.254"
"""The address instead of the name: a name would need a resolver that works."""

TIMEOUT = 1.0
"""Seconds for one try, to the last byte. The server is on the same host as the machine."""

CUT = "cut"
"""The code of an answer that broke off: a server that was just restarted. It is asked again, silence is not."""

TRIES = 3
PAUSE = 0.2  # seconds before the second try; doubled for each further one
UNIVERSE = "googleapis.com"
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LARGEST = 4 << 20  # bytes; the server's own limit for all attributes of a machine is 512 KB
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
            raise CloudError(
                "credentials",
                "this machine has no service account, so nothing here may call Google Cloud",
                code="credentials_missing",
                hint="stop the machine once and run `gcloud compute instances set-service-account`, "
                "see `costguard permissions gcp`",
            )
        try:
            found = json.loads(body)
            return Token(str(found["access_token"]), float(found["expires_in"]))
        except (ValueError, KeyError, TypeError):
            raise self._garbage("the token of the service account") from None

    def _get(self, path: str) -> bytes | None:
        for attempt in range(1, TRIES + 1):
            try:
                return self._try(path)
            except CloudError as error:
                if attempt == TRIES or (error.trouble not in {"internal", "throttled"} and error.code != CUT):
                    raise
            time.sleep(PAUSE * 2 ** (attempt - 1))
        raise AssertionError("unreachable")  # pragma: no cover - the last try returns or raises

    def _try(self, path: str) -> bytes | None:
        connection = Connection(self.host, self.port, TIMEOUT)
        try:
            headers = {_FLAVOR: "Google", "Host": "metadata.google.internal"}
            connection.request("GET", f"{self.prefix}/computeMetadata/v1/{path}", headers=headers)
            answer = connection.getresponse()
            body = whole(answer, _LARGEST)
        except TimeoutError:
            raise self._silent() from None
        except (ConnectionResetError, http.client.HTTPException) as error:
            raise self._unreachable(error, CUT) from None
        except OSError as error:
            raise self._unreachable(error, "no_connection") from None
        finally:
            connection.close()
        return self._judge(path, answer, body)

    def _judge(self, path: str, answer: http.client.HTTPResponse, body: bytes) -> bytes | None:
        code = f"http_{answer.status}"
        if answer.status in _RETRIED:  # during maintenance they come without the header
            raise CloudError("internal", f"the metadata server answered {answer.status}", code=code, hint=hints.AGAIN)
        if answer.getheader(_FLAVOR) != "Google":
            raise CloudError(
                "changed",
                f"what answers at {self.host} is not Google's metadata server (its answer {answer.status} lacks "
                f"`{_FLAVOR}: Google`); costguard does not act on its word",
                code="not_google",
                hint="look for a proxy or another cloud's metadata server, then run `costguard doctor`",
            )
        if answer.status == http.client.OK:
            return body
        if answer.status == http.client.NOT_FOUND:
            return None
        if answer.status == http.client.TOO_MANY_REQUESTS:
            raise CloudError("throttled", "the metadata server asks for fewer requests", code=code, hint=hints.AGAIN)
        if answer.status == http.client.FORBIDDEN:
            raise CloudError(
                "denied",
                f"the metadata server refuses to answer `{path.partition('?')[0]}`: a proxy adds X-Forwarded-For, or "
                "this container's cluster conceals the metadata",
                code=code,
                hint="run costguard on the machine itself, without a proxy, then `costguard doctor`",
            )
        raise CloudError("internal", f"the metadata server answered {answer.status}", code=code, hint=hints.AGAIN)

    def _silent(self) -> CloudError:
        return CloudError(
            "unreachable",
            f"the metadata server at {self.host} did not answer within {TIMEOUT:g} s: a firewall drops it, or this "
            "container has no way to it",
            code="timeout",
            hint="run costguard on the host or with the host's network, then `costguard doctor`",
        )

    def _unreachable(self, error: Exception, code: str) -> CloudError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        text = f"the metadata server at {self.host} cannot be reached ({reason})"
        return CloudError("unreachable", text, code=code, hint=hints.AGAIN)

    def _garbage(self, what: str) -> CloudError:
        text = f"the metadata server's answer for `{what}` makes no sense"
        return CloudError("internal", text, code="garbage", hint="look for a proxy, then run `costguard doctor`")


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
        raise CloudError(
            "refused",
            "the configuration forbids to ask a metadata server, so costguard cannot know which machine this is",
            code="metadata_never",
            hint='set cloud.metadata = "auto", then run `costguard doctor`',
        )
    given = _named(site) or DEFAULT
    parts = urllib.parse.urlsplit(given if "://" in given else f"http://{given}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme != "http":
        text = f"`{given}` is no address of a metadata server"
        raise CloudError("refused", text, code="endpoint", hint="correct cloud.metadata_endpoint or GCE_METADATA_HOST")
    prefix = parts.path.rstrip("/").removesuffix("/computeMetadata/v1")
    return host, port or 80, prefix
