"""The contract of cloud plug-ins, for whoever writes one: plain functions that raise AssertionError, no test library.

>>> from costguard.testing.contract import CHECKS, Case
>>> case = Case("costguard_mine:Mine", own=({"sys_vendor": "My Cloud"},))
>>> for check in CHECKS:
...     check(case)

Nothing here leaves the machine: the metadata services that are asked stand on loopback, and are broken on purpose. What
a plug-in does with a service and an API that work is for its own tests.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import NamedTuple, get_args

from costguard.cloud.api import (
    Capabilities,
    CloudError,
    Consequence,
    Identity,
    Machine,
    Provider,
    Site,
    Trouble,
    Verb,
    capabilities,
    load,
    policy_command,
    resume_command,
    secret_policy_command,
    secret_store,
    start_command,
)
from costguard.testing.any_plug_in import has_every_part, has_sound_settings, imports_little
from costguard.testing.web import Answer, Server

PATIENCE = 20.0
"""Seconds in which a plug-in must have given up a metadata service that does not work."""

HEAVY = frozenset(("http", "ssl", "asyncio"))
"""Parts of the standard library that only a question to a service needs."""

FOREIGN: tuple[Mapping[str, str], ...] = (  # nobody's; sources: `dmidecode` output of such machines
    {},
    {"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"},
    {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
    {"sys_vendor": "Dell Inc.", "product_name": "PowerEdge XE9680"},
    {"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"},
    {"sys_vendor": "", "product_name": "", "chassis_asset_tag": "", "hypervisor_uuid": ""},
)


SHARED = frozenset(
    (
        *("provider", "metadata", "metadata_endpoint", "api_endpoint", "local_data", "group", "prepaid", "managed"),
        *("notices", "tags", "tag_settings", "spread", "action_spread", "live"),
    )
)
"""What `Site.settings` has for every cloud: a plug-in's own settings have other names."""


class Case(NamedTuple):
    """One plug-in: ``module:attribute``, firmware identities of its machines, and of others that it must not claim.

    Without ``own`` its machines have no firmware of their own, and ``cloud.provider`` has to name the plug-in. ``settings``
    are those of `Site` without which it cannot ask anything. ``secret`` is the name of a secret, where its store has names of a form
    of its own; ``details`` are those of `Identity` that its store needs.
    """

    target: str
    own: Sequence[Mapping[str, str]]
    foreign: Sequence[Mapping[str, str]] = FOREIGN
    settings: Mapping[str, object] = {}
    secret: str = ""
    details: Mapping[str, str] = {}

    @property
    def provider(self) -> Provider:
        """The plug-in, loaded as a worker loads it."""
        loaded = load([self.target])
        assert not loaded.failures, loaded.failures
        return loaded.plug_ins[0]

    def site(self, endpoint: str) -> Site:
        """One of its machines, with its metadata service and its API at ``endpoint``, and nothing else set."""
        given = {"metadata_endpoint": endpoint, "api_endpoint": endpoint, "notices": "on"}
        return Site(self.own[0] if self.own else {}, {**given, **self.settings}, {})

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """What its cloud can do."""
        return capabilities(self.provider).verbs

    @property
    def choices(self) -> Iterator[tuple[Verb, ...]]:
        """Every choice of these, as somebody may ask for rights."""
        for count in range(1, len(self.verbs) + 1):
            yield from combinations(self.verbs, count)


def check_interface(case: Case) -> None:
    """It has every part of the interface, and a name for people."""
    has_every_part(case.provider, Provider, case.provider.name)


def check_capabilities(case: Case) -> None:
    """A cloud that can end no machine is none; what it says is what the core goes by."""
    found = getattr(case.provider, "capabilities", Capabilities())
    assert isinstance(found, Capabilities)
    assert found.verbs, "it can do nothing to a machine"
    assert set(found.verbs) <= set(get_args(Verb)), found.verbs
    assert len(set(found.verbs)) == len(found.verbs), "it names a verb twice"


def check_settings(case: Case) -> None:
    """Its own options fit into the configuration, explain themselves, and hold no secret."""
    has_sound_settings(case.provider, SHARED, "cloud")


def check_module_name(case: Case) -> None:
    """The module name alone is enough: its ``PROVIDER`` is what the guard's workers load."""
    loaded = load([case.target.partition(":")[0]])
    assert not loaded.failures, loaded.failures
    assert type(loaded.plug_ins[0]) is type(case.provider)


def check_import_is_cheap(case: Case) -> None:
    """An SDK costs 50 to 150 MB; the plan of a guest action must not pay for it."""
    imports_little(case.target.partition(":")[0], "sys", HEAVY)


def check_recognises_its_own(case: Case) -> None:
    """A machine that two plug-ins claim has an unknown bill; an empty identity is nobody's."""
    provider = case.provider
    for dmi in case.own:
        assert provider.recognises(dmi) is True, dmi
    for dmi in case.foreign:
        assert provider.recognises(dmi) is False, dmi


