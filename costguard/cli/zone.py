"""One answer has one zone: sentences of the agent come in its own, so what stands beside them is shown in that."""

import os
import re
import time
from collections.abc import Mapping

_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9<][A-Za-z0-9_+\-/<>:,.]{0,63}")
"""What the variable TZ may hold, but for paths: another user's agent leads this process to no file of his."""

OF_MACHINE = frozenset(("", "/etc/localtime"))
"""Values of it, after the colon with which a name may begin, that mean the machine's own zone. Source: tzset(3)."""


def adopt(report: Mapping[str, object]) -> None:
    """From now on this process shows dates in the zone of the agent that gave this report; of an older agent in its own."""
    agent = report.get("agent")
    zone = agent.get("zone") if isinstance(agent, Mapping) else None
    if not isinstance(zone, str):
        return
    if zone.removeprefix(":") in OF_MACHINE:
        os.environ.pop("TZ", None)
    elif _NAME.fullmatch(zone.removeprefix(":")):
        os.environ["TZ"] = zone
    time.tzset()
