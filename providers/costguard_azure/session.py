"""A session with the Resource Manager: the SDK's client, a token from the metadata service, and limits on time.

The SDK's own retries are off: it sleeps for whatever ``Retry-After`` says (azure-core 1.41, RetryPolicy),
beyond every deadline. `Session.ask` does it within one. There is no redirect policy either, so
that a token is never sent elsewhere, and no policy that registers resource providers.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from costguard import __version__
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity, Site
from costguard.cloud.http import limit
from costguard.cloud.retry import bounded, until
from costguard_azure import metadata, resource
from costguard_azure.errors import not_taken, translate

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0
"""Seconds to connect, and to wait for the next byte of an answer."""
WHOLE_SECONDS = 15.0
"""The longest wait for one call, however its answer drips; seconds."""
_FRESH_SECONDS = 300.0  # seconds; a token that ends sooner is replaced

AGENT = f"costguard/{__version__}"

T = TypeVar("T")


class Token(NamedTuple):
    """What azure-core expects of a credential."""

    token: str
    expires_on: int


class Credential:
    """Tokens of the machine's managed identity; the small part of azure-identity that is needed here."""

    def __init__(self, site: Site, audience: str) -> None:
        self._site = site
        self._audience = audience
        self._token = Token("", 0)

    def get_token(self, *_scopes: str, claims: str | None = None, **_options: object) -> Token:
        """A token that is good for some minutes. An old one that still works beats none. Raises CloudError.

        ``claims``: the cloud takes the old one no more (continuous access evaluation).
        """
        if claims:
            self.forget()
        now = time.time()
        if self._token.expires_on - now > _FRESH_SECONDS:
            return self._token
        try:
            text, ends = metadata.token(self._site, self._audience)
        except CloudError as error:
            if self._token.expires_on > now:
                return self._token
            if error.trouble != "unreachable":
                error.retry_after = None  # whoever answered was asked again until now
            raise
        if ends <= now:
            message = "the metadata service gave an expired token: this machine's clock is ahead, or the service's cache is stale"
            raise CloudError("clock", message, code="expires_on", hint=hints.CLOCK)
        self._token = Token(text, int(ends))
        return self._token

    def forget(self) -> None:
        """The cloud does not take the token any more."""
        self._token = Token("", 0)


class Session:
    """Two clients on one connection: the SDK's for machines, a plain one for what the SDK has no operation for."""

    def __init__(self, site: Site, machine: resource.Resource, environment: str, credential: Any = None) -> None:
        import requests
        from azure.core.pipeline.transport import RequestsTransport
        from azure.mgmt.compute import ComputeManagementClient
        from azure.mgmt.core import ARMPipelineClient

        logging.getLogger("azure").addHandler(logging.NullHandler())  # its warnings would end up among the answers
        cloud = _cloud(environment)
        self.machine = machine
        self.endpoint = (str(site.settings.get("api_endpoint") or "") or cloud.endpoint).rstrip("/")
        self.credential = credential or Credential(site, cloud.audience)
        self.scope = f"{cloud.audience.rstrip('/')}/.default"
        self._connections = requests.Session()
        self._connections.auth = _as_it_is
        self._connections.hooks["response"].append(limit)
        transport = RequestsTransport(
            session=self._connections,
            connection_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            connection_verify=_authority(site),
        )
        self.compute = ComputeManagementClient(
            self.credential,
            machine.subscription,
            base_url=self.endpoint,
            transport=transport,
            policies=_policies(self.credential, self.scope, self.endpoint),
        )
        self._arm = ARMPipelineClient(
            base_url=self.endpoint, transport=transport, policies=_policies(self.credential, self.scope, self.endpoint)
        )

    def get(self, path: str, version: str, doing: str) -> Any:
        """GET something that the compute SDK has no operation for. Raises CloudError."""
        from azure.core.rest import HttpRequest

        params = {} if "?" in path else {"api-version": version}  # the address of a further page has them all
        return self._sent(HttpRequest("GET", self.endpoint + path, params=params), doing)

    def patch(self, path: str, version: str, body: Mapping[str, Any], doing: str) -> Any:
        """PATCH something that the compute SDK has no operation for. Raises CloudError."""
        from azure.core.rest import HttpRequest

        request = HttpRequest("PATCH", self.endpoint + path, params={"api-version": version}, json=dict(body))
        return self._sent(request, doing)

    def _sent(self, request: Any, doing: str) -> Any:
        from azure.core.exceptions import HttpResponseError

        try:
            response = self._arm.send_request(request)
            if response.status_code != 200:
                raise HttpResponseError(response=response)  # noqa: TRY301 - the one place that knows statuses is below
            return response.json()
        except Exception as error:
            raise translate(error, doing) from error

    def path(self, address: str, doing: str) -> str:
        """Path and query of a further page. Raises CloudError for one elsewhere, which would get to see the token."""
        if not address.lower().startswith(f"{self.endpoint.lower()}/"):
            text = f"{doing}: the next page has another address than Azure's"
            raise CloudError("internal", text, code="nextLink", hint=hints.WHO_ANSWERS, retry_after=None)
        return address[len(self.endpoint) :]

    def once(self, doing: str, call: Callable[[], T], within: float | None = None) -> T:
        """One call, for at most ``within`` and `WHOLE_SECONDS` seconds. Raises CloudError, whatever the SDK raises; ``doing`` names the call.

        A cloud that does not take the token is asked once more with a new one.
        """
        end = time.monotonic() + min(WHOLE_SECONDS, WHOLE_SECONDS if within is None else within)
        for renewed in (False, True):
            try:
                return bounded(call, end - time.monotonic())
            except Exception as caught:
                if renewed or not not_taken(caught):
                    raise translate(caught, doing) from caught
            self.credential.forget()
        raise AssertionError  # the second try returns or raises

    def ask(self, end: float, doing: str, question: Callable[[], T]) -> T:
        """Put a question until there is an answer, or until the monotonic moment ``end``. Raises CloudError."""
        return until(end, lambda left: self.once(doing, question, left))

    def reconnect(self) -> None:
        """Let the next request begin on a connection of its own.

        Azure's address translation forgets a connection that was silent for four minutes and tells nobody: a
        request on it would be lost, and nobody could say whether it was heard.
        """
        self._connections.close()

    def close(self) -> None:
        """Close the connection."""
        self._arm.close()
        self.compute.close()


