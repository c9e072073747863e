"""Checksum of a configuration beside the rules, so that a changed file is noticed. Resident: no heavy imports."""

import json
from binascii import crc32
from collections.abc import Mapping

TABLES = ("actions", "cloud", "sink", "hooks", "heartbeat", "notify", "host")
"""The tables it covers; some hold secrets, so only root and the agent's own user get the checksum."""


def checksum(config: Mapping[str, object]) -> str:
    """The same for two effective configurations that differ only in rules, paths and versions."""
    tables = {name: config.get(name) for name in TABLES}
    return f"{crc32(json.dumps(tables, sort_keys=True).encode()):08x}"
