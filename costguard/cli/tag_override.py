"""The tag that keeps this machine up, read where no agent has heard it: it binds whoever ends the machine."""

import time
from collections.abc import Mapping
from typing import Any

from costguard.cloud.access import CloudAccess
from costguard.cloud.choose import choose
from costguard.readers.cloud.tags import asks


def keeping_up(effective: Mapping[str, Any]) -> str:
    """Words for the tag that keeps this machine up; empty when there is none, or when nobody can be asked."""
    if effective["cloud"].get("tags") == "off":
        return ""
    try:
        chosen = choose(CloudAccess.of(effective))
        found = chosen.provider.tags(chosen.site)
    except Exception:  # noqa: BLE001 - foreign code, and a service that may be away: the plan that follows says what is wrong
        return ""
    return next((str(words) for words, _left in asks(found, time.time())), "")
