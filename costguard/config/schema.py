"""The one description of the configuration: validation, the sample file and the reference come from it.

Defaults are written as a person writes them and are validated like any other value.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from costguard.config import plug_ins
from costguard.config.types import (
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
    Kinds,
    Money,
    Server,
    Share,
    Url,
    UrlReference,
)
from costguard.engine import deadlines

ACTIONS = "stop, terminate, hibernate (cloud); shutdown, reboot (guest); end_process; command"

_DURATION = "a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d"
_SHARE = "a share such as 0.05 or 5%"


def option(
    description: str,
    default: object,
    *,
    example: object,
    allowed: str,
    unit: str = "",
    **limits: Any,
) -> Any:  # noqa: ANN401 - pydantic's own convention: the annotation of the attribute is the type
    """One option; ``allowed`` is printed with every error about it and in the reference."""
    extra: dict[str, Any] = {"allowed": allowed, "unit": unit}
    return Field(
        default=default,
        description=description,
        examples=[example],
        json_schema_extra=extra,
        validate_default=True,
        **limits,
    )


class Section(BaseModel):
    """A table of the file: nothing unknown in it, nothing guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Deadline(Section):
    """The machine ends at the earliest of these, after a warning; work cancels that unless `stop_busy`.

    Passed while work goes on, it is told daily, and the warning begins when work has been over for five minutes.
    """

    lifetime: DurationOrOff = option(
        "Running time, counted over reboots, after which the machine ends.",
        "off",
        example="7d",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
        gt=0,
    )
    lease: DateOrOff = option(
        "The moment at which the machine ends.",
        "off",
        example="2027-01-31T18:00:00+01:00",
        unit="date",
        allowed="a date and time with its offset (RFC 3339), such as 2027-01-31T18:00:00+01:00, or off",
    )
    budget: Money = option(
        "Money for each budget_period; needs price_per_hour.",
        "off",
        example=500,
        unit="currency",
        allowed="a positive amount, or off",
    )
    budget_period: DurationOrOff = option(
        "The time for which the budget is meant. A budget without its period is an error.",
        "off",
        example="30d",
        unit="seconds",
        allowed=f"{_DURATION}, at least 1h; or off without a budget",
        ge=3600,
    )
    stop_busy: bool = option(
        "A deadline acts although work is seen.",
        False,
        example=True,
        allowed="true or false",
    )


class HoldSection(Section):
    """How long `costguard hold` may postpone an action."""

    max: Duration = option(
        "The longest single hold.",
        "24h",
        example="8h",
        unit="seconds",
        allowed=f"{_DURATION}, more than 0",
        gt=0,
    )
    total: Duration = option(
        "The sum of the holds of all users since work was last seen. Root's holds do not count, and are always possible.",
        "3d",
        example="24h",
        unit="seconds",
        allowed=f"{_DURATION}, at least hold.max",
        gt=0,
    )
    per_user: DurationOrOff = option(
        "The sum of the holds of one user since work was last seen; `off`: two thirds of `total`, so that something is left for others.",
        "off",
        example="12h",
        unit="seconds",
        allowed=f"{_DURATION}, at most hold.total; or off",
        gt=0,
    )


class CommandAction(Section):
    """The action `command`: a program of yours."""

    run: Command = option(
        "Program and arguments; no shell. {incident} {reason} {idle_seconds} {gpus} {sentence} {instance} are filled in.",
        [],
        example=["/usr/local/bin/release-node", "--reason", "{reason}"],
        allowed="a list of arguments, or one string that is split like a shell does",
    )
    timeout: Duration = option(
        "After this time the program and its children are ended and the action has failed.",
        "60s",
        example="5m",
        unit="seconds",
        allowed=f"{_DURATION}, from 1s to 1h",
        ge=1,
        le=deadlines.ACTION_LONGEST,
    )


