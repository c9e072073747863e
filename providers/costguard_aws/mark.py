"""The instance's own tags. CreateTags sets the ones that it names and leaves the others alone; again is the same.

Sources: EC2 API reference "CreateTags"; EC2 user guide "Tag your Amazon EC2 resources" (256 characters of a value; with
instance tags in the metadata, keys without spaces and slashes), "Request throttling for the EC2 API" (changes of tags
have a bucket of their own: 100, refilled with 10 a second, for an account in a region).
"""

import re
import time
from collections.abc import Mapping

from costguard.cloud.api import CloudError
from costguard_aws.session import Session

LIMIT = 256
"""Characters of a value."""

_OTHER = re.compile(r"[^A-Za-z0-9 +=._:/@-]")
_GRANT = "grant ec2:CreateTags on this instance: `costguard permissions aws --tag` prints the policy"
_FULL = "remove a tag of this instance: `aws ec2 delete-tags`"


def mark(session: Session, instance: str, tags: Mapping[str, str], within: float, *, dry: bool) -> None:
    """See `costguard.cloud.api.Machine.mark`."""
    wanted = [{"Key": name, "Value": _OTHER.sub("-", value)[:LIMIT]} for name, value in tags.items()]
    more = {"DryRun": True} if dry else {}
    try:
        session.look("ec2", "CreateTags", time.monotonic() + within, Resources=[instance], Tags=wanted, **more)
    except CloudError as error:
        if dry and error.code == "DryRunOperation":
            return
        if error.trouble == "denied":
            error.hint = _GRANT
        elif error.code == "TagLimitExceeded":
            error.hint = _FULL
        raise
