"""The table of the senses, one row each: configuration, reference, sample and `doctor` are made from it.

A new sense is a module beside this one and a row here.
"""

from typing import Literal, NamedTuple

Kind = Literal["duration", "rate", "number", "number_or_off", "names", "pages", "command", "switch", "text"]
"""What a setting holds: seconds, bytes per second, a number (or None), a list of texts, pages of servers on this machine, a program
with its arguments, yes or no, a text."""


class SenseSetting(NamedTuple):
    """One setting of a sense, as ``[senses.NAME]`` of the configuration has it.

    ``default`` and ``example`` as a person writes them ("30m", "1MB/s"). ``allowed``: for the reference, where the kind and the
    limits do not say it. ``least``, ``most``: limits of a number, in its unit.
    """

    name: str
    kind: Kind
    default: object
    example: object
    description: str
    allowed: str = ""
    least: float | None = None
    most: float | None = None


class SenseRow(NamedTuple):
    """One sense: ``module`` beside this one and its class ``kind`` (`costguard.readers.host.sense.Sense`).

    ``about``: what it sees, one line. ``enabled``, ``required``: the defaults; while a required sense sees nothing, the machine is
    kept up. ``hatch``: its activities only forbid an automatic stop, like those of a scheduler's node.
    """

    name: str
    module: str
    kind: str
    about: str
    enabled: bool
    required: bool
    settings: tuple[SenseSetting, ...] = ()
    hatch: bool = False


def _quiet_for(
    default: str, example: str, about: str = "How long it still counts after it was last seen.", least: float = 20.0
) -> SenseSetting:
    return SenseSetting("quiet_for", "duration", default, example, about, least=least)


def _names(name: str, example: list[str], about: str, what: str = "program") -> SenseSetting:
    """A list of names of programs, or of users; none by default."""
    return SenseSetting(name, "names", [], example, about, f"a list of {what} names")


def _ignored(what: str) -> SenseSetting:
    """A list of programs that do not count; ``what`` describes them."""
    about = (
        f"Programs whose {what}, besides updates, logrotate and the like. What begins while one of them runs does not "
        "count, for an hour at most."
    )
    return _names("ignore", ["restic"], about)


_TERMINALS = SenseRow(
    name="terminals",
    module="terminals",
    kind="Terminals",
    about="People who type on a terminal: a login, ssh, a pane of tmux or screen, a terminal of an editor or a container.",
    enabled=True,
    required=True,
    settings=(
        _quiet_for("30m", "1h", "How long somebody still counts after the last input.", 60.0),
        _names("users", ["ann", "bob"], "Only these users count. Empty: everybody.", "user"),
        _names("ignore_users", ["monitor"], "Users who do not count: robots that log in.", "user"),
    ),
)

_TRAFFIC = SenseRow(
    name="traffic",
    module="traffic",
    kind="Traffic",
    about="A download, an upload or disks at work above this machine's own idle level, also over InfiniBand.",
    enabled=True,
    required=False,
    settings=(
        SenseSetting(
            "network",
            "rate",
            "100kB/s",
            "1MB/s",
            "Received or sent above what is usual here, over the network or InfiniBand. What moves twice as much always counts.",
            least=1000.0,
        ),
        SenseSetting(
            "disk", "rate", "250kB/s", "5MB/s", "Read or written above what is usual here, on all disks.", least=1000.0
        ),
        _quiet_for("5m", "15m"),
        _ignored("traffic is nobody's work"),
    ),
)

_SSH = SenseRow(
    name="ssh",
    module="ssh",
    kind="Ssh",
    about="SSH sessions that move bytes though nobody types (port forwards, sftp), and remote editors in use.",
    enabled=True,
    required=False,
    settings=(
        SenseSetting(
            "session",
            "rate",
            "50kB/s",
            "1MB/s",
            "Bytes that one user's sessions move, above what is usual here.",
            least=1000.0,
        ),
        SenseSetting(
            "editor",
            "rate",
            "150B/s",
            "500B/s",
            "Data between an editor's server and its window, above what is usual here: typing, not the heartbeat.",
            least=50.0,
        ),
        SenseSetting(
            "editor_cores",
            "number",
            0.3,
            1.0,
            "Processors that an editor's server uses, with what it has started outside of terminals, above what is usual here.",
            least=0.05,
        ),
        _quiet_for("15m", "1h"),
    ),
)