class ShutdownAction(Section):
    """The action `shutdown`: the operating system of this machine ends itself."""

    accept_bill: bool = option(
        "Act although the cloud goes on billing a machine that was shut down from inside.",
        False,
        example=True,
        allowed="true or false",
    )
    delay: Duration = option(
        "Time between the request and its execution by the operating system, rounded up to whole minutes.",
        "0s",
        example="1m",
        unit="seconds",
        allowed=f"{_DURATION}, at most 4m: what has not happened 5m after the request has failed",
        le=deadlines.DELAY_LONGEST,
    )


class RebootAction(Section):
    """The action `reboot`: the operating system of this machine restarts itself; the bill goes on."""

    delay: Duration = option(
        "Time between the request and its execution by the operating system, rounded up to whole minutes.",
        "0s",
        example="1m",
        unit="seconds",
        allowed=f"{_DURATION}, at most 4m: what has not happened 5m after the request has failed",
        le=deadlines.DELAY_LONGEST,
    )


class Actions(Section):
    """Settings of the actions."""

    command: CommandAction = CommandAction()
    shutdown: ShutdownAction = ShutdownAction()
    reboot: RebootAction = RebootAction()


if TYPE_CHECKING:

    class _PlugIns(Section):
        """The tables of the installed plug-ins, one for each that has options of its own: ``[cloud.NAME]``."""

else:
    _PlugIns = plug_ins.tables(Section, option)


class Cloud(_PlugIns):
    """The cloud that this machine is rented from: who it is, and what `stop`, `terminate` and `hibernate` may do there."""

    provider: str = option(
        "The cloud plug-in. `auto`: the one that recognises the firmware's identity. `none`: no cloud is ever asked.",
        "auto",
        example="none",
        allowed="auto, none, or the name of an installed plug-in (`costguard permissions` lists them)",
        pattern=r"^[A-Za-z0-9_.-]+$",
    )
    metadata: Literal["auto", "never"] = option(
        "Whether this machine's metadata service may be asked who it is. `never` refuses every cloud action.",
        "auto",
        example="never",
        allowed="auto or never",
    )
    metadata_endpoint: Url = option(
        "Another address of the metadata service.",
        "",
        example="http://127.0.0.1:8080",
        allowed="a URL that begins with http:// or https://, or nothing",
    )
    api_endpoint: Url = option(
        "Another address of the cloud's API.",
        "",
        example="https://api.internal.example.org",
        allowed="a URL that begins with http:// or https://, or nothing",
    )
    local_data: Literal["keep", "discard"] = option(
        "Disks that are part of the machine lose their data when it stops. `keep` refuses while one may be in use; `discard` acts.",
        "keep",
        example="discard",
        allowed="keep or discard",
    )
    group: Literal["notify", "leave"] = option(
        "A member of a group that replaces its machines: `notify` only tells people; `leave` takes it out by the group's own call.",
        "notify",
        example="leave",
        allowed="notify or leave",
    )
    prepaid: Literal["notify", "act"] = option(
        "A machine that is paid in advance, where a stop saves nothing: `notify` only tells people; `act` stops it all the same.",
        "notify",
        example="act",
        allowed="notify or act",
    )
    managed: Literal["refuse", "standalone"] = option(
        "A node of a scheduler (Kubernetes, Slurm, Ray …): `refuse` never touches it and tells people; `standalone` says that nothing is scheduled here.",
        "refuse",
        example="standalone",
        allowed="refuse or standalone",
    )
    notices: Literal["on", "off"] = option(
        "Ask the metadata service whether the cloud is about to take this machine away.",
        "on",
        example="off",
        allowed="on or off",
    )
    tags: Literal["on", "off"] = option(
        "Heed the machine's tags `costguard = off` and `costguard-hold = DATE`: they keep it up, and can do nothing else.",
        "on",
        example="off",
        allowed="on or off",
    )
    tag_settings: bool = option(
        "Tags may make settings milder: `costguard-kill-duration`, `costguard-grace`, `costguard-boot-grace` and "
        "`costguard-unused-after` longer, `costguard-kill-threshold` lower.",
        False,
        example=True,
        allowed="true or false",
    )
    spread: Duration = option(
        "The checks of a fleet, daily and after a restart of its agents, ask the cloud within this time, each machine at a "
        "moment of its own; within a quarter of it while no plan has passed since boot. One second for each machine of the "
        "account and region.",
        "20m",
        example="3h",
        unit="seconds",
        allowed=f"{_DURATION}, at most 12h",
        le=deadlines.SPREAD_LONGEST,
    )
    action_spread: Duration = option(
        "Machines that are due together ask the cloud within this time before they act: so late may an action be. Half a "
        "second for each machine of the account and region that may fall idle together. With `spread = 0s` nobody waits.",
        "1m",
        example="10m",
        unit="seconds",
        allowed=f"{_DURATION}, at most 30m",
        le=deadlines.ACTION_SPREAD_LONGEST,
    )


