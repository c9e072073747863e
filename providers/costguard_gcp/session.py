"""The SDK, loaded and signed in: one small method for each call that this plug-in makes.

Only a worker imports this module: the SDK costs more than a second and over 100 MB. Every call has a limit of
its own for the whole of it (the SDK's default is ten minutes for the next byte), none is repeated by the SDK, and the SDK's operation pollers are not
used: they ignore a custom endpoint and need a right on the whole project.
"""

import datetime as dt
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import google.auth
import google.auth.credentials
import requests
from google.auth.transport.requests import Request

from costguard import __version__
from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity, Site, Ticket, Verb
from costguard.cloud.http import for_tokens
from costguard.cloud.retry import LateError, bounded
from costguard_gcp import errors
from costguard_gcp.firmware import recognises
from costguard_gcp.metadata import UNIVERSE, Metadata, replaced
from costguard_gcp.permissions import CALLS
from costguard_gcp.places import Group, Where
from costguard_gcp.sdk import compute

CALL_SECONDS = 10.0
"""Seconds for one call."""

_ALL_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_AGENT = f"costguard/{__version__}"


class MachineCredentials(google.auth.credentials.Credentials):  # type: ignore[misc] # the SDK's classes have no types
    """The machine's service account, asked for through the same metadata client as everything else."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__()
        self._metadata = metadata

    def refresh(self, request: object) -> None:
        """Get a token. Raises CloudError. The SDK compares ``expiry`` with UTC without a zone."""
        token = self._metadata.token()
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self.token = token.text
        self.expiry = now + dt.timedelta(seconds=token.seconds)


class OwnCredentials(google.auth.credentials.Credentials):  # type: ignore[misc] # as above
    """The user's own credentials, without what the SDK does beside: a look-up of allowed regions at another service."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner
        self._session = requests.Session()
        self._session.hooks["response"].append(errors.heed)

    def refresh(self, request: object) -> None:
        """Get a token from Google's sign-in."""
        self._inner.refresh(Request(self._session))
        self.token, self.expiry = self._inner.token, self._inner.expiry

    def apply(self, headers: Any, token: str | None = None) -> None:
        """The token, and the project that pays for the user's calls."""
        self._inner.apply(headers, token)


class Api:
    """Calls about one machine. Every one raises CloudError and nothing else."""

    def __init__(self, where: Where, credentials: Any, endpoint: str, universe: str = UNIVERSE) -> None:
        self.where = where
        self._credentials = credentials
        self._options = {"universe_domain": universe} | ({"api_endpoint": endpoint} if endpoint else {})
        self._clients: dict[Callable[..., Any], Any] = {}
        self._instances = self._client(compute.InstancesClient)

    def instance(self, timeout: float = CALL_SECONDS) -> Any:
        """What the API knows of the machine."""
        request = compute.GetInstanceRequest(**self._here())
        found = self._call("instances.get", self._instances.get, request, timeout)
        if not (found.id and found.status):  # every machine has both; without them it would look like another one
            raise errors.garbage("instances.get", "it lacks the machine's id or status")
        return found

    def granted(self, permissions: Iterable[str], timeout: float = CALL_SECONDS) -> frozenset[str]:
        """Which of these rights the caller has on the machine; asking has no effect and needs no right."""
        body = compute.TestPermissionsRequest(permissions=list(permissions))
        project, zone, name = self.where
        request = compute.TestIamPermissionsInstanceRequest(
            project=project, zone=zone, resource=name, test_permissions_request_resource=body
        )
        ask = self._instances.test_iam_permissions
        return frozenset(self._call("instances.testIamPermissions", ask, request, timeout).permissions)

    def label(self, labels: Mapping[str, str], fingerprint: str, timeout: float) -> Any:
        """Replace the labels that had this fingerprint; refused with *conditionNotMet* when they have changed since."""
        body = compute.InstancesSetLabelsRequest(labels=dict(labels), label_fingerprint=fingerprint)
        request = compute.SetLabelsInstanceRequest(**self._here(), instances_set_labels_request_resource=body)
        return self._call("instances.setLabels", self._instances.set_labels_unary, request, timeout)

    def act(self, verb: Verb, ticket: Ticket, request_id: str, *, discard: bool, timeout: float) -> Any:
        """Stop, delete or suspend. ``discard`` allows to lose the data of local SSDs; without it the API refuses."""
        name = CALLS[verb]
        local = {"discard_local_ssd": True} if discard and verb != "terminate" else {}
        kind = getattr(compute, f"{name.capitalize()}InstanceRequest")
        request = kind(**self._here(), request_id=request_id, **local)
        return self._call(f"instances.{name}", getattr(self._instances, f"{name}_unary"), request, timeout, ticket)

    def act_in_group(self, verb: Verb, group: Group, ticket: Ticket, request_id: str, timeout: float) -> Any:
        """Let the group stop, delete or suspend the machine and lower its size with it."""
        word = CALLS[verb].capitalize()
        prefix = "Region" if group.region else ""
        body = getattr(compute, f"{prefix}InstanceGroupManagers{word}InstancesRequest")
        kind = getattr(compute, f"{word}Instances{prefix}InstanceGroupManagerRequest")
        field = f"{'region_' if group.region else ''}instance_group_managers_{word.lower()}_instances_request_resource"
        me = f"zones/{self.where.zone}/instances/{self.where.name}"
        request = kind(**_place(group), request_id=request_id, **{field: body(instances=[me])})
        call = getattr(self._managers(group), f"{word.lower()}_instances_unary")
        return self._call(f"instanceGroupManagers.{word.lower()}Instances", call, request, timeout, ticket)

    def group(self, group: Group, timeout: float = CALL_SECONDS) -> Any:
        """What the API knows of a managed instance group."""
        kind = compute.GetRegionInstanceGroupManagerRequest if group.region else compute.GetInstanceGroupManagerRequest
        return self._call("instanceGroupManagers.get", self._managers(group).get, kind(**_place(group)), timeout)

    def autoscaler(self, group: Group, name: str, timeout: float = CALL_SECONDS) -> Any:
        """The autoscaler of a group."""
        if group.region:
            regional = compute.GetRegionAutoscalerRequest(project=group.project, region=group.region, autoscaler=name)
            get = self._client(compute.RegionAutoscalersClient).get
            return self._call("autoscalers.get", get, regional, timeout)
        zonal = compute.GetAutoscalerRequest(project=group.project, zone=group.zone, autoscaler=name)
        return self._call("autoscalers.get", self._client(compute.AutoscalersClient).get, zonal, timeout)

    def operation(self, name: str, timeout: float = CALL_SECONDS) -> Any:
        """An operation of the machine's zone; needs a right on the whole project, which the role does not have."""
        project, zone, _ = self.where
        request = compute.GetZoneOperationRequest(project=project, zone=zone, operation=name)
        return self._call("zoneOperations.get", self._client(compute.ZoneOperationsClient).get, request, timeout)

    def _here(self) -> dict[str, str]:
        project, zone, name = self.where
        return {"project": project, "zone": zone, "instance": name}

    def _managers(self, group: Group) -> Any:
        kind = compute.RegionInstanceGroupManagersClient if group.region else compute.InstanceGroupManagersClient
        return self._client(kind)

    def _client(self, kind: Callable[..., Any]) -> Any:
        if kind not in self._clients:
            made = kind(credentials=self._credentials, client_options=self._options)
            made.transport._session.hooks["response"].append(errors.heed)  # noqa: SLF001 - the SDK has no other way to it
            self._clients[kind] = made
        return self._clients[kind]

    def _call(
        self, name: str, call: Callable[..., Any], request: object, timeout: float, ticket: Ticket | None = None
    ) -> Any:
        """One request, once. The SDK's ``timeout`` is for the next byte, ours for the whole answer."""
        end = time.monotonic() + timeout
        self._sign_in(timeout)
        given = {"timeout": max(timeout, 0.1), "retry": None, "metadata": _headers(ticket)}
        try:
            return bounded(lambda: call(request=request, **given), end - time.monotonic())
        except Exception as error:  # whatever the SDK raises becomes a CloudError
            raise errors.translate(error, name) from error

    def _sign_in(self, timeout: float) -> None:
        """A token before the request, not in it: while there is none nothing can have been heard. Raises CloudError."""
        held = self._credentials
        if not isinstance(held, MachineCredentials) or held.valid:
            return
        try:
            bounded(lambda: held.refresh(None), timeout)
        except LateError as error:
            text = f"not sent, because the metadata server gave no token ({error})"
            raise CloudError("unreachable", text, code="sign_in", hint=hints.DOCTOR) from error