_JUPYTER = SenseRow(
    name="jupyter",
    module="jupyter",
    kind="Jupyter",
    about="Busy notebook kernels, as each Jupyter server lists them; an open tab is not work.",
    enabled=True,
    required=True,
    settings=(
        _quiet_for(
            "10m",
            "30m",
            "How long a kernel still counts after it was last seen busy: people think between two cells.",
            0.0,
        ),
    ),
)

_SERVING = SenseRow(
    name="serving",
    module="serving",
    kind="Serving",
    about="Requests to inference servers (vLLM, SGLang, Triton, NIM and others), as their Prometheus page counts them; a loaded model is not work.",
    enabled=True,
    required=False,
    settings=(
        _quiet_for("5m", "30m", "How long a server still counts after its last request.", 0.0),
        SenseSetting(
            "urls",
            "pages",
            [],
            ["http://127.0.0.1:9000/metrics"],
            "Prometheus pages of servers that are not found automatically: those with another name or port.",
        ),
    ),
)

_PROBE = SenseRow(
    name="probe",
    module="probe",
    kind="Probe",
    about="A program of yours that says whether the machine is needed.",
    enabled=True,
    required=True,
    settings=(
        SenseSetting(
            "run",
            "command",
            [],
            ["/usr/local/bin/queue-is-empty"],
            "Exit code 0: nothing needs the machine; 1 or 2: something does; 3 and every other end: unknown, as with plug-ins of "
            "Nagios. It only looks, so it runs in a dry run too. Empty: no probe.",
        ),
        SenseSetting(
            "above",
            "number_or_off",
            "off",
            5,
            "Instead, the program writes one number and nothing else, and exits with 0: above this value the machine is needed.",
        ),
        SenseSetting(
            "user",
            "text",
            "",
            "ops",
            "The user to run it as, if the agent runs as root. Empty: the agent's own user.",
            "the name of a user of this machine, or nothing",
        ),
        SenseSetting("every", "duration", "30s", "5m", "How often it runs.", least=5.0),
        SenseSetting(
            "timeout",
            "duration",
            "10s",
            "30s",
            "After this time it is killed, with all that it has started; its answer is then unknown.",
            least=1.0,
            most=300.0,
        ),
    ),
)

_CPU = SenseRow(
    name="cpu",
    module="cpu",
    kind="Cpu",
    about="Processors at work above this machine's own idle level. A busy-wait loop looks the same.",
    enabled=False,
    required=False,
    settings=(
        SenseSetting("cores", "number", 0.5, 2.0, "Processors in use beyond what is usual here.", least=0.05),
        _quiet_for("5m", "15m"),
        _ignored("work is nobody's"),
    ),
)

_PROCESSES = SenseRow(
    name="processes",
    module="named_processes",
    kind="NamedProcesses",
    about="Programs that you name, while they run.",
    enabled=False,
    required=False,
    settings=(
        _names(
            "names",
            ["rsync", "preprocess"],
            "Names of processes, as `ps -o comm` shows them: the kernel keeps 15 characters.",
        ),
        _names("users", ["ann", "bob"], "Only those of these users count. Empty: everybody's.", "user"),
    ),
)

_CLUSTER = SenseRow(
    name="cluster",
    module="cluster",
    kind="Cluster",
    about="A node of a scheduler, or a job of several hosts: a GPU's process connected to others, InfiniBand that moves data.",
    enabled=True,
    required=False,
    hatch=True,
    settings=(
        SenseSetting(
            "standalone",
            "switch",
            False,
            True,
            "Nothing is scheduled here: schedulers' daemons do not count, and other signs count as in any sense.",
        ),
        _names("ignore", ["feature-server"], "Programs whose connections to other hosts are not a job's."),
        _quiet_for("5m", "15m", "How long it still counts after the last sign."),
    ),
)

_HOLDERS = SenseRow(
    name="holders",
    module="holders",
    kind="Holders",
    about="Processes that hold a GPU, at work or not; monitors do not count.",
    enabled=False,
    required=False,
    settings=(
        _names("users", ["ann", "bob"], "Only those of these users count. Empty: everybody's.", "user"),
        _names("ignore_users", ["monitor"], "Users whose processes do not count.", "user"),
        _names("ignore", ["Xorg"], "Programs that do not count."),
    ),
)

SENSES: tuple[SenseRow, ...] = (
    _TERMINALS,
    _SSH,
    _JUPYTER,
    _SERVING,
    _TRAFFIC,
    _CLUSTER,
    _CPU,
    _HOLDERS,
    _PROCESSES,
    _PROBE,
)
"""In the order in which people read them."""
