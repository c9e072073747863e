"""The one description of the configuration: validation, the sample file and the reference come from it.

Defaults are written as a person writes them and are validated like any other value.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from costguard.config import sense_options
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.types import (
    DURATION,
    KINDS,
    ActionName,
    ActionNames,
    Address,
    Channels,
    Command,
    Currency,
    DateOrOff,
    Duration,
    DurationOrOff,
    Folder,
    FolderOrNone,
    Gpus,
    HoldUrl,
    Kinds,
    Money,
    Server,
    Share,
    Url,
    UrlReference,
)
from costguard.engine import time_limits

ACTIONS = "stop, terminate, hibernate (cloud); shutdown, reboot (guest); end_task (cluster); end_process; command"

_LIVE = "live machine actions at least 10m"


def option(description: str, default: object, *, example: object = True, allowed: str = "", **limits: Any) -> Any:  # noqa: ANN401 - pydantic's own convention: the annotation of the attribute is the type
    """One option. Without ``allowed``, its type and ``limits`` say what is allowed (`costguard.config.options`)."""
    return Field(
        default=default,
        description=description,
        examples=[example],
        json_schema_extra={"allowed": allowed},
        validate_default=True,
        **limits,
    )


def _delay(what: str) -> Any:  # noqa: ANN401 - as `option`
    about = f"Time from the request to the {what} by the operating system, rounded up to whole minutes."
    allowed = f"{DURATION}, at most 4m: an action that shows no effect within 5m counts as failed"
    return option(about, "0s", example="1m", allowed=allowed, le=time_limits.DELAY_LONGEST_SECONDS)


class Section(BaseModel):
    """A table of the file: nothing unknown in it, nothing guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DeadlineSection(Section):
    """The machine ends at the earliest of these, after a warning; work cancels that unless `stop_busy`.

    A deadline that passes during work is reported daily; its warning begins when work has been over for five minutes.
    """

    lifetime: DurationOrOff = option(
        "Running time, summed over reboots, after which the machine is stopped.", "off", example="7d", gt=0
    )
    lease: DateOrOff = option("When the machine is stopped.", "off", example="2027-01-31T18:00:00+01:00")
    budget: Money = option(
        "Money to spend in each budget_period; needs price_per_hour.",
        "off",
        example=500,
        allowed="a positive amount, or off",
    )
    budget_period: DurationOrOff = option(
        "The period of the budget. A budget without its period is an error.",
        "off",
        example="30d",
        allowed=f"{DURATION}, at least 1h; or off without a budget",
        ge=3600,
    )
    stop_busy: bool = option("A deadline also stops a machine that works.", False)


class HoldSection(Section):
    """How long `costguard hold` may postpone an action."""

    max: Duration = option("The longest single hold.", "24h", example="8h", gt=0)
    total: Duration = option(
        "The sum of all users' holds since work was last seen. Root's holds do not count and are always possible.",
        "3d",
        example="24h",
        allowed=f"{DURATION}, at least hold.max",
        gt=0,
    )
    per_user: DurationOrOff = option(
        "The sum of one user's holds since work was last seen. `off`: two thirds of `total`, so that others have some left.",
        "off",
        example="12h",
        allowed=f"{DURATION}, at most hold.total; or off",
        gt=0,
    )
    past_deadline: Duration = option(
        "How far users may move a deadline (lifetime, lease, budget) with `costguard hold --past-deadline`. Root may move "
        "it further.",
        "24h",
        example="0s",
        ge=0,
    )


class CommandAction(Section):
    """The action `command`: a program of yours."""

    run: Command = option(
        "Program and arguments; no shell. {incident} {reason} {idle_seconds} {gpus} {sentence} {instance} {task} {task_kind} are filled in.",
        [],
        example=["/usr/local/bin/release-node", "--reason", "{reason}"],
    )
    timeout: Duration = option(
        "After this time the program and its children are killed and the action has failed.",
        "60s",
        example="5m",
        ge=1,
        le=time_limits.ACTION_LONGEST_SECONDS,
    )


class ShutdownAction(Section):
    """The action `shutdown`: the operating system shuts this machine down."""

    accept_bill: bool = option(
        "Shut down even if the cloud goes on billing a machine that was shut down from inside.", False
    )
    delay: Duration = _delay("shutdown")


class RebootAction(Section):
    """The action `reboot`: the operating system restarts this machine; the bill goes on."""

    delay: Duration = _delay("reboot")


