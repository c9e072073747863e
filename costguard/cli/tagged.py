"""What the tags of this machine ask for, where no agent has heard it: an escape hatch counts for whoever ends the machine."""

import time
from collections.abc import Mapping
from typing import Any

from costguard.actions.base import Host
from costguard.actions.choose import choose
from costguard.readers.cloud_tags import asks


def hatch(effective: Mapping[str, Any]) -> str:
    """Words for the tag that keeps this machine up; empty when there is none, or when nobody can be asked."""
    if effective["cloud"].get("tags") == "off":
        return ""
    try:
        chosen = choose(effective["providers"], effective["cloud"], Host.of(effective["host"]))
        found = chosen.provider.tags(chosen.site)
    except Exception:  # noqa: BLE001 - foreign code, and a service that may be away: the plan that follows says what is wrong
        return ""
    return next((str(words) for words, _left in asks(found, time.time())), "")
