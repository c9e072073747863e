"""One machine on the stand-ins, and a session with it."""

from collections.abc import Iterator

import pytest

from costguard_azure import Azure
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure, World


@pytest.fixture
def azure() -> Iterator[FakeAzure]:
    with FakeAzure(World()) as fake:
        yield fake


@pytest.fixture
def machine(azure: FakeAzure) -> Iterator[AzureMachine]:
    opened = AzureMachine(azure.site(), Azure().identify(azure.site()))
    yield opened
    opened.close()
