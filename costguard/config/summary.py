"""What a configuration will do, in plain English."""

from collections.abc import Iterator, Sequence

from costguard.config.addresses import Lack, gets_warnings
from costguard.config.checks import ends_machine
from costguard.config.schema import Settings
from costguard.config.values import show_local, show_seconds, show_share
from costguard.engine.policy import CLOUD_ACTIONS, END_TASK
from costguard.engine.wording import wording_of
from costguard.engine.words import duration
from costguard.masking import mask_all
from costguard.record_address import outlives

_DEEDS = {
    "stop": "the cloud is asked to stop this machine",
    "terminate": "the cloud is asked to terminate this machine, which deletes it",
    "hibernate": "the cloud is asked to hibernate this machine",
    "shutdown": "the operating system shuts down",
    "reboot": "the operating system reboots",
    "end_process": "costguard itself ends with exit code 0 and the machine keeps running",
    "end_task": "the scheduler is asked to end this task, and the machine goes on",
    "command": "your command runs",
}


def summary(settings: Settings, lacking: Sequence[Lack] = ()) -> list[str]:
    """A few sentences: the mode, when something happens, what, and what stands in its way.

    ``lacking``: the channels that are known to have no address.
    """
    return [_mode(settings), _idle(settings, lacking), *_limits(settings), *_notes(settings)]


def channel_warnings(lacking: Sequence[Lack]) -> list[str]:
    """What is wrong with channels, for a person who checks a configuration, perhaps as another user or on another machine."""
    return [_warning(lack) for lack in lacking]


def _warning(lack: Lack) -> str:
    if not lack.certain:
        return f"Note: {lack.channel}: {lack.why} here; whether the agent has its address is unknown. docs/notify.md shows how to test it."
    nothing = (
        "nothing can be sent there" if lack.partly else "without its address nothing can be sent from this machine"
    )
    return f"Warning: {lack.channel}: {lack.why}; {nothing}."


def _mode(settings: Settings) -> str:
    if settings.mode == "live":
        return "LIVE: this configuration acts."
    return f"Dry run: {wording_of(settings.kill_action).none}; messages say what would happen."


def _idle(settings: Settings, lacking: Sequence[Lack]) -> str:
    which = f"GPU {', '.join(settings.gpu_devices)}" if settings.gpu_devices else "GPU"
    idle = {"all": f"every {which} is", "any": f"any {which} is", "mean": "the mean of the GPUs is"}[settings.aggregate]
    if ends_machine(settings):  # which judges every GPU, whatever aggregate and gpu_devices say
        idle = "every GPU of the machine is" + ("" if settings.stop_below_load else " quiet (no sign of work) and")
    share = settings.window_rule == "share"
    slack = f" (up to {show_share(settings.window_share)} of that time may be above)" if share else " without a break"
    armed = "When "
    if settings.arm_duration is not None:
        arm = (show_share(settings.arm_threshold), show_seconds(settings.arm_duration))
        armed = f"After work (load above {arm[0]} for {arm[1]}), when "
    action = _DEEDS[settings.kill_action]
    if settings.kill_action == "command":
        action += f" ({' '.join(mask_all(settings.actions.command.run))})"
    first = (
        f"{armed}{idle} below {show_share(settings.kill_threshold)} for {show_seconds(settings.kill_duration)}{slack}"
    )
    who = _who(settings, lacking, "warned" if settings.grace else "told")
    later = f"{show_seconds(settings.grace)} later" if settings.grace else "at once"
    return f"{first}: {who}, and {later} {action}."


def _who(settings: Settings, lacking: Sequence[Lack], heard: str) -> str:
    """Who hears of it, and over which channels, as far as that is known without a message."""
    here = _who_is_here(settings, heard)
    if not settings.notify.channels:
        return here
    wanted = [name for name, one in settings.notify.channels.items() if gets_warnings(one.level, one.kinds)]
    without = {lack.channel: lack for lack in lacking if not lack.partly}
    if usable := [name for name in wanted if name not in without]:
        answer = "it answers" if len(usable) == 1 else "they answer"
        return f"people are {heard} over {', '.join(usable)}, if {answer} (`costguard notify test`)"
    if any(not without[name].certain for name in wanted):
        return f"people are {heard} over the channels whose addresses the agent has (none can be seen here)"
    return f"only {here}" if settings.notify.local else here


