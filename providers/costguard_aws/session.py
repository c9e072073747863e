"""The SDK, opened for one instance: clients, credentials, time limits, and the name in the audit log.

The SDK repeats nothing by itself: `send` and its callers decide, because after some failures a request
may have had its effect. Credentials come from the SDK's own chain, except that the instance role is read
by `metadata`, which no proxy of the environment can divert.
"""

import datetime as dt
import functools
import itertools
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import boto3
import botocore.credentials
import botocore.session
from botocore.config import Config

import costguard
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site, Ticket
from costguard.cloud.retry import LateError, bounded, until
from costguard_aws import errors, metadata, transport

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
WHOLE_SECONDS = 20.0
"""The longest wait for one call, however its answer drips."""

LOOK_TRIES = 3
"""How often a question without an effect is asked before its answer counts as unknown; throttled tries do not count."""

_RENEWAL_SECONDS = 5.0  # for the credentials of one call, when they have to be renewed
_ROLE_HINT = f"check the metadata service of this machine, {hints.THEN_DOCTOR}"

_ROLES = "meta-data/iam/security-credentials/"
_SAFE = re.compile(r"[^A-Za-z0-9._:-]")
_GRACE = dt.timedelta(minutes=15)


class Session:
    """Clients for one region; ``first`` is the one made at once. Raises CloudError when there are no credentials."""

    def __init__(self, site: Site, region: str, first: str = "ec2") -> None:
        self.region = region
        self._endpoint = str(site.settings.get("api_endpoint") or "") or None
        self._stamp = ""
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        try:
            self._session = bounded(lambda: _authenticated(site, region), WHOLE_SECONDS)
            self.client(first)
        except Exception as error:
            raise errors.translate(error, "opening the AWS session") from error

    def client(self, service: str) -> Any:
        """The client of a service, made when first asked for."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def stamp(self, ticket: Ticket) -> None:
        """From now on each request carries the ids of this attempt, so that the audit log shows them."""
        ids = {"incident": ticket.incident, "attempt": ticket.attempt}
        self._stamp = "".join(f" costguard-{name}/{_SAFE.sub('-', value)}" for name, value in ids.items() if value)

    def send(self, service: str, operation: str, within: float = WHOLE_SECONDS, **parameters: Any) -> dict[str, Any]:
        """One request, once. Gives up waiting after ``within`` seconds. Raises CloudError."""
        permission = f"{service}:{operation}"
        end = time.monotonic() + within
        self._renew(permission, min(within / 2, _RENEWAL_SECONDS))
        method = getattr(self.client(service), re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower())
        try:
            return dict(bounded(lambda: method(**parameters), min(end - time.monotonic(), WHOLE_SECONDS)))
        except Exception as error:
            raise errors.translate(error, permission) from error

    def look(self, service: str, operation: str, end: float | None = None, **parameters: Any) -> dict[str, Any]:
        """A question without an effect, repeated after a technical failure. Raises CloudError.

        Backs off until ``end``, a moment of the monotonic clock, when throttled; repeats other technical failures LOOK_TRIES times.
        """
        tries = itertools.count(1)

        def again(error: CloudError) -> float | None:
            return error.retry_after if error.trouble == "throttled" or next(tries) < LOOK_TRIES else None

        latest = time.monotonic() + WHOLE_SECONDS if end is None else end
        return until(latest, lambda left: self.send(service, operation, left, **parameters), again)

    def _renew(self, permission: str, within: float) -> None:
        """Credentials that are good for a request, before it: while there are none nothing can have been heard."""
        try:
            bounded(lambda: self._session.get_credentials().get_frozen_credentials(), within)
        except LateError as error:
            message = f"{permission}: not sent, because the metadata service gave no credentials ({error})"
            raise CloudError("unreachable", message, code="credentials_late", hint=_ROLE_HINT) from error
        except Exception as error:
            raise errors.translate(error, permission) from error

    def _make(self, service: str) -> Any:
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
            user_agent_extra=f"costguard/{costguard.__version__}",
        )
        client = self._session.client(service, endpoint_url=self._endpoint, config=config)
        transport.limit(client)
        client.meta.events.register(f"before-send.{client.meta.service_model.service_id.hyphenize()}", self._sign_off)
        return client

    def _sign_off(self, request: Any, **_: object) -> None:
        """The last step before the wire: the SDK writes this header itself until then, and does not sign it."""
        said = request.headers.get("User-Agent", b"")
        text = said.decode() if isinstance(said, bytes) else str(said)
        request.headers["User-Agent"] = text + self._stamp


def _authenticated(site: Site, region: str) -> Any:
    core = botocore.session.Session()
    core.register_component("data_loader", _loader())
    resolver = core.get_component("credential_provider")
    resolver.insert_after("iam-role", _Role(site))
    resolver.remove("iam-role")  # ours takes its place: the SDK's would use a proxy
    session = boto3.session.Session(botocore_session=core, region_name=region)
    found = session.get_credentials()
    if found is None:
        raise _no_credentials()
    found.get_frozen_credentials()
    return session


@functools.cache
def _loader() -> Any:
    """The SDK's descriptions of its services, which take half a second to read: once for a process."""
    return botocore.session.Session().get_component("data_loader")