def check_instance_of(case: Case) -> None:
    """The firmware's name for the instance: text that is always the same, and nothing out of nothing."""
    provider = case.provider
    assert provider.instance_of({}) == ""
    for dmi in case.own:
        name = provider.instance_of(dmi)
        assert isinstance(name, str)
        assert name == provider.instance_of(dict(dmi))
        assert not name or name in dmi.values(), f"{name!r} is not what the firmware says"


def check_guest_shutdown(case: Case) -> None:
    """Three-valued answers with words; what goes on being billed, or may be lost, has a way out."""
    answer = case.provider.guest_shutdown()
    assert isinstance(answer, Consequence)
    assert {answer.ends_bill, answer.keeps_disks} <= {True, False, None}
    assert len(answer.text) > 20, "say in words what goes on being billed"
    assert answer.hint or (answer.ends_bill and answer.keeps_disks), "a hint says what to do"


def check_permissions(case: Case) -> None:
    """Each verb needs a right of its own, each right says what for, and fewer verbs never need more rights."""
    provider = case.provider
    everything = {right.name for right in provider.permissions(case.verbs)}
    for verb in case.verbs:
        rights = provider.permissions((verb,))
        assert all(right.name and right.why for right in rights), rights
        names = [right.name for right in rights]
        assert len(set(names)) == len(names), f"{verb} names a right twice"
        assert any(right.needed for right in rights), f"{verb} needs no right"
        assert set(names) <= everything


def check_policy(case: Case) -> None:
    """The policy grants what is declared, and no other verb's rights; it is empty where rights cannot be limited."""
    provider = case.provider
    if not capabilities(provider).policies:
        assert not any(provider.policy(verbs) for verbs in case.choices), "a cloud without policies prints one"
        return
    for verbs in case.choices:
        text = provider.policy(verbs)
        granted = {right.name for right in provider.permissions(verbs)}
        others = {right.name for right in provider.permissions(case.verbs)} - granted
        lacking = [right.name for right in provider.permissions(verbs) if right.needed and right.name not in text]
        assert not lacking, f"the policy for {verbs} lacks {lacking}"
        more = [name for name in others if any(name == word.strip("\"',;()[]") for word in text.split())]
        assert not more, f"the policy for {verbs} grants {more} as well"


def check_tag_rights(case: Case) -> None:
    """Writing tags of the machine needs a right of its own, which nobody is given who does not ask for it."""
    provider = case.provider
    for verb in case.verbs if capabilities(provider).tags else ():
        before = {right.name for right in provider.permissions((verb,))}
        added = [right for right in provider.permissions((verb,), tag=True) if right.name not in before]
        assert added, f"{verb} with tags needs no further right"
        assert all(right.why and right.needed for right in added), added
        with_it, without = provider.policy((verb,), tag=True), provider.policy((verb,))
        assert all(right.name in with_it for right in added), f"the policy for tags lacks {added}"
        assert not any(right.name in without for right in added), f"the policy without tags grants {added}"


def check_commands(case: Case) -> None:
    """The commands write the policy for exactly these actions, and then hand that file to the cloud."""
    provider = case.provider
    can = capabilities(provider)
    if not can.policies:
        assert all(provider.commands(verbs).strip() for verbs in case.choices), "say how this machine gets its rights"
        return
    for verbs in case.choices:
        for tag in (False, True) if can.tags else (False,):
            _hands_over(provider.commands(verbs, tag=tag), lambda name: policy_command(name, verbs, tag=tag))  # noqa: B023 - called at once


def _hands_over(commands: str, policy: Callable[[str], str]) -> None:
    """The first command writes the policy, ``policy(name)``, to a file, and another one takes that."""
    first, *rest = commands.splitlines()
    command, _, path = first.partition(" > ")
    name = command.split()[2] if len(command.split()) > 2 else ""
    assert command == policy(name), f"not `{policy(name)}`: {first}"
    assert path.strip(), f"the policy goes nowhere: {first}"
    assert any(path.strip() in line for line in rest), f"no command takes {path!r}"


SECRETS = ("costguard-team", "vault-1/costguard-team")
"""Names of secrets; one of them fits every store, or `Case.secret` does."""


def check_secret_store(case: Case) -> None:
    """A store of secrets is optional. One that is there has names of a form, rights for one secret alone, and fails in words."""
    store, provider = secret_store(case.provider), case.provider
    if store is None:
        return
    assert len(store.form) > 10, "say what the name of a secret looks like"
    wrong = [name for name in ("", " ", "a b", "a\n", "$(id)", "'", "../" * 200) if store.valid(name) is not False]
    assert not wrong, f"{wrong} are no names"
    name = next((one for one in (case.secret, *SECRETS) if one and store.valid(one)), "")
    assert name, "give `Case.secret` a name that fits"
    rights = [right.name for right in store.permissions(name) if right.needed and right.why]
    assert rights, "reading a secret needs no right"
    text = store.policy(name)
    assert all(right in text for right in rights) or not text, "the policy lacks a right"
    everything = provider.policy(case.verbs, tag=capabilities(provider).tags)
    assert not any(right in everything for right in rights), "the policy of the actions grants it to who did not ask"
    if text:
        _hands_over(store.commands(name), lambda known: secret_policy_command(known, name))
    own, (_, *rest) = name.rpartition("/")[2], store.commands(name).splitlines()
    assert own in text or any(own in line for line in rest), "neither policy nor commands are limited to this secret"
    who = Identity(provider.name, "i", "nowhere-9", "nowhere-9z", "t", "", case.details, ())
    with _closed() as endpoint:
        error = _error("secret_store.read", lambda: store.read(case.site(endpoint), who, name, 5.0))
        assert error.hint, "secret_store.read gives no hint"