def _who_is_here(settings: Settings, heard: str) -> str:
    """Who may hear of it on this machine; whether anybody is there then, nobody knows."""
    if END_TASK in (settings.kill_action, *settings.fallback):
        return f"whoever reads the output of the task is {heard}"
    return f"whoever is at a terminal of this machine is {heard}" if settings.notify.local else f"nobody is {heard}"


def _limits(settings: Settings) -> Iterator[str]:
    if settings.fallback:
        yield f"If that fails for a technical reason: {', then '.join(settings.fallback)}."
    if settings.unused_after is not None:
        yield f"The same happens after {show_seconds(settings.unused_after)} without any work since boot."
    if settings.unknown_stop_after is not None:
        after = show_seconds(settings.unknown_stop_after)
        yield f"It also happens after {after} in which GPUs could not be read and nobody seemed to use the machine."
    deadline = settings.deadline
    ends = []
    if deadline.lifetime is not None:
        ends.append(f"after {show_seconds(deadline.lifetime)} of running")
    if deadline.lease is not None:
        ends.append(f"at {show_local(deadline.lease)}")
    if deadline.budget is not None and deadline.budget_period is not None:
        money = f"{deadline.budget:g} {settings.currency}"
        ends.append(f"when {money} are spent within {show_seconds(deadline.budget_period)}")
    if ends:
        busy = "even while it works" if deadline.stop_busy else "unless it works then"
        yield f"It also happens {' or '.join(ends)}, whichever is first, {busy}."
    if settings.boot_grace:
        yield f"Never within {show_seconds(settings.boot_grace)} of boot or resume."
    yield f"`costguard hold` postpones it, by at most {show_seconds(settings.hold.max)} at a time."


LONG_SECONDS = 30 * 86400.0
"""A wait that was hardly meant: a month of an idle machine."""


def _notes(settings: Settings) -> Iterator[str]:
    machine = ends_machine(settings)
    earliest = max(settings.boot_grace if machine else 0.0, settings.kill_duration + settings.grace)
    if earliest > LONG_SECONDS:
        yield f"Note: an idle machine would be stopped after {duration(earliest)} at the earliest."
    if settings.admin.hold:
        yield f"Note: the administrator blocks every action: {settings.admin.hold}"
    if machine and settings.stop_below_load:
        yield "Note: stop_below_load is set, so a machine that works below the threshold is stopped."
    if machine and (settings.aggregate != "all" or settings.gpu_devices):
        other = "the mean" if settings.aggregate == "mean" else "some of them"
        yield f"Note: a machine action judges every GPU, not {other}, whatever aggregate and gpu_devices say."
    if settings.arm_duration is not None and settings.kill_threshold > settings.arm_threshold and machine:
        yield "Note: kill_threshold is above arm_threshold: load between the two counts first as work, then as idle."
    if settings.mode != "live" and (settings.sink.tag or settings.heartbeat.tag):
        yield "Note: tags of the machine are written in live mode only."
    yield from _refusals(settings)


def _refusals(settings: Settings) -> Iterator[str]:
    """What this configuration makes every plan refuse."""
    chain = (settings.kill_action, *settings.fallback)
    through_cloud = next((action for action in chain if action in CLOUD_ACTIONS), "")
    if through_cloud and (settings.cloud.provider == "none" or settings.cloud.metadata == "never"):
        option = "cloud.provider is none" if settings.cloud.provider == "none" else "cloud.metadata is never"
        yield f"Note: {option}: {through_cloud} is refused, and the bill goes on."
    if "terminate" in chain and not outlives(settings.sink.model_dump()):
        yield "Note: in live mode terminate is refused until [sink] has a `url` or `syslog`, to keep the record."