class Actions(Section):
    """Settings of the actions."""

    command: CommandAction = CommandAction()
    shutdown: ShutdownAction = ShutdownAction()
    reboot: RebootAction = RebootAction()


if TYPE_CHECKING:

    class _PlugIns(Section):
        """The tables of the installed plug-ins, one for each that has options of its own: ``[cloud.NAME]``."""

else:
    _PlugIns = CLOUDS.tables(Section, option)


class CloudSection(_PlugIns):
    """The cloud that this machine is rented from, and what `stop`, `terminate` and `hibernate` may do there."""

    provider: str = option(
        "The cloud plug-in. `auto`: the one that recognises the firmware. `none`: no cloud is ever asked.",
        "auto",
        example="none",
        allowed="auto, none, or the name of an installed plug-in (`costguard permissions` lists them)",
        pattern=r"^[A-Za-z0-9_.-]+$",
    )
    metadata: Literal["auto", "never"] = option(
        "Whether to ask the metadata service which machine this is. `never` refuses every cloud action.",
        "auto",
        example="never",
    )
    metadata_endpoint: Url = option("Another address of the metadata service.", "", example="http://127.0.0.1:8080")
    api_endpoint: Url = option("Another address of the cloud's API.", "", example="https://api.internal.example.org")
    local_data: Literal["keep", "discard"] = option(
        "Local disks lose their data when the machine stops. `keep` refuses while one may be in use; `discard` stops anyway.",
        "keep",
        example="discard",
    )
    group: Literal["notify", "leave"] = option(
        "For a member of a group that replaces its machines: `notify` only tells people; `leave` first takes the machine "
        "out of the group.",
        "notify",
        example="leave",
    )
    prepaid: Literal["notify", "act"] = option(
        "For a machine that is paid in advance, where a stop saves nothing: `notify` only tells people; `act` stops it anyway.",
        "notify",
        example="act",
    )
    managed: Literal["refuse", "standalone"] = option(
        "For a node of a scheduler (Kubernetes, Slurm, Ray …): `refuse` never stops it and tells people; `standalone` says "
        "that nothing is scheduled here.",
        "refuse",
        example="standalone",
    )
    notices: Literal["on", "off"] = option(
        "Ask the metadata service whether the cloud is about to reclaim this machine.", "on", example="off"
    )
    tags: Literal["on", "off"] = option(
        "Obey the instance tags `costguard = off` and `costguard-hold = DATE`: they can keep the machine up, and nothing else.",
        "on",
        example="off",
    )
    tag_settings: bool = option(
        "Instance tags may relax settings: `costguard-kill-duration`, `costguard-grace`, `costguard-boot-grace` and "
        "`costguard-unused-after` longer, `costguard-kill-threshold` lower.",
        False,
    )
    spread: Duration = option(
        "The daily checks of a fleet, and those after its agents restart, are spread over this time, with a fixed jitter "
        "for each machine; over a quarter of it while no plan has passed since boot. Allow one second for each machine of "
        "the account and region.",
        "20m",
        example="3h",
        le=time_limits.SPREAD_LONGEST_SECONDS,
    )
    action_spread: Duration = option(
        "Machines that are due together are spread over this time before they act, so an action may be this late. Allow "
        "half a second for each machine of the account and region that may fall idle together. Unused with `spread = 0s`.",
        "1m",
        example="10m",
        le=time_limits.ACTION_SPREAD_LONGEST_SECONDS,
    )


if TYPE_CHECKING:

    class _TaskPlugIns(Section):
        """The tables of the installed plug-ins for tasks: ``[task.NAME]``."""

else:
    _TaskPlugIns = TASKS.tables(Section, option)


class TaskSection(_TaskPlugIns):
    """The task of a cluster's scheduler that `end_task` ends: the one in which costguard was started. See docs/tasks.md."""

    scheduler: str = option(
        "The plug-in for tasks. `auto`: the one that recognises where costguard was started.",
        "auto",
        example="none",
        allowed="auto, none, or the name of an installed plug-in (docs/tasks.md)",
        pattern=r"^[A-Za-z0-9_.-]+$",
    )
    elsewhere: Literal["refuse", "end"] = option(
        "For a task that extends beyond what can be seen here (GPUs on other machines, or in other pods that end with it): "
        "`refuse` never ends it and tells people; `end` ends it when its part here is idle.",
        "refuse",
        example="end",
    )


