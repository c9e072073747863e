"""The contract of plug-ins for tasks, for whoever writes one: plain functions that raise AssertionError, no test library.

>>> from costguard.testing.task_contract import CHECKS, Case
>>> case = Case("costguard_mine:Mine", own=[{"MY_TASK_ID": "12"}])
>>> for check in CHECKS:
...     check(case)

Nothing here leaves the machine. What a plug-in does with a scheduler that answers is for its own tests.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from costguard.cloud.api import Ticket, settings_of
from costguard.tasks.api import Place, Scheduler, SchedulerError, Task, TaskFacts, load
from costguard.testing.any_plug_in import has_every_part, has_sound_settings, imports_little

PATIENCE = 20.0
"""Seconds in which a plug-in must have given up a scheduler that does not answer."""

HEAVY = frozenset(("http", "ssl", "asyncio", "subprocess"))
"""Parts of the standard library that only a question to a scheduler needs."""

SECRET = "c4n4ry-of-a-secret"  # noqa: S105 - a value that must appear nowhere
SHARED = frozenset(("scheduler", "elsewhere"))
"""What `Place.settings` has for every plug-in: its own settings have other names."""


class Case(NamedTuple):
    """One plug-in: ``module:attribute``, environments of its tasks, and of others that it must not claim.

    ``nowhere``: settings with which its scheduler cannot be reached. ``secrets``: variables of a task's environment that hold a secret.
    """

    target: str
    own: Sequence[Mapping[str, str]]
    foreign: Sequence[Mapping[str, str]] = ()
    nowhere: Mapping[str, object] = {}
    secrets: Sequence[str] = ()

    @property
    def scheduler(self) -> Scheduler:
        """The plug-in, loaded as a worker loads it."""
        loaded = load([self.target])
        assert not loaded.failures, loaded.failures
        return loaded.plug_ins[0]

    def place(self, environ: Mapping[str, str]) -> Place:
        """A task of its own whose scheduler cannot be reached, with a secret in every variable that has one."""
        defaults = {one.name: one.default for one in settings_of(self.scheduler)}
        given = {**environ, **dict.fromkeys(self.secrets, SECRET)}
        return Place(given, {"scheduler": "auto", "elsewhere": "refuse", **defaults, **self.nowhere}, "/nonexistent")


def check_interface(case: Case) -> None:
    """It has every part of the interface, and a name for people."""
    has_every_part(case.scheduler, Scheduler, case.scheduler.name)


def check_module_name(case: Case) -> None:
    """The module name alone is enough: its ``PROVIDER`` is what the guard's workers load."""
    loaded = load([case.target.partition(":")[0]])
    assert not loaded.failures, loaded.failures
    assert type(loaded.plug_ins[0]) is type(case.scheduler)


def check_settings(case: Case) -> None:
    """Its own options fit into the configuration, explain themselves, and hold no secret."""
    has_sound_settings(case.scheduler, SHARED, "task")


def check_import_is_cheap(case: Case) -> None:
    """`costguard run` imports every plug-in to find the one whose task this is."""
    imports_little(case.target.partition(":")[0], "costguard.tasks.api", HEAVY)


def check_recognises_its_own(case: Case) -> None:
    """A task that two plug-ins claim is ended by none; an empty environment is nobody's."""
    scheduler = case.scheduler
    for environ in case.own:
        assert scheduler.recognises(case.place(environ)) is True, environ
    for environ in ({}, *case.foreign):
        place = Place(environ, {}, "/nonexistent")
        assert scheduler.recognises(place) is False, environ


def check_identity(case: Case) -> None:
    """Every task has an id, words for people, and evidence; the same each time. Without one it says so."""
    scheduler = case.scheduler
    for environ in case.own:
        task = scheduler.identify(case.place(environ))
        assert isinstance(task, Task)
        assert task.id.strip(), "no id"
        assert task.id in task.words, "its words name it, as people know it"
        assert task.evidence, "nothing that shows which task this is"
        assert task == scheduler.identify(case.place(environ))
        assert all(isinstance(value, str) for value in task.details.values())
        reach = task.advice.reach
        assert not reach or (reach.count("{}") == 1 and "`" not in reach), (
            "a command line in which {} stands for another one"
        )
    refused = _error(lambda: scheduler.identify(Place({}, {}, "/nonexistent")))
    assert isinstance(refused, SchedulerError), f"it finds a task where there is none: {refused!r}"
    assert refused.hint, "say what to do"


def check_secrets_stay(case: Case) -> None:
    """What the environment holds of secrets stands in no identity, which becomes part of receipts and messages."""
    for environ in case.own:
        assert SECRET not in repr(case.scheduler.identify(case.place(environ)))


def check_belongs(case: Case) -> None:
    """A process that is not there belongs to nobody, or nobody knows."""
    for environ in case.own:
        place = case.place(environ)
        assert case.scheduler.belongs(place, case.scheduler.identify(place), 2**22) in (True, None)


def check_permissions(case: Case) -> None:
    """Each right is named once, with what it is for."""
    found = case.scheduler.permissions()
    assert found, "every scheduler asks for some right, if only that of the owner"
    assert len({one.name for one in found}) == len(found), "a right is named twice"
    for one in found:
        assert one.name.strip(), "a right without a name"
        assert len(one.why) > 10, f"{one.name}: say what it is for"


def check_unreachable(case: Case) -> None:
    """A scheduler that cannot be asked is an error of the contract, in time, with a hint and without a secret; nothing is claimed."""
    for environ in case.own:
        for step in ("look", "end", "confirm", "tell"):
            began = time.monotonic()
            found = _error(functools.partial(_ask, case, case.place(environ), step))
            assert isinstance(found, SchedulerError), f"{step} of a scheduler that is not there says {found!r}"
            assert SECRET not in f"{found} {found.told} {found.hint} {found.code}"
            assert found.hint, f"{step}: say what to do"
            assert time.monotonic() - began < PATIENCE, f"{step} takes too long"


def _error(call: Callable[[], object]) -> object:
    """The error that a call raises; what it returns where it raises none."""
    try:
        return call()
    except SchedulerError as error:
        return error


def _ask(case: Case, place: Place, step: str) -> object:
    session, ticket = case.scheduler.open(place, case.scheduler.identify(place)), Ticket("i1", "a1", 2.0)
    if step == "look":
        return session.look(ticket.deadline)
    if step == "end":
        return session.end(TaskFacts("running", "running", stamp="of nothing"), ticket)
    if step == "confirm":
        return session.confirm(ticket, None)
    return session.tell("a test", ticket.deadline)


CHECKS = (
    check_interface,
    check_module_name,
    check_settings,
    check_import_is_cheap,
    check_recognises_its_own,
    check_identity,
    check_secrets_stay,
    check_belongs,
    check_permissions,
    check_unreachable,
)
"""Every check, in order."""
