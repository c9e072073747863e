"""The machine's own labels, which people and bills see.

Not metadata attributes: whoever may write those may write start-up scripts and keys, and needs a right on the machine's
service account as well.

Sources: Compute Engine documentation "Labels" (64 for a resource; at most 63 lower case letters, digits, dashes and
underscores of a value) and the API's description of ``instances.setLabels`` (it replaces all labels, and refuses with 412
when another one changed them since their fingerprint was read).
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity, Site
from costguard.cloud.retry import until
from costguard_gcp import errors
from costguard_gcp.metadata import Metadata
from costguard_gcp.permissions import ADMIT, LABELS, NO_SCOPE, SCOPES, set_scopes
from costguard_gcp.session import CALL_SECONDS, Api

LIMIT = 63
"""Characters of a value."""

_OTHER = re.compile(r"[^a-z0-9_-]")
_GRANT = f"grant {LABELS}: `costguard permissions gcp --tag` prints the role, an owner of the project binds it"
_CONFLICT = "conditionNotMet"
_POLL_SECONDS = 0.5  # seconds between looks whether the label shows


def text(value: str) -> str:
    """As a label takes it: lower case, an underscore for a space, a dash for anything else."""
    return _OTHER.sub("-", value.lower().replace(" ", "_"))[:LIMIT]


def mark(api: Api, site: Site, identity: Identity, tags: Mapping[str, str], within: float, *, dry: bool) -> None:
    """See `costguard.cloud.api.Machine.mark`. It is done when the machine shows the labels."""
    end = time.monotonic() + within
    if dry:
        _may(api, site, end)
        return
    wanted = {name: text(value) for name, value in tags.items()}
    until(end, lambda left: _set(api, identity.instance, wanted, min(left, CALL_SECONDS)), _again)
    while not _shows(api, identity.instance, wanted, end):
        if time.monotonic() + _POLL_SECONDS >= end:
            message = "Google Cloud accepted the labels, but the machine does not show them"
            raise CloudError("unreachable", message, code="not_shown", hint="run `costguard doctor`")
        time.sleep(_POLL_SECONDS)


def _may(api: Api, site: Site, end: float) -> None:
    """Raises CloudError when a right or a scope is missing."""
    scopes = Metadata(site).text("instance/service-accounts/default/scopes")
    if scopes is not None and not SCOPES & set(scopes.split()):
        raise CloudError("denied", NO_SCOPE, code="scopes_missing", hint=set_scopes())
    granted = until(end, lambda left: api.granted([LABELS], min(left, CALL_SECONDS)))
    if LABELS not in granted:
        raise CloudError("denied", f"the right {LABELS} is missing", code="forbidden", hint=_GRANT)


def _set(api: Api, instance: str, wanted: Mapping[str, str], timeout: float) -> None:
    """Everybody's labels with ours among them, unless somebody changes them at this moment."""
    found = _look(api, instance, timeout)
    if wanted.items() <= dict(found.labels).items():
        return
    try:
        operation = api.label({**found.labels, **wanted}, found.label_fingerprint, timeout)
    except CloudError as error:
        if error.hint == ADMIT:
            error.hint = _GRANT
        raise
    if failure := errors.operation(operation.error.errors):
        raise failure


def _shows(api: Api, instance: str, wanted: Mapping[str, str], end: float) -> bool:
    found = until(end, lambda left: _look(api, instance, min(left, CALL_SECONDS)))
    return wanted.items() <= dict(found.labels).items()


def _look(api: Api, instance: str, timeout: float) -> Any:
    found = api.instance(timeout)
    if str(found.id) != instance:
        message = f"Google Cloud's machine of this name has the id {found.id}, this machine has {instance}: nothing is written"
        raise CloudError("changed", message, code="not_this_machine", hint=hints.RESTART)
    return found


def _again(error: CloudError) -> float | None:
    return 0.0 if error.code == _CONFLICT else error.retry_after