def fetch(site: Site, url: str, version: str, token: str, within: float) -> Any:
    """The JSON of an answer to one GET, of a service beside the Resource Manager. Raises what the SDK raises."""
    import requests
    from azure.core import PipelineClient
    from azure.core.exceptions import HttpResponseError
    from azure.core.pipeline import policies as sdk
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpRequest

    connections = requests.Session()
    connections.auth = _as_it_is
    connections.hooks["response"].append(limit)
    times = {"connection_timeout": min(CONNECT_SECONDS, within), "read_timeout": within}
    transport = RequestsTransport(session=connections, connection_verify=_authority(site), **times)
    policies = [sdk.RequestIdPolicy(), sdk.UserAgentPolicy(user_agent=AGENT), sdk.RetryPolicy(retry_total=0)]
    headers = {"Authorization": f"Bearer {token}"}
    with PipelineClient(base_url=url, policies=policies, transport=transport) as client:
        response = client.send_request(HttpRequest("GET", url, params={"api-version": version}, headers=headers))
        if response.status_code != 200:
            raise HttpResponseError(response=response)
        return response.json()


def _authority(site: Site) -> Any:
    """The file with the authorities that are trusted; True for the usual ones."""
    return site.environ.get("REQUESTS_CA_BUNDLE") or site.environ.get("SSL_CERT_FILE") or True


def open_session(site: Site, identity: Identity) -> Session:
    """Load the SDK and authenticate. Raises ImportError and CloudError."""
    machine = resource.parse(identity.details.get("resource_id", ""))
    if machine is None:
        raise CloudError("changed", "the identity of this machine has no resource id", hint=hints.DOCTOR)
    session = start(site, machine, identity.details)
    session.credential.get_token()
    return session


def start(site: Site, machine: resource.Resource, details: Mapping[str, str], credential: Any = None) -> Session:
    """Load the SDK. Raises ImportError, and CloudError for a cloud that is not known."""
    return Session(site, machine, details.get("environment") or resource.PUBLIC, credential)


def _cloud(environment: str) -> resource.Cloud:
    try:
        return {name.lower(): cloud for name, cloud in resource.CLOUDS.items()}[environment.lower()]
    except KeyError:
        text = f"costguard does not know the Azure cloud {environment} (known: {', '.join(resource.CLOUDS)})"
        raise CloudError("refused", text, code="azEnvironment", hint="see docs/clouds-azure.md") from None


def _as_it_is(request: Any) -> Any:
    """Keep the header of the token: without an ``auth`` of its own, requests puts one of ``~/.netrc`` in its place."""
    return request


def _policies(credential: Any, scope: str, endpoint: str) -> list[Any]:
    """What each request goes through. A policy belongs to one client, so each client gets its own."""
    from azure.core.pipeline import policies as sdk
    from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

    class PlainLoopback(sdk.SansIOHTTPPolicy):  # type: ignore[misc] # the SDK is untyped here
        """A token may cross plain http only where it cannot leave the machine."""

        def on_request(self, request: Any) -> None:
            request.context.options["enforce_https"] = False

    where = urlsplit(endpoint)
    loopback = where.scheme == "http" and where.hostname in {"127.0.0.1", "::1", "localhost"}
    return [
        sdk.RequestIdPolicy(),
        sdk.HeadersPolicy(),
        sdk.UserAgentPolicy(user_agent=AGENT),
        sdk.ContentDecodePolicy(),
        sdk.RetryPolicy(retry_total=0),
        *([PlainLoopback()] if loopback else []),
        ARMChallengeAuthenticationPolicy(credential, scope),
        sdk.CustomHookPolicy(),
    ]
