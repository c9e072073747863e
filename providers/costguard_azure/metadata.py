"""The metadata service of Azure (IMDS), over plain HTTP: no proxy, no redirect, short time-outs.

Source: Azure documentation "Azure Instance Metadata Service" (header ``Metadata: true``, no ``X-Forwarded-For``,
5 requests a second for each machine, every scalar is a string and a missing one is empty) and "How to use
managed identities to acquire an access token" (400 without an identity; 404, 410, 429 and 5xx are tried again).
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from costguard.answers import AnswerError
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.cloud.plain import Connection, address, quoted, retry_after
from costguard.cloud.retry import until

DEFAULT = "http://169.254.169.254"
VARIABLE = "COSTGUARD_AZURE_METADATA_ENDPOINT"
TOKEN_VARIABLE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"  # noqa: S105 - azure-identity's own override of the token endpoint

INSTANCE_VERSION = "2021-12-13"
TOKEN_VERSION = "2018-02-01"  # noqa: S105 - an API version
EVENTS_VERSION = "2020-07-01"

TRY_SECONDS = 1.0
"""Seconds for one try, to the last byte."""
BUDGET_SECONDS = 4.0
"""Seconds for all tries of one question."""
TOKEN_BUDGET_SECONDS = 15.0
"""Seconds for a token: the service is slow for a minute after it was updated (410)."""

_AGAIN = frozenset(("408", "410", "429", "500", "502", "503", "504"))
_AGAIN_TOKEN = _AGAIN | {"404"}  # the token's service is being updated
_LARGEST_BYTES = 1 << 20  # bytes; the instance document has some ten thousand
_CONTAINER = f"{hints.HOST_NETWORK}; a firewall must let root reach the service"


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
    found = _json(endpoint(site), "/metadata/instance", {"api-version": INSTANCE_VERSION}, BUDGET_SECONDS)
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
        found = _json(base, "/metadata/identity/oauth2/token", query, TOKEN_BUDGET_SECONDS, again=_AGAIN_TOKEN)
    except CloudError as error:
        if error.code == "400":
            raise _no_identity(client_id, str(error)) from None
        if error.code == "404":
            raise CloudError(
                "credentials", str(error), code="404", hint="check the managed identity: `az vm identity show --ids VM`"
            ) from None
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


def events(site: Site, timeout: float = 3 * TRY_SECONDS) -> dict[str, Any]:
    """The scheduled events. The first call ever enables them and may take two minutes. Raises CloudError."""
    found = _json(
        endpoint(site), "/metadata/scheduledevents", {"api-version": EVENTS_VERSION}, TRY_SECONDS, timeout=timeout
    )
    if not isinstance(found, dict):
        raise _garbage(endpoint(site))
    return found


def _json(
    base: str,
    path: str,
    query: Mapping[str, str],
    budget: float,
    *,
    timeout: float = TRY_SECONDS,
    again: frozenset[str] = _AGAIN,
) -> Any:
    """Ask until there is an answer or the budget (seconds) is spent; ``again`` are the codes to repeat. Raises CloudError."""
    where = address(base)
    if where is None:
        message, hint = f"`{base}` is not the address of a metadata service", f"{hints.ADDRESS}; empty: {DEFAULT}"
        raise CloudError("refused", message, code="metadata_endpoint", hint=hint)
    target = f"{path}?{'&'.join(f'{name}={quoted(value)}' for name, value in query.items())}"

    def repeat(error: CloudError) -> float | None:
        return error.retry_after or 0.0 if error.trouble == "unreachable" or error.code in again else None

    return until(time.monotonic() + budget, lambda _: _try(where, base, target, timeout), repeat, longest=2.0)


def _try(where: tuple[str, int, str], base: str, target: str, timeout: float) -> Any:
    """One request, straight to the address: without proxies and redirects. Raises CloudError."""
    host, port, path = where
    try:
        with Connection(host, port, timeout) as connection:
            answer = connection.ask("GET", path + target, {"Metadata": "true"}, _LARGEST_BYTES)
    except TimeoutError:
        message = f"the metadata service ({base}) did not answer within {timeout:g} s"
        raise CloudError("unreachable", message, code="timeout", hint=_CONTAINER) from None
    except ConnectionRefusedError:
        message = f"nothing listens at the address of the metadata service ({base}): it is switched off or out of reach"
        raise CloudError("unreachable", message, code="connection refused", hint=_CONTAINER) from None
    except AnswerError as error:
        message = f"the metadata service ({base}) {error}"
        raise CloudError("unreachable", message, code="no whole answer", hint=_CONTAINER) from None
    except OSError as error:
        message = f"the metadata service ({base}) cannot be reached: {type(error).__name__}: {error}"
        raise CloudError("unreachable", message, code=type(error).__name__, hint=_CONTAINER) from None
    if answer.status != 200:
        raise _refusal(base, answer.status, min(5.0, retry_after(answer.field("Retry-After"))), answer.body)
    try:
        return json.loads(answer.body)
    except ValueError:
        raise _garbage(base) from None


def _refusal(base: str, status: int, wait: float, body: bytes) -> CloudError:
    """An answer that says no. Source of the meanings: the pages named above."""
    detail, code = body[:300].decode("utf-8", "replace").strip(), str(status)
    message = f"the metadata service ({base}) answered {status}" + (f": {detail}" if detail else "")
    if status in {401, 403}:
        hint = "allow this program in the machine's metadata security rules"
        return CloudError("denied", message, code=code, hint=hint)
    if status == 400:
        hint = "exempt 169.254.169.254 from the proxy: it may add X-Forwarded-For, which the service refuses"
        return CloudError("internal", message, code=code, hint=hint)
    if status == 404:
        return CloudError("gone", f"{message}: this machine has no such metadata", code=code, hint=hints.DOCTOR)
    if status == 429:
        hint = "find the program that asks more than 5 times a second"
        return CloudError("throttled", f"{message}: too many requests", code=code, hint=hint, retry_after=wait)
    if 300 <= status < 400:
        message = f"{message}: a redirect, which only a proxy or gateway sends"
        return CloudError("internal", message, code=code, hint=hints.METADATA)
    return CloudError("internal", message, code=code, hint=hints.DOCTOR, retry_after=wait)


def _garbage(base: str) -> CloudError:
    text = f"the answer of {base} is not from Azure's metadata service"
    return CloudError("internal", text, code="garbage", hint=hints.METADATA)


def _no_identity(client_id: str, message: str) -> CloudError:
    if client_id:
        text = f"this machine has no managed identity with client id {client_id} ({message})"
        return CloudError(
            "credentials", text, code="400", hint="set cloud.azure.identity to one that `az vm identity show` lists"
        )
    text = f"this machine has no managed identity, or several and none is chosen ({message})"
    hint = "run `az vm identity assign --ids VM`, or set cloud.azure.identity to the client id of one"
    return CloudError("credentials", text, code="400", hint=hint)
