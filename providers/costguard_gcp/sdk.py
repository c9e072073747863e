"""Google's library for Compute Engine, without what this plug-in does not use of it.

The package itself loads the clients of more than a hundred services: that is half of the time, and 40 MB.
"""

import importlib.util
import sys
from importlib import import_module
from typing import Any

PACKAGE = "google.cloud.compute_v1"
PARTS = (
    "types",
    "services.autoscalers",
    "services.instance_group_managers",
    "services.instances",
    "services.region_autoscalers",
    "services.region_instance_group_managers",
    "services.zone_operations",
)


def load() -> Any:
    """A module with what these parts export, or the package, where the parts do not load without it. Raises ImportError."""
    spec = None if PACKAGE in sys.modules else importlib.util.find_spec(PACKAGE)
    if spec is None:
        return import_module(PACKAGE)
    parent = importlib.util.module_from_spec(spec)  # not executed: it only says where its parts are
    sys.modules[PACKAGE] = parent
    try:
        for part in PARTS:
            module = import_module(f"{PACKAGE}.{part}")
            vars(parent).update({name: getattr(module, name) for name in module.__all__})
    except Exception:  # noqa: BLE001 - of another version of the library; if it is broken, loading all of it says how
        spec = None
    del sys.modules[PACKAGE]  # whoever asks for the package gets the whole
    return parent if spec else import_module(PACKAGE)


compute = load()
"""Clients and messages, by the package's names."""
