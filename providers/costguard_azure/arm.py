"""The questions that are put to the Resource Manager, each as one function. Answers are its plain JSON.

The SDK's models differ between its versions; the documents do not, so each call takes the document itself.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costguard.cloud import errors
from costguard.cloud.api import CloudError, Verb
from costguard_azure.session import Session

PERMISSIONS_VERSION = "2022-04-01"
LOCKS_VERSION = "2016-09-01"
AUTOSCALE_VERSION = "2022-10-01"
_PAGES = 20  # of one list


class View(NamedTuple):
    """What the instance view shows: the last words of its codes, in lower case; empty where there is none."""

    power: str = ""
    provisioning: str = ""
    hibernation: str = ""


def machine(session: Session) -> Any:
    """The machine with its instance view. Raises CloudError for a document without its id: it would look like another."""
    where, compute = session.machine, session.compute
    if where.scale_set:
        vms = compute.virtual_machine_scale_set_vms
        found = vms.get(where.group, where.scale_set, where.name, expand="instanceView", cls=_document)
    else:
        found = compute.virtual_machines.get(where.group, where.name, expand="instanceView", cls=_document)
    body = found.get("properties") if isinstance(found, dict) else None
    if not (isinstance(body, dict) and body.get("vmId")):
        raise errors.malformed("Azure", "reading the machine's state", "it lacks the machine's id", sent="no")
    return found


def instance_view(session: Session, **limits: float) -> View:
    """The states of the machine, and nothing else."""
    where, client = session.machine, session.compute
    if where.scale_set:
        vms = client.virtual_machine_scale_set_vms
        return view(vms.get_instance_view(where.group, where.scale_set, where.name, cls=_document, **limits))
    return view(client.virtual_machines.instance_view(where.group, where.name, cls=_document, **limits))


def view(found: Mapping[str, Any]) -> View:
    """Read an instance view. ``PowerState/running`` becomes ``running``."""
    states = {"PowerState": "", "ProvisioningState": "", "HibernationState": ""}
    for status in found.get("statuses") or ():
        kind, _, state = str(status.get("code") or "").partition("/")
        if kind in states:
            states[kind] = state.lower()
    return View(*states.values())


def scale_set(session: Session, name: str) -> Any:
    """The scale set: its size and its repair policy."""
    return session.compute.virtual_machine_scale_sets.get(session.machine.group, name, cls=_document)


def permissions(session: Session) -> list[Mapping[str, Any]]:
    """What the caller may do with this machine. There is no dry run of a deallocation."""
    path = f"{session.machine.id}/providers/Microsoft.Authorization/permissions"
    return _rows(session, path, PERMISSIONS_VERSION, "checking the rights")


def locks(session: Session) -> list[Mapping[str, Any]]:
    """The locks on this machine, on everything around it, and on its parts."""
    path = f"{session.machine.id}/providers/Microsoft.Authorization/locks"
    return _rows(session, path, LOCKS_VERSION, "checking the locks")


def autoscale(session: Session) -> list[Mapping[str, Any]]:
    """The autoscale settings of the resource group."""
    where = session.machine
    path = f"/subscriptions/{where.subscription}/resourceGroups/{where.group}/providers/Microsoft.Insights"
    return _rows(session, f"{path}/autoscalesettings", AUTOSCALE_VERSION, "reading the autoscale settings")


def send(session: Session, verb: Verb, hook: Callable[[Any], None], **options: Any) -> None:
    """Send the request that ends the bill, and return when it is accepted.

    ``polling=False``: the state of the long operation lies outside the machine's own scope, and an
    `LROPoller` that is asked to wait returns None whether it is done or not.
    """
    where = session.machine
    options |= {"polling": False, "raw_response_hook": hook}
    if where.scale_set:
        vms = session.compute.virtual_machine_scale_set_vms
        begin = vms.begin_delete if verb == "terminate" else vms.begin_deallocate
        begin(where.group, where.scale_set, where.name, **options)
    elif verb == "terminate":
        session.compute.virtual_machines.begin_delete(where.group, where.name, **options)
    else:
        hibernate = {"hibernate": True} if verb == "hibernate" else {}
        session.compute.virtual_machines.begin_deallocate(where.group, where.name, **hibernate, **options)


def _document(response: Any, _model: object, _headers: object) -> Any:
    return json.loads(response.http_response.text())


def _rows(session: Session, path: str, version: str, doing: str) -> list[Mapping[str, Any]]:
    """All rows of a list, page by page: a right or a lock may stand on the second one."""
    found: list[Mapping[str, Any]] = []
    for _ in range(_PAGES):
        page = session.get(path, version, doing)
        rows, following = (page.get("value"), page.get("nextLink")) if isinstance(page, dict) else (None, None)
        found += [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        if not following:
            return found
        path = session.path(str(following), doing)
    raise CloudError("internal", f"{doing}: the list does not end", code="nextLink", retry_after=None)