def check_price(case: Case) -> None:
    """An unknown price is None, never a guess."""
    nothing = Identity(case.provider.name, "i", "nowhere-9", "nowhere-9z", "no.such.type", "", {}, ())
    for market in ("", "on-demand", "spot", "reserved"):
        found = case.provider.price(nothing._replace(market=market))
        assert found is None, "a machine type that does not exist has a price"


def check_start_command(case: Case) -> None:
    """Where there is one it is a command for people; a machine that it knows nothing of gives none, and no exception."""
    nothing = Identity(case.provider.name, "i-0", "nowhere-9", "nowhere-9z", "no.such.type", "", {}, ())
    for name, taken in (("start_command", start_command), ("resume_command", resume_command)):
        method = getattr(case.provider, name, None)
        if method is None:
            continue
        try:
            command = str(method(nothing))
        except LookupError:  # it needs details, which only an identified machine has
            continue
        assert command == taken(case.provider, nothing), "more than one line, or too long to be copied"


def check_unreachable_metadata(case: Case) -> None:
    """A metadata service that is not there: said soon, as a technical trouble, with what to do.

    A cloud without announcements, or without tags, asks nobody for them and has none.
    """
    can = capabilities(case.provider)
    with _closed() as endpoint:
        for name, ask in _questions(case, endpoint):
            error = _error(name, ask)
            assert error.technical, f"{name}: {error.trouble}"
            assert error.hint, f"{name} gives no hint"
        site = case.site(endpoint)
        assert can.notices or not case.provider.notices(site), "it announces what it says that it cannot"
        assert can.tags or not case.provider.tags(site), "it shows tags that it says it does not have"


def check_broken_metadata(case: Case) -> None:
    """Whatever the service answers, it becomes a CloudError or a sound answer; no other exception, and no guess."""
    said: list[Answer] = []
    with Server(lambda _request: said[-1]) as server:
        for status, body in (
            (200, b"garbage \xff\x00"),
            (200, b""),
            (200, b"[]"),
            (403, b"no"),
            (404, b""),
            (500, b"{}"),
        ):
            said.append(Answer(status, body))
            name, ask = next(iter(_questions(case, server.url)))
            _error(f"{name} (answered {status} {body!r})", ask)


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_interface,
    check_capabilities,
    check_settings,
    check_module_name,
    check_import_is_cheap,
    check_recognises_its_own,
    check_instance_of,
    check_guest_shutdown,
    check_permissions,
    check_policy,
    check_commands,
    check_tag_rights,
    check_secret_store,
    check_price,
    check_start_command,
    check_unreachable_metadata,
    check_broken_metadata,
)
"""All of them."""


def check_marks(machine: Machine, read: Callable[[], Mapping[str, str]]) -> None:
    """An open session of your plug-in writes its tags, again the same, and loses nobody else's.

    ``read`` gives the tags that your stand-in has, beside them at least one of somebody else. Not among `CHECKS`: it
    needs a cloud that answers.
    """
    others = dict(read())
    assert others, "give the machine a tag of somebody else first"
    name, long = "costguard-incident", "2031-01-31T18:00:00Z hibernate deadline " + "x" * 300
    machine.mark({name: "-"}, 10.0, dry=True)
    assert dict(read()) == others, "a dry run wrote something"
    for value in ("2031-01-31T18:00:00Z stop idle 1a2b3c4d-i1", long, long):
        machine.mark({name: value}, 10.0)
        found = dict(read())
        written = found.pop(name, "")
        assert found == others, f"other tags became {found}"
        assert written[:10] == value[:10], f"{written!r} does not begin as {value!r}"
        assert "stop" in written or "hibernate" in written, f"{written!r} lost what is done"


def _questions(case: Case, endpoint: str) -> Iterator[tuple[str, Callable[[], object]]]:
    provider, site = case.provider, case.site(endpoint)
    can = capabilities(provider)
    yield "identify", lambda: provider.identify(site)
    if can.notices:
        yield "notices", lambda: provider.notices(site)
    if can.tags:
        yield "tags", lambda: provider.tags(site)


def _error(name: str, ask: Callable[[], object]) -> CloudError:
    began = time.monotonic()
    try:
        answer = ask()
    except CloudError as error:
        found = error
    except Exception as error:
        raise AssertionError(f"{name} raised {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{name} answered {answer!r}")
    assert time.monotonic() - began < PATIENCE, f"{name} took too long to give up"
    assert found.trouble in get_args(Trouble)
    assert str(found).strip(), f"{name} gives no words"
    return found


@contextmanager
def _closed() -> Iterator[str]:
    """An address at which nothing listens, for as long as the context lasts."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: refused, and nobody else gets the number
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