class Sink(Section):
    """Where the record of an incident goes before this machine may end. A live `terminate` needs a `url` or `syslog` that takes it."""

    url: Address = option(
        "A web address that takes one JSON object for each step. With PUT each gets a name of its own: "
        "`{instance}/{incident}/{attempt}-{step}-{time}.json` after an address that ends in `/`, else these placeholders in it.",
        "",
        example="https://records.example.org/costguard/",
        allowed="a URL that begins with http:// or https://, or nothing; with PUT one that keeps every record apart",
    )
    method: Literal["POST", "PUT"] = option(
        "How it is sent to `url`: POST to a webhook; PUT to a store of objects, of which none is ever overwritten.",
        "POST",
        example="PUT",
        allowed="POST or PUT",
    )
    token_file: FolderOrNone = option(
        "A file with the bearer token for `url`.",
        "",
        example="/etc/costguard/sink-token",
        allowed="an absolute path, or nothing",
    )
    syslog: Server = option(
        "A syslog server that listens on TCP.",
        "",
        example="log.example.org:601",
        allowed="host:port with a port from 1 to 65535, an IPv6 address in brackets ([2001:db8::1]:601), or nothing",
    )
    tag: bool = option(
        "In live mode, also write what is about to be done into the machine's tag `costguard-incident`, which needs one more right: "
        "`costguard permissions CLOUD --tag`. A tag ends with a terminated machine.",
        False,
        example=True,
        allowed="true or false",
    )


class Hooks(Section):
    """A program of yours that saves what must be saved before the machine ends. Nothing waits for its success."""

    pre_stop: Command = option(
        "Runs in live mode, once, in the last minute before an own action or when the cloud announces that it takes the "
        "machine away. Variables as in actions.command.",
        [],
        example=["/usr/local/bin/save-checkpoints"],
        allowed="a list of arguments, or one string that is split like a shell does",
    )
    timeout: Duration = option(
        "After this time it is ended. When the cloud leaves less time, it gets that.",
        "60s",
        example="2m",
        unit="seconds",
        allowed=f"{_DURATION}, from 1s to 3m",
        ge=1,
        le=deadlines.HOOK_LONGEST,
    )


class HeartbeatSection(Section):
    """A sign of life while every reader answers, for whoever watches from outside: its absence is the alarm."""

    url: Url = option(
        "A web address that is asked with a small JSON object (instance, state, date).",
        "",
        example="https://beat.example.org/4f1c",
        allowed="a URL that begins with http:// or https://, or nothing",
    )
    every: Duration = option(
        "Time between two signs of life.",
        "5m",
        example="1m",
        unit="seconds",
        allowed=f"{_DURATION}, from 30s to 1d",
        ge=30,
        le=86400,
    )
    token_file: FolderOrNone = option(
        "A file with the bearer token for `url`.",
        "",
        example="/etc/costguard/beat-token",
        allowed="an absolute path, or nothing",
    )
    tag: bool = option(
        "In live mode, also write date and state into the machine's tag `costguard-heartbeat`, at most every 10 minutes, whatever `every` "
        "says, because clouds limit changes; needs one more right: `costguard permissions CLOUD --tag`.",
        False,
        example=True,
        allowed="true or false",
    )


