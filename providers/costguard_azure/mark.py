"""The machine's own tags, merged into those that it has: a PUT of the machine would replace what others write meanwhile.

Sources: REST reference "Tags - Update At Scope" 2021-04-01 (operation *Merge*; at most 50 tags); Azure documentation "Use
tags" (256 characters of a value; the right ``Microsoft.Resources/tags/write`` needs no right on the machine itself).
"""

import time
from collections.abc import Mapping

from costguard.cloud.api import CloudError
from costguard_azure import arm
from costguard_azure.facts import grant
from costguard_azure.permissions import TAGS
from costguard_azure.session import Session

LIMIT = 256
"""Characters of a value."""

VERSION = "2021-04-01"
_GRANT = f"needed: {TAGS}; `costguard permissions azure --tag` prints the role"


def mark(session: Session, tags: Mapping[str, str], within: float, *, dry: bool) -> None:
    """See `costguard.cloud.api.Machine.mark`."""
    end = time.monotonic() + within
    if dry:
        rows = session.ask(end, "checking the rights", lambda: arm.permissions(session))
        if not any(grant(row).allows(TAGS) for row in rows):
            raise CloudError("denied", f"the right {TAGS} is missing", code="AuthorizationFailed", hint=_GRANT)
        return
    path = f"{session.machine.id}/providers/Microsoft.Resources/tags/default"
    values = {name: value[:LIMIT] for name, value in tags.items()}
    body = {"operation": "Merge", "properties": {"tags": values}}
    try:
        session.ask(end, "writing tags", lambda: session.patch(path, VERSION, body, "writing tags"))
    except CloudError as error:
        if error.trouble == "denied":
            error.hint = _GRANT
        raise
