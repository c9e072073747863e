"""Show dates in the agent's time zone: its sentences already use it, and one screen should have one zone."""

import os
import re
import time
from collections.abc import Mapping

_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9<][A-Za-z0-9_+\-/<>:,.]{0,63}")
"""Names of zones as TZ takes them, but no paths: another user's agent must not make this process open a file of his."""

OF_MACHINE = frozenset(("", "/etc/localtime"))
"""Values of TZ, without an initial colon, that mean the machine's own zone. Source: tzset(3)."""


def adopt(report: Mapping[str, object]) -> None:
    """Show dates in the zone of the agent that gave this report; older agents do not report one, and change nothing."""
    agent = report.get("agent")
    zone = agent.get("zone") if isinstance(agent, Mapping) else None
    if not isinstance(zone, str):
        return
    if zone.removeprefix(":") in OF_MACHINE:
        os.environ.pop("TZ", None)
    elif _NAME.fullmatch(zone.removeprefix(":")):
        os.environ["TZ"] = zone
    time.tzset()