class Channel(Section):
    """A place beyond this machine that gets messages: a chat, mail, a pager, a webhook. NAME is yours. See docs/notify.md."""

    urls: UrlReference = option(
        "Where the addresses stand, as apprise URLs, one a line. They are secrets, so they never stand here.",
        "",
        example="file:/etc/costguard/team.urls",
        allowed="file:/PATH (mode 600), env:NAME, or credential:NAME of systemd",
    )
    level: Literal["info", "warning", "critical"] = option(
        "Only messages of this level and above.",
        "info",
        example="warning",
        allowed="info, warning or critical",
    )
    kinds: Kinds = option(
        "Only these kinds of message, whatever their level. Empty: every kind.",
        [],
        example=["warning", "accepted", "failed"],
        allowed=f"a list of {', '.join(KINDS)}",
    )


class Notify(Section):
    """Who is told, and how."""

    local: Channels = option(
        "Where messages go on this machine besides the journal: the guard's own terminal, and every terminal or console "
        "at which somebody sits.",
        ["terminal", "wall"],
        example=["wall"],
        allowed='a list of "terminal" and "wall"',
    )
    attempts: int = option(
        "Tries for each message before a channel counts as failed.",
        3,
        example=5,
        allowed="a whole number from 1 to 10",
        ge=1,
        le=10,
    )
    channels: dict[str, Channel] = {}


class HostSection(Section):
    """Where the machine is seen; change it when costguard runs in a container that stands for its host."""

    procfs: Folder = option("The host's /proc.", "/proc", example="/host/proc", allowed="an absolute path")
    sysfs: Folder = option("The host's /sys.", "/sys", example="/host/sys", allowed="an absolute path")
    devfs: Folder = option("The host's /dev.", "/dev", example="/host/dev", allowed="an absolute path")
    stands_for_host: bool = option(
        "This container speaks for the whole machine: machine actions are allowed from inside it.",
        False,
        example=True,
        allowed="true or false",
    )


class Admin(Section):
    """What users of the machine cannot weaken. Only files may set it; the system's file counts besides `--config`, and wins."""

    hold: str = option(
        "A reason. Not empty: every own action is blocked until it is empty again.",
        "",
        example="benchmark week, ask ops@example.org",
        allowed="a text",
    )
    minimum_grace: DurationOrOff = option(
        "No `grace` below this.",
        "off",
        example="5m",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
    )
    minimum_kill_duration: DurationOrOff = option(
        "No `kill_duration` below this.",
        "off",
        example="30m",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
    )
    minimum_boot_grace: DurationOrOff = option(
        "No `boot_grace` below this.",
        "off",
        example="30m",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
    )
    hold_max: DurationOrOff = option(
        "No `hold.max` above this.",
        "off",
        example="8h",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
    )