def connect(site: Site, identity: Identity) -> Api:
    """Sign in as the machine. Raises CloudError."""
    where = Where(identity.details["project"], identity.zone, identity.details["name"])
    metadata = Metadata(site)
    credentials = MachineCredentials(metadata)
    credentials.refresh(None)
    return Api(where, credentials, endpoint(site), metadata.universe())


def connect_from_outside(site: Site, where: Where) -> Api:
    """Sign in as whoever runs this. Raises CloudError.

    With the application default credentials, as gcloud writes them; without any, as the machine itself, if its
    firmware is Google's, or hidden and the configuration names both cloud and metadata server. The SDK's own search would probe a metadata address on every machine.
    """
    environ = site.environ
    folder = environ.get("CLOUDSDK_CONFIG") or os.path.join(environ.get("HOME", ""), ".config/gcloud")
    path = environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.join(folder, "application_default_credentials.json")
    if not os.path.exists(path) and (recognises(site.dmi) or _named(site)):
        metadata = Metadata(site)
        return Api(where, MachineCredentials(metadata), endpoint(site), metadata.universe())
    try:
        with warnings.catch_warnings():  # the SDK warns of files from strangers; this one is the user's own
            warnings.simplefilter("ignore", DeprecationWarning)
            credentials, _ = google.auth.load_credentials_from_file(path, scopes=_ALL_SCOPES)
    except Exception as error:
        text, hint = f"no credentials for Google Cloud here: {errors.short(error)}", errors.LOGIN
        raise CloudError("credentials", text, code="credentials_missing", hint=hint) from error
    return Api(where, OwnCredentials(credentials), endpoint(site), credentials.universe_domain)


def _named(site: Site) -> bool:
    hidden = not site.dmi.get("product_name")
    return hidden and site.settings.get("provider", "auto") != "auto" and replaced(site)


def endpoint(site: Site) -> str:
    """The configured endpoint; empty for the SDK's own. Raises CloudError for one that would show the token."""
    return for_tokens(site.settings.get("api_endpoint"), "cloud.api_endpoint")


def _place(group: Group) -> Mapping[str, str]:
    place = {"region": group.region} if group.region else {"zone": group.zone}
    return {"project": group.project, "instance_group_manager": group.name, **place}


def _headers(ticket: Ticket | None) -> list[tuple[str, str]]:
    """The ids, so that the cloud's audit log matches. Source: Google Cloud documentation "System parameters"."""
    if ticket is None:
        return [("user-agent", _AGENT)]
    ids = "".join(sign for sign in f"incident {ticket.incident}, attempt {ticket.attempt}" if " " <= sign <= "~")
    return [("user-agent", f"{_AGENT} ({ids})"), ("x-goog-request-reason", f"costguard {ids}")]