class _Role(botocore.credentials.CredentialProvider):  # type: ignore[misc]  # the SDK has no types
    """The instance role's temporary credentials, renewed by the SDK when it finds them old."""

    METHOD = "costguard-role"
    CANONICAL_NAME = "Ec2InstanceMetadata"

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    def load(self) -> Any:
        """None when the instance has no role, or when this is no instance."""
        if not metadata.wanted(self._site):
            return None
        first = self._fetch()
        if first is None:
            return None
        return botocore.credentials.RefreshableCredentials.create_from_metadata(
            metadata=first, method="iam-role", refresh_using=self._renew
        )

    def _renew(self) -> dict[str, str]:
        found = self._fetch()
        if found is None:
            raise _no_credentials()
        return found

    def _fetch(self) -> dict[str, str] | None:
        imds = metadata.of(self._site)
        name = (imds.text(_ROLES) or "").partition("\n")[0].strip()
        found = imds.json(_ROLES + name) if name else None
        if found is None:
            return None
        if not isinstance(found, dict) or found.get("Code") != "Success":
            code = str(found.get("Code", "")) if isinstance(found, dict) else ""
            message = f"the metadata service gives no credentials for the role {name} ({code or 'no code'})"
            hint = f"check the role's trust policy and the instance profile, {hints.THEN_DOCTOR}"
            raise CloudError("credentials", message, code=code or "credentials_missing", hint=hint)
        return _as_sdk(found)


def _as_sdk(found: Mapping[str, Any]) -> dict[str, str]:
    """In the SDK's words. Old credentials get a little more time, as the SDK does it: AWS itself shall judge them."""
    try:
        end = dt.datetime.fromisoformat(str(found["Expiration"]))
        now = dt.datetime.now(dt.UTC)
        if end <= now + _GRACE:
            end = now + _GRACE + dt.timedelta(minutes=1)
        return {
            "access_key": str(found["AccessKeyId"]),
            "secret_key": str(found["SecretAccessKey"]),
            "token": str(found["Token"]),
            "expiry_time": end.isoformat(),
        }
    except (KeyError, ValueError, TypeError):
        message = "the metadata service gives malformed credentials"
        hint = f"check the instance profile, {hints.THEN_DOCTOR}"
        raise CloudError("credentials", message, code="credentials_garbage", hint=hint) from None


def _no_credentials() -> CloudError:
    message = (
        "this machine has no AWS credentials: no instance profile, and none in the environment or in the SDK's files"
    )
    return CloudError("credentials", message, code="credentials_missing", hint=errors.CREDENTIALS_HINT)
