"""The metadata service of Azure (IMDS), through the standard library: no proxy, no redirect, short time-outs.

Source: Azure documentation "Azure Instance Metadata Service" (header ``Metadata: true``, no ``X-Forwarded-For``,
5 requests a second for each machine, every scalar is a string and a missing one is empty) and "How to use
managed identities to acquire an access token" (400 without an identity; 404, 410, 429 and 5xx are tried again).
"""

import http.client
import json
import random
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from costguard.cloud.api import CloudError, Site
from costguard.cloud.http import Connection, whole

DEFAULT = "http://169.254.169.254"
VARIABLE = "COSTGUARD_AZURE_METADATA_ENDPOINT"
TOKEN_VARIABLE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"  # noqa: S105 - azure-identity's own override of the token endpoint

INSTANCE_VERSION = "2021-12-13"
TOKEN_VERSION = "2018-02-01"  # noqa: S105 - an API version
EVENTS_VERSION = "2020-07-01"

TRY = 1.0
"""Seconds for one try, to the last byte."""
BUDGET = 4.0
"""Seconds for all tries of one question."""
TOKEN_BUDGET = 15.0
"""Seconds for a token: the service is slow for a minute after it was updated (410)."""

_AGAIN = frozenset((408, 410, 429, 500, 502, 503, 504))
_AGAIN_TOKEN = _AGAIN | {404}  # the token's service is being updated
_LARGEST = 1 << 20  # bytes; the instance document has some ten thousand
_CONTAINER = "in a container use the host's network; a firewall must let root reach it"


class Answer(NamedTuple):
    """What the service said to one try."""

    status: int
    retry_after: float | None
    body: bytes


def endpoint(site: Site) -> str:
    """Where the metadata service is: the configuration, then the environment, then the cloud's own address."""
    return str(site.settings.get("metadata_endpoint") or site.environ.get(VARIABLE) or DEFAULT)


def token_endpoint(site: Site) -> str:
    """Where tokens come from: as `endpoint`, unless azure-identity's own variable says otherwise."""
    return site.environ.get(TOKEN_VARIABLE) or endpoint(site)


def replaced(site: Site) -> bool:
    """Whether somebody named an address, so that asking it is no probe."""
    return bool(site.settings.get("metadata_endpoint") or site.environ.get(VARIABLE))


def compute(site: Site) -> dict[str, Any]:
    """The part ``compute`` of the instance document. Raises CloudError."""
    found = _json(endpoint(site), "/metadata/instance", {"api-version": INSTANCE_VERSION}, BUDGET)
    part = found.get("compute") if isinstance(found, dict) else None
    if not isinstance(part, dict) or not isinstance(part.get("vmId"), str):
        raise _garbage(endpoint(site))
    return part


def token(site: Site, resource: str) -> tuple[str, float]:
    """A bearer token for ``resource`` and the moment (seconds since the epoch) when it ends. Raises CloudError."""
    base = token_endpoint(site)
    query = {"api-version": TOKEN_VERSION, "resource": resource}
    client_id = str(site.settings.get("identity") or "")
    if client_id:
        query["client_id"] = client_id
    try:
        found = _json(base, "/metadata/identity/oauth2/token", query, TOKEN_BUDGET, again=_AGAIN_TOKEN)
    except CloudError as error:
        if error.code == "400":
            raise _no_identity(client_id, str(error)) from None
        if error.code == "404":
            raise CloudError("credentials", str(error), code="404", hint="see `az vm identity show --ids VM`") from None
        raise
    try:
        return str(found["access_token"]), _ends(found)
    except (KeyError, TypeError, ValueError):
        raise _garbage(base) from None


def _ends(found: Mapping[str, Any]) -> float:
    """When a token ends; some services give a date in its place, and the seconds beside it."""
    try:
        return float(found["expires_on"])
    except (KeyError, ValueError):
        return time.time() + float(found["expires_in"])


def events(site: Site, timeout: float = 3 * TRY) -> dict[str, Any]:
    """The scheduled events. The first call ever enables them and may take two minutes. Raises CloudError."""
    found = _json(endpoint(site), "/metadata/scheduledevents", {"api-version": EVENTS_VERSION}, TRY, timeout=timeout)
    if not isinstance(found, dict):
        raise _garbage(endpoint(site))
    return found


