"""The machine's own tags. Other tags stay as they are, whoever writes them meanwhile; what a value cannot hold is cut off."""

from collections.abc import Mapping

from costguard.cloud.api import CloudError

from .permissions import TAG
from .session import Session

LIMIT = 256
"""Characters of a value."""


def mark(session: Session, tags: Mapping[str, str], within: float, *, dry: bool) -> None:
    """See `costguard.cloud.api.Machine.mark`."""
    if TAG not in (session.machine(within).get("rights") or ()):
        hint = f"grant {TAG}: `costguard permissions skeleton --tag` prints the policy"
        raise CloudError("denied", f"the right {TAG} is missing", code=TAG, hint=hint)
    if not dry:
        session.tag({name: value[:LIMIT] for name, value in tags.items()}, within)
