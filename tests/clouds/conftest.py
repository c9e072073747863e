"""Clouds are tested against stand-ins on loopback; `tests.loopback` keeps every test of the project there."""

import os

import pytest

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