class Sink(Section):
    """Where the record of an incident goes before this machine may end. A live `terminate` needs a `url` or `syslog`."""

    url: Address = option(
        "A web address that takes one JSON object for each step. With PUT each has a name of its own: "
        "`{instance}/{incident}/{attempt}-{step}-{time}.json` after an address that ends in `/`, or these placeholders in it.",
        "",
        example="https://records.example.org/costguard/",
        allowed="a URL that begins with http:// or https://, or nothing; with PUT one that keeps every record apart",
    )
    method: Literal["POST", "PUT"] = option(
        "How to send to `url`: POST to a webhook; PUT to an object store, where no record overwrites another.",
        "POST",
        example="PUT",
    )
    token_file: FolderOrNone = option(
        "A file with the bearer token for `url`.", "", example="/etc/costguard/sink-token"
    )
    syslog: Server = option("A syslog server that listens on TCP.", "", example="log.example.org:601")
    tag: bool = option(
        "In live mode, also write the incident to the instance tag `costguard-incident`, which needs one more right: "
        "`costguard permissions CLOUD --tag`. A tag ends with a terminated machine.",
        False,
    )


class Hooks(Section):
    """Programs of yours at the steps of an incident, in live mode. No decision waits for one or depends on its success."""

    pre_stop: Command = option(
        "Runs once, in live mode, in the last minute before an action, or when the cloud announces that it ends or interrupts the "
        "machine. Placeholders as in actions.command.",
        [],
        example=["/usr/local/bin/save-checkpoints"],
    )
    undo: Command = option(
        "Undoes what `pre_stop` did (a drained node, say): runs when the action is cancelled or fails after it.",
        [],
        example=["/usr/local/bin/resume-node"],
    )
    armed: Command = option("Runs when the machine is first seen to work.", [], example=["/usr/local/bin/note-begin"])
    warning: Command = option("Runs when a countdown begins.", [], example=["/usr/local/bin/tell-scheduler"])
    cancelled: Command = option(
        "Runs when a countdown ends without an action.", [], example=["/usr/local/bin/tell-scheduler", "--back"]
    )
    post_boot: Command = option(
        "Runs when the guard first starts in a boot, or when the machine wakes after an action.",
        [],
        example=["/usr/local/bin/resume-node"],
    )
    sigterm: bool = option(
        "Send SIGTERM to the processes that hold a GPU once the cloud has accepted to stop or terminate the machine: they end "
        "before it does.",
        False,
    )
    user: str = option(
        "The user to run these programs as, if the agent runs as root. Empty: the agent's own user.",
        "",
        example="ops",
        allowed="the name of a user of this machine, or nothing",
        pattern=r"^([a-z_][a-z0-9_.-]{0,31}\$?)?$",
    )
    timeout: Duration = option(
        "After this time such a program is killed; sooner when the cloud leaves less time.",
        "60s",
        example="2m",
        ge=1,
        le=time_limits.HOOK_LONGEST_SECONDS,
    )


class HeartbeatSection(Section):
    """A heartbeat while every reader answers, for a watchdog outside: its absence is the alarm."""

    url: Url = option(
        "A web address that gets a small JSON object (instance, state, date).",
        "",
        example="https://beat.example.org/4f1c",
    )
    every: Duration = option("Time between two heartbeats.", "5m", example="1m", ge=30, le=86400)
    token_file: FolderOrNone = option(
        "A file with the bearer token for `url`.", "", example="/etc/costguard/beat-token"
    )
    tag: bool = option(
        "In live mode, also write date and state to the instance tag `costguard-heartbeat`, at most every 10 minutes because "
        "clouds limit changes; needs one more right: `costguard permissions CLOUD --tag`.",
        False,
    )


class Channel(Section):
    """A place beyond this machine that gets messages: a chat, mail, a pager, a webhook. You choose NAME. See docs/notify.md."""

    urls: UrlReference = option(
        "Where the addresses are, as apprise URLs, one per line. They are secrets and never belong in this file.",
        "",
        example="file:/etc/costguard/team.urls",
        allowed="file:/PATH (mode 600), env:NAME, credential:NAME of systemd, or secret:NAME of this machine's own cloud",
    )
    level: Literal["info", "warning", "critical"] = option(
        "Only messages of this level and above.", "info", example="warning"
    )
    kinds: Kinds = option(
        "Only these kinds of message, whatever their level. Empty: every kind.",
        [],
        example=["warning", "accepted", "failed"],
        allowed=f"a list of {', '.join(KINDS)}",
    )


