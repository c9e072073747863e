"""Clouds are tested against stand-ins on loopback; `tests.loopback` keeps every test of the project there.

The plug-ins' own tests take long, with an SDK in each process; what is common to all clouds runs with every change.
"""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLUG_INS = {"aws", "gcp", "azure"}

FOREIGN = ("AWS_", "GOOGLE_", "GCE_", "CLOUDSDK_", "AZURE_", "IDENTITY_", "MSI_", "BOTO", "ARM_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_account_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither credentials nor a proxy of whoever runs the tests reaches an SDK; a test sets what it needs."""
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name.lower() in PROXIES:
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """They are not even imported where only quick tests run."""
    plug_in = collection_path.parent == HERE and collection_path.name in PLUG_INS
    return True if plug_in and config.getoption("markexpr") == "not thorough" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in the folder of a plug-in."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).parts[0] in PLUG_INS:
            item.add_marker(pytest.mark.thorough)