class Settings(Section):
    """Everything that can be set."""

    preset: str = option(
        "A set of values to start from; every other option overrides it. `none` is costguard's own defaults.",
        "none",
        example="gpu-sentinel",
        allowed="none, gpu-sentinel, gpu-idle-timeout or gpu-idle-timeout-any",
    )
    mode: Literal["dry-run", "live"] = option(
        "`dry-run` warns and plans, but nothing has an effect: no hook, signal, command, tag, record or call that changes "
        "anything. `live` acts.",
        "dry-run",
        example="live",
        allowed="dry-run or live",
    )
    interval: Duration = option(
        "Time between two looks at the GPUs. The driver remembers at most about 16 s.",
        "10s",
        example="5s",
        unit="seconds",
        allowed=f"{_DURATION}, more than 0 and at most 15s",
        gt=0,
        le=15,
    )
    arm_threshold: Share = option(
        "Load above this for `arm_duration` counts as work; before that nothing is idle after work.",
        "5%",
        example="80%",
        unit="share",
        allowed=f"{_SHARE}, below 100%",
        lt=1,
    )
    arm_duration: DurationOrOff = option(
        "How long load must be above `arm_threshold`. `off`: counts as having worked from the start.",
        "60s",
        example="off",
        unit="seconds",
        allowed=f"{_DURATION}, or off",
    )
    kill_threshold: Share = option(
        "Load below this is idle. Load is the busiest engine of the GPU: compute, encoder, decoder, JPEG, optical flow.",
        "5%",
        example="10%",
        unit="share",
        allowed=f"{_SHARE}, above 0% and at most 100%",
        gt=0,
        le=1,
    )
    kill_duration: Duration = option(
        "How long the machine must be idle before people are warned.",
        "60m",
        example="30m",
        unit="seconds",
        allowed=f"{_DURATION}, at least 3 intervals; live machine actions at least 10m",
        gt=0,
    )
    window_rule: Literal["share", "unbroken"] = option(
        "`unbroken`: one look above the threshold starts the window again. `share`: `window_share` of it may be above.",
        "share",
        example="unbroken",
        allowed="share or unbroken",
    )
    window_share: Share = option(
        'With `window_rule = "share"`: how much of the window may be above the threshold, all GPUs together.',
        "1%",
        example="5%",
        unit="share",
        allowed=f"{_SHARE}, at most 50%",
        le=0.5,
    )
    aggregate: Literal["all", "any", "mean"] = option(
        "Idle when `all` GPUs are, when `any` one is, or by their `mean`. Machine actions always need every GPU quiet.",
        "all",
        example="mean",
        allowed="all, any or mean",
    )
    gpu_devices: Gpus = option(
        "GPUs that count: indices, UUIDs or PCI addresses. Machine actions always need every GPU quiet.",
        ["all"],
        example=[0, 1],
        allowed='["all"], or a list of indices, UUIDs (GPU-…) and PCI addresses (0000:01:00.0)',
    )
    stop_below_load: bool = option(
        "Let load alone decide for machine actions too, even above 20%: power, memory traffic and processes do not count "
        "as work then. Every warning says so.",
        False,
        example=True,
        allowed="true or false",
    )
    delay: Duration = option(
        "With `end_process` and `command`: nothing is judged this long after costguard started.",
        "0s",
        example="1m",
        unit="seconds",
        allowed=_DURATION,
    )
    grace: Duration = option(
        "From a delivered warning to the action.",
        "10m",
        example="15m",
        unit="seconds",
        allowed=_DURATION,
    )
    boot_grace: Duration = option(
        "No own action within this time after boot or resume.",
        "20m",
        example="30m",
        unit="seconds",
        allowed=f"{_DURATION}; live machine actions at least 10m",
    )
    unused_after: DurationOrOff = option(
        "Running time, counted over reboots under one policy, without any work at all after which the machine is unused.",
        "4h",
        example="off",
        unit="seconds",
        allowed=f"{_DURATION}, or off; live machine actions at least 10m",
        gt=0,
    )
    unknown_alarm: Duration = option(
        "People are told when what cannot be read has delayed a stop this long, then at twice that, and so on.",
        "15m",
        example="1h",
        unit="seconds",
        allowed=f"{_DURATION}, more than 0",
        gt=0,
    )
    unknown_stop_after: DurationOrOff = option(
        "Act after GPUs could not be read for this long on a host seen quiet. Not in this version: no reader sees that.",
        "off",
        example="off",
        unit="seconds",
        allowed="off; later a duration, at least 4h",
        ge=14400,
    )
    kill_action: ActionName = option(
        "What happens. `end_process` only ends costguard itself, with exit code 0.",
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
        "What the machine costs, for the money in messages and for budgets. Without it messages have the cloud's Spot or "
        "list price, marked as an estimate.",
        "unknown",
        example=32.77,
        unit="currency",
        allowed="a positive amount, or unknown",
    )
    currency: Currency = option(
        "The currency of price and budget.",
        "USD",
        example="EUR",
        allowed="three capital letters (ISO 4217)",
    )
    saving_limit: DurationOrOff = option(
        "Of each time that the machine was off, so much counts as money not spent: somebody would have stopped it some day.",
        "24h",
        example="12h",
        unit="seconds",
        allowed=f"{_DURATION}, more than 0; or off: all of it counts",
        gt=0,
    )
    deadline: Deadline = Deadline()
    hold: HoldSection = HoldSection()
    actions: Actions = Actions()
    cloud: Cloud = Cloud()
    sink: Sink = Sink()
    hooks: Hooks = Hooks()
    heartbeat: HeartbeatSection = HeartbeatSection()
    notify: Notify = Notify()
    host: HostSection = HostSection()
    admin: Admin = Admin()