class Notify(Section):
    """How people are warned."""

    local: Channels = option(
        "Where messages go on this machine besides the journal: `terminal` is the guard's own, `wall` every terminal or "
        "console in use, `task` the output of the task of a cluster that is guarded (in live mode without being named here).",
        ["terminal", "wall"],
        example=["wall"],
        allowed='a list of "terminal", "wall" and "task"',
    )
    attempts: int = option(
        "Tries for each message before a channel counts as failed.",
        3,
        example=5,
        allowed="a whole number from 1 to 10",
        ge=1,
        le=10,
    )
    local_only: bool = option(
        "Allow live mode without a channel: warnings then reach only people at a terminal of this machine.", False
    )
    summary: Literal["off", "daily", "weekly"] = option(
        "A summary for the channels beyond this machine, at nine in the morning: every day, or every Monday.",
        "weekly",
        example="daily",
    )
    dry_run: Literal["few", "all"] = option(
        "What leaves the machine in dry run. `few`: once a day what would have been done, and whatever needs a look; the "
        "summary has the rest. `all`: also every warning and its end.",
        "few",
        example="all",
    )
    armed: bool = option(
        "Also send a message when the machine is first seen to work, so that idle time counts from then.", False
    )
    hold_url: HoldUrl = option(
        "A link for warnings, to a service of yours that holds the machine without a login. {instance}, {machine} "
        "and {incident} are filled in.",
        "",
        example="https://hold.example.org/{instance}",
        allowed="a URL that begins with http:// or https://, with {instance}, {machine} or {incident} in it, or nothing",
    )
    channels: dict[str, Channel] = {}


class HostSection(Section):
    """Where the host's files are; change it when costguard runs in a container that stands for its host."""

    procfs: Folder = option("The host's /proc.", "/proc", example="/host/proc")
    sysfs: Folder = option("The host's /sys.", "/sys", example="/host/sys")
    devfs: Folder = option("The host's /dev.", "/dev", example="/host/dev")
    stands_for_host: bool = option(
        "This container stands for the whole machine: machine actions are allowed from inside it.", False
    )
    background_is_idle: bool = option(
        "A GPU on which only work of `costguard fill` runs counts as idle. What cannot be known there is unknown.",
        False,
    )


if TYPE_CHECKING:

    class _Senses(Section):
        """The tables of the senses: ``[senses.NAME]``."""

else:
    _Senses = sense_options.tables(Section, option)


class Senses(_Senses):
    """What keeps the machine up though its GPUs are idle: people and programs at work. See docs/senses.md."""

    enabled: bool = option("Use the senses. Off: the GPUs alone decide.", True)
    told_after: DurationOrOff = option(
        "Tell people when something has kept the machine up for this long without GPU work, and who it was; then daily.",
        "2d",
        example="8h",
        gt=0,
    )
    at_most: DurationOrOff = option(
        "After this long without GPU work it no longer keeps the machine up, until a GPU works again.",
        "off",
        example="7d",
        gt=0,
    )


class Admin(Section):
    """What users of the machine cannot weaken. Only files may set it; the system's file counts besides `--config`, and wins.

    A bound takes the place of a default that is beyond it; an option that somebody wrote beyond it is an error.
    """

    hold: str = option(
        "A reason. While it is not empty, every action is blocked.",
        "",
        example="benchmark week, ask ops@example.org",
        allowed="a text",
    )
    minimum_grace: DurationOrOff = option("No `grace` below this.", "off", example="5m")
    minimum_kill_duration: DurationOrOff = option("No `kill_duration` below this.", "off", example="30m")
    minimum_boot_grace: DurationOrOff = option("No `boot_grace` below this.", "off", example="30m")
    hold_max: DurationOrOff = option("No `hold.max` above this.", "off", example="8h")
    past_deadline: DurationOrOff = option("No `hold.past_deadline` above this.", "off", example="4h")


