"""A secret of the machine's own cloud: which store is asked with which name, and what is said where none can be."""

import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest

from costguard.cloud import secret
from costguard.cloud.access import CloudAccess, HostPaths
from costguard.cloud.api import CloudError

ME = object()
"""Who this machine is, as the plug-in says it."""


class Store:
    """One whose names begin with *team*."""

    form = "a name that begins with team"

    def __init__(self) -> None:
        self.text = "json://h"
        self.asked: list[tuple[object, str, float]] = []

    def valid(self, name: str) -> bool:
        return name.startswith("team")

    def read(self, site: object, identity: object, name: str, within: float) -> str:
        assert site is not None
        self.asked.append((identity, name, within))
        return self.text


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The only one that is installed; it knows every machine."""
    module = ModuleType("plugin_keeper")
    provider = SimpleNamespace(
        name="Keeper", recognises=lambda _: True, identify=lambda _: ME, secret_store=Store(), settings=()
    )
    module.PROVIDER = provider  # type: ignore[attr-defined] # as plug-ins have it
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return provider


def access(installed: str = "keeper=plugin_keeper", **cloud: object) -> CloudAccess:
    return CloudAccess((installed,) if installed else (), cloud, HostPaths("/nowhere", "/nowhere", "/nowhere"))


READERS = [secret.check, lambda name, where: secret.read(name, where, 5.0)]
"""The one asks nobody and refuses the same."""

either = pytest.mark.parametrize("ask", READERS, ids=["check", "read"])


def test_the_store_is_asked_once_as_this_machine(plug_in: SimpleNamespace) -> None:
    """In its time, and a moment less, so that it can say itself what hung."""
    began = time.monotonic()
    assert secret.read("team", access(), 5.0) == "json://h"
    ((identity, name, within),) = plug_in.secret_store.asked
    assert (identity, name) == (ME, "team")
    assert 0.0 <= 5.0 - within - 0.5 <= time.monotonic() - began + 0.001


def test_a_check_asks_nobody(plug_in: SimpleNamespace) -> None:
    """Beyond what the plug-in knows by itself."""
    secret.check("team", access())
    assert plug_in.secret_store.asked == []


@either
def test_what_is_no_name_is_not_asked_for(plug_in: SimpleNamespace, ask: Callable[[str, CloudAccess], None]) -> None:
    """The words have what would be one."""
    with pytest.raises(CloudError, match="'other' is not the name of a secret in Keeper") as caught:
        ask("other", access())
    assert (caught.value.trouble, caught.value.hint) == ("refused", "allowed: a name that begins with team")
    assert plug_in.secret_store.asked == []


@either
def test_a_cloud_without_a_store_has_no_secrets(
    plug_in: SimpleNamespace, ask: Callable[[str, CloudAccess], None]
) -> None:
    """There are other places for them."""
    plug_in.secret_store = None
    with pytest.raises(CloudError, match="the plug-in for Keeper reads no secrets") as caught:
        ask("team", access())
    assert (caught.value.trouble, caught.value.hint) == ("refused", secret.ELSEWHERE)


@either
@pytest.mark.parametrize(
    ("installed", "cloud", "words", "hint"),
    [
        ("", {}, "no cloud plug-in recognises this machine", "or name the cloud in cloud.provider"),
        ("keeper=plugin_keeper", {"provider": "other"}, "no cloud plug-in recognises this machine", "file:/PATH"),
        ("keeper=plugin_nowhere", {"provider": "keeper"}, "the cloud plug-in failed", "report it"),
    ],
)
def test_where_nobody_speaks_for_this_machine_that_is_said_of_secrets(
    plug_in: SimpleNamespace,
    ask: Callable[[str, CloudAccess], None],
    installed: str,
    cloud: dict[str, object],
    words: str,
    hint: str,
) -> None:
    """And nothing of a bill that would go on: the words of a stop are about something else."""
    with pytest.raises(CloudError) as caught:
        ask("team", access(installed, **cloud))
    assert (str(caught.value), caught.value.trouble) == (words, "refused")
    assert hint in caught.value.hint
    assert plug_in.secret_store.asked == []


def test_two_that_claim_the_machine_ask_which(plug_in: SimpleNamespace) -> None:
    """Neither reads anything."""
    both = access()._replace(providers=("keeper=plugin_keeper", "second=plugin_keeper"))
    with pytest.raises(CloudError, match="several cloud plug-ins claim this machine") as caught:
        secret.check("team", both)
    assert caught.value.hint == "set cloud.provider to the right one"


@pytest.mark.parametrize(("length", "told"), [(secret.LONGEST, True), (secret.LONGEST + 1, False)])
def test_the_longest_that_a_cloud_keeps(plug_in: SimpleNamespace, length: int, told: bool) -> None:
    """Is read, and nothing beyond it; none of it stands in the error."""
    plug_in.secret_store.text = "s" * length
    if told:
        assert secret.read("team", access(), 5.0) == "s" * length
        return
    with pytest.raises(CloudError, match="more than 65536 characters") as caught:
        secret.read("team", access(), 5.0)
    assert "sss" not in f"{caught.value} {caught.value.hint}"


def test_a_store_that_hangs_is_named(plug_in: SimpleNamespace) -> None:
    """And nobody waits for it longer than asked."""
    over = threading.Event()
    plug_in.secret_store.read = lambda *_: over.wait(60.0)
    with pytest.raises(CloudError, match=r"did not return from `secret_store\.read` within 0 s") as caught:
        secret.read("team", access(), 0.2)
    over.set()
    assert caught.value.trouble == "unreachable"


def test_what_fails_in_a_plug_in_is_no_traceback(plug_in: SimpleNamespace) -> None:
    """It is told as a fault of the plug-in."""
    plug_in.secret_store.read = lambda *_: 1 / 0
    with pytest.raises(CloudError, match="the cloud plug-in failed"):
        secret.read("team", access(), 5.0)


def test_without_its_library_the_library_is_named(plug_in: SimpleNamespace) -> None:
    """With the command that installs it."""

    def identify(_site: object) -> object:
        raise ImportError("no module named keeper_sdk")

    plug_in.identify = identify
    with pytest.raises(CloudError, match="the library for this cloud is not installed") as caught:
        secret.read("team", access(), 5.0)
    assert "install" in caught.value.hint
