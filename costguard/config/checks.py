"""Rules between options: values that are allowed alone can be nonsense, or dangerous, together."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, get_args

from costguard.cloud.api import capabilities, secret_store
from costguard.config.addresses import gets_warnings
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.presets import PRESETS
from costguard.config.schema import Settings
from costguard.config.sources import Problem, Value
from costguard.config.types import ActionName
from costguard.config.values import REFERENCE, seconds, show_seconds, show_share
from costguard.engine.policy import CLOUD_ACTIONS, END_TASK, MACHINE_ACTIONS, MACHINE_THRESHOLD_LIMIT
from costguard.record_address import overwrites

LIVE_MINIMUM_SECONDS = 600.0
"""The shortest window, boot grace and unused time of live machine actions, unless a preset says otherwise."""

_ELSEWHERE = "file:/PATH, env:NAME, credential:NAME"

LOOKS_IN_WINDOW = 3
"""A window with fewer looks proves nothing."""


def ends_machine(settings: Settings) -> bool:
    """Whether the action or a link of its fall-back list ends or restarts the whole machine."""
    return any(action in MACHINE_ACTIONS for action in (settings.kill_action, *settings.fallback))


WATCHES_HOST = ("terminals", "traffic")
"""Senses without which a machine whose GPUs cannot be read is never known to be quiet."""

WATCHES = " and ".join(f"senses.{name}" for name in WATCHES_HOST)


def check(settings: Settings, written: Mapping[str, Value]) -> Iterator[Problem]:
    """Every broken rule; ``written`` says who set what."""
    yield from _window(settings)
    yield from _live_minimums(settings)
    yield from _actions(settings)
    yield from _unknown(settings)
    yield from _deadline(settings)
    yield from _administrator(settings, written)
    yield from _plug_ins(settings)
    yield from _cloud(settings)
    yield from _tags(settings)
    yield from _secrets(settings)
    yield from _sink(settings)
    if settings.hooks.undo and not settings.hooks.pre_stop:
        text = "there is no hooks.pre_stop to undo; allowed: also set hooks.pre_stop"
        yield Problem("hooks.undo", text, involves=("hooks.pre_stop",))
    yield from _somebody_is_told(settings)
    if settings.hold.total < settings.hold.max:
        text = f"{show_seconds(settings.hold.total)} is less than one hold may last; allowed: at least hold.max"
        yield Problem("hold.total", f"{text} ({show_seconds(settings.hold.max)})", involves=("hold.max",))
    if settings.hold.per_user is not None and settings.hold.per_user > settings.hold.total:
        text = f"{show_seconds(settings.hold.per_user)} is more than all users may hold together; allowed: at most"
        yield Problem(
            "hold.per_user", f"{text} hold.total ({show_seconds(settings.hold.total)})", involves=("hold.total",)
        )


def _somebody_is_told(settings: Settings) -> Iterator[Problem]:
    """In the cloud nobody looks at a terminal, so a warning that stays on the machine warns nobody."""
    if settings.mode != "live" or not ends_machine(settings) or settings.notify.local_only:
        return
    channels = settings.notify.channels.values()
    if any(gets_warnings(one.level, one.kinds) for one in channels):
        return
    text = "in live mode this machine is stopped, but warnings would reach only its own terminals"
    allowed = "a table [notify.channels.NAME] with urls (docs/notify.md), or notify.local_only = true"
    if channels:
        text = "in live mode this machine is stopped, but no channel would get its warnings"
        allowed = 'a channel with level "warning" or "info", or with "warning" in kinds; or notify.local_only = true'
    yield Problem("notify.channels", f"{text}; allowed: {allowed}", involves=("mode", "kill_action", "fallback"))


def _window(settings: Settings) -> Iterator[Problem]:
    least = LOOKS_IN_WINDOW * settings.interval
    if settings.kill_duration < least:
        text = f"{show_seconds(settings.kill_duration)} holds fewer than {LOOKS_IN_WINDOW} looks; allowed: at least"
        required = f"{show_seconds(least)} with an interval of {show_seconds(settings.interval)}"
        yield Problem("kill_duration", f"{text} {required}", involves=("interval",))
    limit = MACHINE_THRESHOLD_LIMIT
    if ends_machine(settings) and settings.kill_threshold > limit and not settings.stop_below_load:
        yield Problem(
            "kill_threshold",
            f"{show_share(settings.kill_threshold)} would stop a working machine; "
            f"allowed: at most {show_share(limit)} for machine actions, or more with stop_below_load = true",
            involves=("kill_action", "fallback", "stop_below_load"),
        )


def _live_minimums(settings: Settings) -> Iterator[Problem]:
    if settings.mode != "live" or not ends_machine(settings):
        return
    preset = PRESETS[settings.preset].values if settings.preset in PRESETS else {}
    for path in ("kill_duration", "boot_grace", "unused_after"):
        value = getattr(settings, path)
        least = LIVE_MINIMUM_SECONDS
        if path in preset and preset[path] != "off":
            least = min(least, seconds(preset[path]))
        if value is not None and value < least:
            yield Problem(
                path,
                f"{show_seconds(value)} is too short for a live machine action; allowed: at least {show_seconds(least)}",
                involves=("mode", "preset", "kill_action", "fallback"),
            )


def _unknown(settings: Settings) -> Iterator[Problem]:
    senses = settings.senses.model_dump()
    off = [name for name in WATCHES_HOST if not (senses["enabled"] and senses[name]["enabled"])]
    if settings.unknown_stop_after is not None and off:
        text = f"it would never act: without the sense {' and '.join(off)} nobody can see whether the host is in use"
        involves = ("senses.enabled", *[f"senses.{name}.enabled" for name in off])
        yield Problem("unknown_stop_after", f"{text}; allowed: off, or {WATCHES} switched on", involves=involves)


def _actions(settings: Settings) -> Iterator[Problem]:
    chain = (settings.kill_action, *settings.fallback)
    if len(set(chain)) != len(chain):
        text = "an action appears twice; allowed: each action once, without kill_action"
        yield Problem("fallback", text, involves=("kill_action",))
    if "end_process" in settings.fallback:
        text = "end_process leaves the machine running unguarded; allowed: as kill_action only"
        yield Problem("fallback", text)
    if settings.kill_action == "end_process" and settings.fallback:
        yield Problem(
            "fallback",
            "end_process cannot fail, so nothing follows it; allowed: no fallback",
            involves=("kill_action",),
        )
    yield from _task(settings, chain)
    if "command" in chain and not settings.actions.command.run:
        text = "the action `command` has nothing to run; allowed: a program and its arguments; or kill_action = 'end_task' in a task of a cluster"
        yield Problem("actions.command.run", text, involves=("kill_action", "fallback"))


def _task(settings: Settings, chain: tuple[str, ...]) -> Iterator[Problem]:
    """A guard of a task judges the GPUs of that task, which are not all of the machine, and ends nothing else."""
    if END_TASK not in chain:
        return
    others = [action for action in chain if action in MACHINE_ACTIONS]
    if others:
        text = f"a guard of a task judges that task's GPUs alone, so it ends no machine ({', '.join(others)})"
        yield Problem("fallback", f"{text}; allowed: end_task with command", involves=("kill_action",))
    if settings.gpu_devices:
        text = "the GPUs of the task are those that its scheduler gave it"
        yield Problem("gpu_devices", f'{text}; allowed with end_task: ["all"]', involves=("kill_action", "fallback"))


def _plug_ins(settings: Settings) -> Iterator[Problem]:
    """A name that nothing answers to: nobody would be asked, so nothing would ever be stopped."""
    for path, chosen, plug_ins in (
        ("cloud.provider", settings.cloud.provider, CLOUDS),
        ("task.scheduler", settings.task.scheduler, TASKS),
    ):
        known = ["auto", "none", *(entry.partition("=")[0] for entry in plug_ins.entries())]
        if chosen not in known:
            yield Problem(path, f"no installed plug-in has the name {chosen!r}; allowed: {', '.join(known)}")


def _deadline(settings: Settings) -> Iterator[Problem]:
    deadline = settings.deadline
    if deadline.budget is None:
        return
    if settings.price_per_hour is None:
        text = "a budget needs a known price; allowed: also set price_per_hour"
        yield Problem("deadline.budget", text, involves=("price_per_hour",))
    if deadline.budget_period is None:
        text = "a budget needs a period; allowed: also set budget_period, such as 30d"
        yield Problem("deadline.budget_period", text, involves=("deadline.budget",))


def _cloud(settings: Settings) -> Iterator[Problem]:
    """What the named cloud supports at all; the plan of a machine says the rest."""
    provider = CLOUDS.installed.get(settings.cloud.provider)
    if provider is None:
        return
    can = capabilities(provider)
    lacking = [verb for verb in CLOUD_ACTIONS if verb not in can.verbs]
    for path, named in (("kill_action", (settings.kill_action,)), ("fallback", settings.fallback)):
        for verb in (verb for verb in named if verb in lacking):
            allowed = ", ".join(action for action in get_args(ActionName) if action not in lacking)
            text = f"{provider.name} cannot {verb} a machine; allowed: {allowed}"
            yield Problem(path, text, involves=("cloud.provider",))
    for path, wanted in (("sink.tag", settings.sink.tag), ("heartbeat.tag", settings.heartbeat.tag)):
        if wanted and not can.tags:
            yield Problem(
                path, f"machines of {provider.name} have no tags; allowed: false", involves=("cloud.provider",)
            )


def _tags(settings: Settings) -> Iterator[Problem]:
    """Tags are written through the cloud, to the machine that its metadata service names."""
    for path, wanted in (("sink.tag", settings.sink.tag), ("heartbeat.tag", settings.heartbeat.tag)):
        if wanted and settings.cloud.provider == "none":
            text = "tags are written through the cloud, but cloud.provider is none; allowed: false, or another provider"
            yield Problem(path, text, involves=("cloud.provider",))
        if wanted and settings.cloud.metadata == "never":
            text = "cloud.metadata is never, so the machine to write to is unknown; allowed: false, or metadata auto"
            yield Problem(path, text, involves=("cloud.metadata",))
    if settings.cloud.tag_settings and settings.cloud.tags == "off":
        text = "cloud.tags is off, so no tag is read; allowed: false, or tags on"
        yield Problem("cloud.tag_settings", text, involves=("cloud.tags",))


def _secrets(settings: Settings) -> Iterator[Problem]:
    """Secrets in the cloud's store need a cloud that has one. The message leaves out the given name, which may be the secret itself by mistake."""
    provider = CLOUDS.installed.get(settings.cloud.provider)
    store = secret_store(provider) if provider is not None else None
    for channel, one in settings.notify.channels.items():
        found = REFERENCE.fullmatch(one.urls)
        if found is None or found["secret"] is None:
            continue
        path = f"notify.channels.{channel}.urls"
        if settings.cloud.provider == "none":
            text = "it is read from the cloud, but cloud.provider is none"
            yield Problem(path, f"{text}; allowed: {_ELSEWHERE}, or another provider", involves=("cloud.provider",))
        elif settings.cloud.metadata == "never":
            text = "cloud.metadata is never, so this machine has no identity to read it with"
            yield Problem(path, f"{text}; allowed: {_ELSEWHERE}, or metadata auto", involves=("cloud.metadata",))
        elif provider is not None and store is None:
            text = f"the plug-in for {provider.name} reads no secrets; allowed: {_ELSEWHERE}"
            yield Problem(path, text, involves=("cloud.provider",))
        elif provider is not None and store is not None and not store.valid(found["secret"]):
            text = f"this is not the name of a secret in {provider.name}; allowed: secret:NAME with {store.form}"
            yield Problem(path, text, involves=("cloud.provider",))