def _json(
    base: str,
    path: str,
    query: Mapping[str, str],
    budget: float,
    *,
    timeout: float = TRY,
    again: frozenset[int] = _AGAIN,
) -> Any:
    """Ask until there is an answer or the budget (seconds) is spent. Raises CloudError."""
    where = _address(base)
    end = time.monotonic() + budget
    tries = 0
    while True:
        answer, error = _try(where, base, f"{path}?{urlencode(query)}", timeout)
        if answer and answer.status == 200:
            try:
                return json.loads(answer.body)
            except ValueError:
                raise _garbage(base) from None
        wait = (answer.retry_after if answer else None) or min(2.0, 0.2 * 2**tries) * random.uniform(0.7, 1.3)  # noqa: S311 - spreads machines
        tries += 1
        if (answer and answer.status not in again) or time.monotonic() + wait > end:
            raise error or _said(base, answer) from None
        time.sleep(wait)


def _address(base: str) -> tuple[str, int, str]:
    """Host, port and path of an endpoint. Raises CloudError for what is none."""
    try:
        where = urlsplit(base)
        if where.scheme == "http" and where.hostname:
            return where.hostname, where.port or 80, where.path.rstrip("/")
    except ValueError:
        pass
    hint = f"set [cloud] metadata_endpoint to an address that begins with http://, or to nothing for {DEFAULT}"
    raise CloudError("refused", f"{base} is no address of a metadata service", code="metadata_endpoint", hint=hint)


def _try(
    where: tuple[str, int, str], base: str, target: str, timeout: float
) -> tuple[Answer | None, CloudError | None]:
    """One request, straight to the address: `http.client` knows neither proxies nor redirects."""
    host, port, path = where
    connection = Connection(host, port, timeout)
    try:
        connection.request("GET", path + target, headers={"Metadata": "true"})
        response = connection.getresponse()
        body = whole(response, _LARGEST)
        return Answer(response.status, _seconds(response.getheader("Retry-After")), body), None
    except TimeoutError:
        text = f"the metadata service ({base}) did not answer within {timeout:g} s"
        return None, CloudError("unreachable", text, code="timeout", hint=_CONTAINER)
    except ConnectionRefusedError:
        text = f"nothing listens at the metadata service's address ({base}): it is switched off or out of reach"
        return None, CloudError("unreachable", text, code="connection refused", hint=_CONTAINER)
    except (OSError, http.client.HTTPException) as error:
        text = f"the metadata service ({base}) cannot be asked: {type(error).__name__}: {error}"
        return None, CloudError("unreachable", text, code=type(error).__name__, hint=_CONTAINER)
    finally:
        connection.close()


def _said(base: str, answer: Answer | None) -> CloudError:
    """An answer that is none, in words. Source of the meanings: the pages named above."""
    status, body = (answer.status, answer.body) if answer else (0, b"")
    words = body[:300].decode("utf-8", "replace").strip()
    said = f"the metadata service ({base}) answered {status}" + (f": {words}" if words else "")
    if status in {401, 403}:
        hint = "the machine's metadata security rules must let this program ask"
        return CloudError("denied", said, code=str(status), hint=hint)
    if status == 400:
        hint = "a proxy that adds X-Forwarded-For is refused; set NO_PROXY=169.254.169.254"
        return CloudError("internal", said, code="400", hint=hint)
    if status == 404:
        return CloudError("gone", f"{said}: this machine has no such metadata", code="404")
    if status == 429:
        hint = "another program asks more than 5 times a second"
        return CloudError("throttled", f"{said}: too many requests", code="429", hint=hint)
    if 300 <= status < 400:
        text = f"{said}: a redirect, which no metadata service sends; something between answers in its place"
        return CloudError("internal", text, code=str(status))
    return CloudError("internal", said, code=str(status))


def _garbage(base: str) -> CloudError:
    text = f"{base} answered, but not as Azure's metadata service does"
    return CloudError("internal", text, code="garbage", hint="check [cloud] metadata_endpoint and who owns the address")


def _no_identity(client_id: str, words: str) -> CloudError:
    if client_id:
        text = f"this machine has no managed identity with client id {client_id} ({words})"
        return CloudError(
            "credentials", text, code="400", hint="set [cloud.azure] identity to one of `az vm identity show`"
        )
    text = f"this machine has no managed identity, or several and none is chosen ({words})"
    hint = "run `az vm identity assign --ids VM`, or set [cloud.azure] identity to the client id of one"
    return CloudError("credentials", text, code="400", hint=hint)


def _seconds(header: str | None) -> float | None:
    try:
        return min(5.0, max(0.0, float(header))) if header else None
    except ValueError:
        return None
