"""Addresses in the store of a cloud: the real worker with a plug-in of somebody else, whose store misbehaves in every way."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clouds.telling import CANARY, Chat, DeliveryResult, chat, tell

EXAMPLE = Path(__file__).parents[1] / "contract" / "example"

PLUG_IN = """
import json, logging, os, sys, time, warnings
from costguard.cloud.api import CloudError, Identity
from costguard_example import Example

class Store:
    form = "a word"
    def valid(self, name): return name.isalpha()
    def read(self, site, identity, name, within):
        with open(os.environ["ASKED"], "a") as file:
            file.write(f"{name} {within:.1f}\\n")
        text = os.environ["ADDRESS"]
        logging.getLogger("sdk").warning("read %s", text)
        if name == "hangs": time.sleep(60)
        if name == "late": time.sleep(1.0)
        if name == "denied": raise CloudError("denied", "the store denies it", hint="grant the right `costguard permissions x --secret denied`")
        if name == "bug": raise KeyError(text)
        if name == "long": return text * 9000
        if name == "none": return f"# {text}"
        if name == "sdk": raise ImportError("no module named sdk")
        return f"{text}\\n"

class Kept(Example):
    name = "Kept Cloud"
    def identify(self, site):
        return Identity(self.name, "m-1", "r", "z", "t", "", {}, ())

class WithStore(Kept):
    secret_store = Store()
"""


class Cloud:
    """A folder with the plug-in, and what its store was asked."""

    def __init__(self, folder: Path, service: Chat) -> None:
        (folder / "kept_cloud.py").write_text(PLUG_IN, encoding="utf-8")
        (folder / "proc").mkdir()
        self.folder, self.service = folder, service

    def tell(
        self, kind: str = "WithStore", *, deadline: float = 25.0, cloud: str = "kept", **channels: str
    ) -> DeliveryResult:
        path = os.pathsep.join((str(self.folder), str(EXAMPLE), *sys.path))
        places = {"PYTHONPATH": path, "ASKED": str(self.folder / "asked"), "ADDRESS": self.service.address}
        found = [f"kept=kept_cloud:{kind}"]
        return tell(channels, found, {"provider": cloud}, str(self.folder), deadline=deadline, environ=places)

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with chat() as service:
        yield Cloud(tmp_path, service)


def test_one_secret_is_read_once_for_a_message(cloud: Cloud) -> None:
    """Whatever channels have it; the store gets at most ten seconds, and nothing of it is kept on the disk."""
    done = cloud.tell(team="secret:team", pager="secret:team")
    assert (dict(done.reached), dict(done.failed)) == ({"team": "JSON", "pager": "JSON"}, {})
    (asked,) = cloud.asked
    assert asked.split()[0] == "team"
    assert 8.0 < float(asked.split()[1]) <= 10.0
    files = [file for file in cloud.folder.rglob("*") if file.is_file()]
    assert not any(CANARY.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("denied", "the secret denied cannot be read: the store denies it (grant the right `costguard permissions x --secret denied`)"),
        ("bug", "the cloud plug-in failed"),
        ("long", "it has more than 65536 characters"),
        ("none", "the secret none contains no address"),
        ("sdk", "is not installed (install the library that the plug-in 'kept' needs"),
        ("a/b", "is not the name of a secret in Kept Cloud (allowed: a word)"),
    ],
)  # fmt: skip
def test_each_failure_is_said_without_the_secret(cloud: Cloud, name: str, words: str) -> None:
    """Whatever the plug-in raises, logs, or gives."""
    done = cloud.tell(team=f"secret:{name}")
    assert words in done.failed["team"]
    assert done.reached == {}


def test_a_store_that_hangs_holds_up_nobody_else(cloud: Cloud) -> None:
    """Another channel, and another secret, arrive before it is given up; it is, in its share of the time."""
    own = cloud.folder / "own.urls"
    own.write_text(cloud.service.address)
    own.chmod(0o600)
    done = cloud.tell(deadline=6.0, hung="secret:hangs", team="secret:team", own=f"file:{own}")
    assert dict(done.reached) == {"team": "JSON", "own": "JSON"}
    assert "did not return from `secret_store.read`" in done.failed["hung"]
    assert done.seconds < 6.0


@pytest.mark.parametrize(
    ("kind", "provider", "words"),
    [
        ("Kept", "kept", "the plug-in for Kept Cloud reads no secrets (name file:/PATH, env:NAME or credential:NAME instead)"),
        ("WithStore", "auto", "no cloud plug-in recognises this machine"),
        ("WithStore", "none", "no cloud plug-in recognises this machine"),
        ("Missing", "kept", "the cloud plug-in failed"),
    ],
)  # fmt: skip
def test_a_machine_without_a_store(cloud: Cloud, kind: str, provider: str, words: str) -> None:
    """The words are about the secret; nothing is said of a bill."""
    done = cloud.tell(kind, cloud=provider, team="secret:team")
    assert words in done.failed["team"]
    assert "bill" not in done.failed["team"]