def _sink(settings: Settings) -> Iterator[Problem]:
    """The message does not quote the address, which may be a secret."""
    if mistake := overwrites(settings.sink.model_dump()):
        yield Problem("sink.url", mistake, involves=("sink.method",))


class _Beyond(NamedTuple):
    """An option beyond its bound: its path and value, and the option of the administrator with the bound."""

    path: str
    value: float
    admin: str
    bound: float
    floor: bool


def _beyond_bounds(settings: Settings) -> Iterator[_Beyond]:
    admin = settings.admin
    bounds = (
        ("grace", settings.grace, "minimum_grace", admin.minimum_grace, True),
        ("kill_duration", settings.kill_duration, "minimum_kill_duration", admin.minimum_kill_duration, True),
        ("boot_grace", settings.boot_grace, "minimum_boot_grace", admin.minimum_boot_grace, True),
        ("hold.max", settings.hold.max, "hold_max", admin.hold_max, False),
        ("hold.past_deadline", settings.hold.past_deadline, "past_deadline", admin.past_deadline, False),
    )
    for path, value, name, bound, floor in bounds:
        if bound is not None and (value < bound if floor else value > bound):
            yield _Beyond(path, value, f"admin.{name}", bound, floor)


def bounds_for_defaults(settings: Settings, written: Mapping[str, Value]) -> dict[str, Value]:
    """The administrator's bound for each option whose default lies beyond it and that nobody has set: it takes the default's place."""
    return {
        one.path: Value(written[one.admin].raw, f"{one.admin} ({written[one.admin].source})")
        for one in _beyond_bounds(settings)
        if one.path not in written and one.admin in written
    }


def _administrator(settings: Settings, written: Mapping[str, Value]) -> Iterator[Problem]:
    for one in _beyond_bounds(settings):
        what, allowed = (
            ("below the administrator's minimum", "at least")
            if one.floor
            else ("above the administrator's maximum", "at most")
        )
        text = f"{show_seconds(one.value)} is {what} ({one.admin}, {written[one.admin].source})"
        yield Problem(one.path, f"{text}; allowed: {allowed} {show_seconds(one.bound)}", involves=(one.admin,))
