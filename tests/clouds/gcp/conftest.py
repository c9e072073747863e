"""One machine on stand-ins: its firmware, its metadata server, the API."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from costguard.cloud import dmi
from costguard.cloud.api import Site, Ticket, Verb
from costguard.plans import Result
from costguard_gcp import PROVIDER
from costguard_gcp.facts import Facts
from costguard_gcp.testing import ComputeApi, Machine, MetadataServer, firmware

TICKET = Ticket("incident-1", "incident-1/attempt-1", 5.0)


@dataclasses.dataclass
class World:
    """Everything a test touches. ``settings`` are those of the section ``[cloud]``."""

    machine: Machine
    metadata: MetadataServer
    api: ComputeApi
    folder: pathlib.Path
    settings: dict[str, object] = dataclasses.field(default_factory=dict)

    def site(self, environ: Mapping[str, str] | None = None) -> Site:
        sysfs, procfs = firmware(self.folder, self.machine)
        settings = {"metadata_endpoint": self.metadata.url, "api_endpoint": self.api.url, **self.settings}
        found = dict(os.environ if environ is None else environ)
        return Site(dmi.identity(sysfs), settings, found, procfs, sysfs)

    def open(self) -> Any:
        site = self.site()
        return PROVIDER.open(site, PROVIDER.identify(site))

    def act(self, verb: Verb, facts: Facts | None = None, session: Any = None) -> Result:
        session = session or self.open()
        done: Result = session.execute(verb, facts or session.facts(verb), TICKET)
        return done


@contextlib.contextmanager
def world_of(machine: Machine, folder: pathlib.Path, **api: Any) -> Iterator[World]:
    with MetadataServer(machine) as metadata, ComputeApi(machine, **api) as compute:
        yield World(machine, metadata, compute, folder)
        assert compute.troubles == [], "the stand-in answered what the API would not"


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    with world_of(Machine(), tmp_path) as made:
        yield made