class Settings(Section):
    """Everything that can be set."""

    preset: str = option(
        "A set of values to start from; every other option overrides it. `none` is costguard's own defaults.",
        "none",
        example="gpu-sentinel",
        allowed="none, gpu-sentinel, gpu-idle-timeout or gpu-idle-timeout-any",
    )
    mode: Literal["dry-run", "live"] = option(
        "`dry-run` warns and plans, and changes nothing: no hook, signal, command, tag, record or call has an effect. "
        "`live` acts.",
        "dry-run",
        example="live",
    )
    interval: Duration = option(
        "Time between two looks at the GPUs. The driver remembers at most about 16 s.", "10s", example="5s", gt=0, le=15
    )
    arm_threshold: Share = option(
        "Load above this for `arm_duration` counts as work. Until then the rule for idle machines does not apply.",
        "5%",
        example="80%",
        lt=1,
    )
    arm_duration: DurationOrOff = option(
        "How long load must be above `arm_threshold`. `off`: the machine counts as having worked from the start.",
        "60s",
        example="off",
    )
    kill_threshold: Share = option(
        "Load below this is idle. Load is the busiest engine of the GPU: compute, encoder, decoder, JPEG, optical flow.",
        "5%",
        example="10%",
        gt=0,
        le=1,
    )
    kill_duration: Duration = option(
        "How long the machine must be idle before people are warned; for one that serves, 4h or more.",
        "60m",
        example="30m",
        allowed=f"{DURATION}, at least 3 intervals; {_LIVE}",
        gt=0,
    )
    window_rule: Literal["share", "unbroken"] = option(
        "`unbroken`: one look above the threshold restarts the window. `share`: `window_share` of it may be above.",
        "share",
        example="unbroken",
    )
    window_share: Share = option(
        'With `window_rule = "share"`: how much of the window may be above the threshold, all GPUs together.',
        "1%",
        example="5%",
        le=0.5,
    )
    aggregate: Literal["all", "any", "mean"] = option(
        "Idle when `all` GPUs are, when `any` one is, or by their `mean`. Machine actions always need every GPU quiet.",
        "all",
        example="mean",
    )
    gpu_devices: Gpus = option(
        "GPUs that count: indices, UUIDs or PCI addresses. Machine actions always need every GPU quiet.",
        ["all"],
        example=[0, 1],
        allowed='["all"], or a list of indices, UUIDs (GPU-…) and PCI addresses (0000:01:00.0)',
    )
    stop_below_load: bool = option(
        "Let load alone decide for machine actions too, even above 20%: power, memory traffic and processes then do not "
        "count as work. Every warning says so.",
        False,
    )
    delay: Duration = option(
        "With `end_process`, `end_task` and `command`: nothing is judged for this long after costguard starts.",
        "0s",
        example="1m",
    )
    grace: Duration = option("Time from a delivered warning to the action.", "10m", example="15m")
    boot_grace: Duration = option(
        "costguard does nothing by itself for this long after boot or resume.",
        "20m",
        example="30m",
        allowed=f"{DURATION}; {_LIVE}",
    )
    unused_after: DurationOrOff = option(
        "After this much running time without any work the machine counts as unused; a reboot does not reset it, a changed policy does.",
        "4h",
        example="off",
        allowed=f"{DURATION}, or off; {_LIVE}",
        gt=0,
    )
    unknown_alarm: Duration = option(
        "People are alarmed when unreadable GPUs have delayed a stop for this long, then at twice that, and so on.",
        "15m",
        example="1h",
        gt=0,
    )
    unknown_stop_after: DurationOrOff = option(
        "Act after GPUs could not be read for this long, while the senses saw nobody at a terminal, no traffic and nobody else.",
        "off",
        example="12h",
        allowed=f"{DURATION}, at least 4h; or off",
        ge=14400,
    )
    kill_action: ActionName = option(
        "What to do with an idle machine. `end_task` ends the task of a cluster in which costguard runs, and no machine. "
        "`end_process` only ends costguard itself, with exit code 0.",
        "stop",
        example="shutdown",
        allowed=ACTIONS,
    )
    fallback: ActionNames = option(
        "Tried in this order after a technical failure; a refusal is never bypassed.",
        [],
        example=["shutdown"],
        allowed=f"a list without repetition of {ACTIONS}",
    )
    price_per_hour: Money = option(
        "What the machine costs, for the money in messages and for budgets. Without it messages use the cloud's Spot or "
        "list price, marked as an estimate.",
        "unknown",
        example=32.77,
        allowed="a positive amount, or unknown",
    )
    currency: Currency = option("The currency of price and budget.", "USD", example="EUR")
    saving_limit: DurationOrOff = option(
        "At most this much of each time off counts as saved, since a person would have stopped the machine at some point.",
        "24h",
        example="12h",
        allowed=f"{DURATION}, more than 0; or off: all of it counts",
        gt=0,
    )
    deadline: DeadlineSection = DeadlineSection()
    hold: HoldSection = HoldSection()
    actions: Actions = Actions()
    cloud: CloudSection = CloudSection()
    task: TaskSection = TaskSection()
    sink: Sink = Sink()
    hooks: Hooks = Hooks()
    heartbeat: HeartbeatSection = HeartbeatSection()
    notify: Notify = Notify()
    host: HostSection = HostSection()
    senses: Senses = Senses()
    admin: Admin = Admin()
