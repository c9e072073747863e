"""What starts the agent again after a boot, proven by files: a systemd unit, or a container's restart policy."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import costguard
from costguard.config.here import SEARCHED
from costguard.doctor.finding import CheckResult, bad, note, ok, unseen
from costguard.doctor.needs import beside, missing
from costguard.doctor.running import Running, is_ahead, python_of, running, same_python
from costguard.doctor.units import (
    FLEETING,
    LASTING,
    UnclearError,
    Units,
    UnseenError,
    command,
    environment,
    environment_files,
)
from costguard.files import text_of
from costguard.holders import place

NAME = "costguard.service"
SHIPPED = os.path.join(os.path.dirname(os.path.abspath(costguard.__file__)), "data", NAME)
"""The unit file that comes with this package."""

DOCKER = "/var/lib/docker"
RESTARTING = frozenset(("always", "on-failure"))
"""Values of Restart= that restart a unit after every failure (systemd.service(5))."""

INTENDED = frozenset(("0", "2", "3"))
"""Exit codes of `run` after which a restart does not help: intended, wrong configuration, second agent."""

RESTARTS = frozenset(("always", "unless-stopped"))
"""Docker's restart policies that start a container after a boot."""

OUTSIDE = "on the host, `sudo costguard doctor --state-dir FOLDER` sees the container's restart policy"

AS_ROOT = "`sudo costguard doctor` can tell"

_IN_CONTAINER = ("/.dockerenv", "/run/.containerenv")
_USER = re.compile(r"/user@(\d+)\.service/")
_DOCKER = re.compile(r"docker[-/]([0-9a-f]{64})")


class ServiceUnit(NamedTuple):
    """What runs the agent. ``unit`` is empty where that is not a systemd unit.

    ``options`` and ``variables`` are those of its ``costguard run``; None where they are unknown.
    """

    unit: str = ""
    user: bool = False
    checks: tuple[CheckResult, ...] = ()
    options: tuple[str, ...] | None = None
    variables: Mapping[str, str] = {}

    @property
    def proven(self) -> bool:
        """Whether it provably starts the agent after a boot."""
        return all(check.level not in {"bad", "unseen"} for check in self.checks)

    def systemctl(self, verb: str) -> str:
        """A systemctl command for this unit, as its owner types it."""
        return f"`systemctl --user {verb} {self.unit}`" if self.user else f"`sudo systemctl {verb} {self.unit}`"

    @property
    def journal(self) -> str:
        """Where to read the agent's log."""
        if not self.unit:
            return "the agent's standard error"
        return f"`journalctl {'--user ' if self.user else ''}-u {self.unit}`"


NOBODY = ServiceUnit()
"""There is no agent, so nothing runs it."""


def look(pid: int, procfs: str, environ: Mapping[str, str], docker: str = DOCKER) -> ServiceUnit:
    """What started the process, and whether and how it does so after a boot."""
    group = _group(f"{procfs}/{pid}/cgroup")
    if within := _DOCKER.search(group):
        return ServiceUnit(checks=(_container(within[1], docker, environ),))
    where = place(group)
    if not where and any(os.path.exists(f"{procfs}/{pid}/root{path}") for path in _IN_CONTAINER):
        where = "a container"
    if where and not where.startswith("service"):
        text = f"it runs in {where}; from inside, doctor cannot see what starts that after a boot"
        return ServiceUnit(checks=(bad(text, OUTSIDE),))
    owner = _USER.search(group)
    names = [name for name in group.split("/") if name.endswith(".service") and not name.startswith("user@")]
    if names:
        return _of_unit(names[-1], int(owner[1]) if owner else None, environ, running(pid, procfs))
    text = "it does not run as a service: nothing restarts it after a reboot or a failure"
    return ServiceUnit(checks=(bad(text, install(environ)),))


def install(environ: Mapping[str, str]) -> str:
    """How to make costguard a service here; names only what exists."""
    if units(environ).path(NAME):
        return "stop this agent, then enable the installed service: `sudo systemctl enable --now costguard`"
    if not os.path.isdir("/run/systemd/system") and "SYSTEMD_UNIT_PATH" not in environ:
        return "have the service manager of this machine start it; doctor knows systemd units and docker's restart policies"
    return "make it a service: `sudo costguard install`"


def units(environ: Mapping[str, str], uid: int | None = None, *, fleeting: bool = False) -> Units:
    """The unit files of the system or of a user that survive a boot; ``fleeting``: those that do not."""
    if given := environ.get("SYSTEMD_UNIT_PATH"):  # systemd's own override
        return Units([] if fleeting else given.split(os.pathsep))
    kind = "system" if uid is None else "user"
    folders = [folder.format(kind) for folder in (FLEETING if fleeting else LASTING)]
    if uid is not None:
        home = _home(uid)[1]
        own = [f"/run/user/{uid}/systemd/{kind}"] if fleeting else [f"{home}/.config/systemd/user"]
        folders = [*own, *folders, *([] if fleeting else [f"{home}/.local/share/systemd/user"])]
    return Units(folders)


def _of_unit(unit: str, uid: int | None, environ: Mapping[str, str], agent: Running) -> ServiceUnit:
    """The unit that runs the agent now, judged by the files that the next boot reads."""
    unit_files = units(environ, uid)
    service = ServiceUnit(unit, user=uid is not None)
    problems = list(_not_at_boot(service, unit_files, uid, environ))
    settings = unit_files.settings(unit)
    problems += _restarts(service, settings)
    for key, values in settings.items():
        if values and key.startswith(("Condition", "Assert", "ExecCondition")):
            text = f"{unit} starts only where {key}={values[-1]} holds, which is unknown for the next boot"
            problems.append(bad(text, f"`{'' if service.user else 'sudo '}systemctl edit {unit}` can remove it"))
    try:
        variables = environment(settings)
        problems += _lacks(service, settings, variables.get("PATH", ""))
        options: list[str] | None = run_options(command(settings, variables), variables, agent.python)
    except UnclearError as error:
        variables, options = {}, None
        if unit_files.path(unit):
            text = f"it is not proven that {unit} starts `costguard run` again: {error}"
            problems.append(_not_clear(error, text, f"see its files: {service.systemctl('cat').replace('sudo ', '')}"))
    if unit_files.path(unit):
        problems += _changed(service, [*unit_files.files(unit), *environment_files(settings)], agent)
    good = ok(f"{unit} starts it at every boot ({unit_files.path(unit)})")
    given = None if options is None else tuple(options)
    told = [
        note(f"{unit} runs {key}={line} with it, which is not checked: if that fails, no guard starts")
        for key, line in beside(settings)
    ]
    return service._replace(checks=(*(problems or [good]), *told), options=given, variables=variables)


def installed(environ: Mapping[str, str]) -> ServiceUnit:
    """The unit that would start an agent, where none runs: what can be said by its files; nothing where there is none."""
    unit_files = units(environ)
    if not unit_files.path(NAME):
        return NOBODY
    service = ServiceUnit(NAME)
    settings = unit_files.settings(NAME)
    problems = [*_not_at_boot(service, unit_files, None, environ), *_restarts(service, settings)]
    try:
        problems += _lacks(service, settings, environment(settings).get("PATH", ""))
    except UnclearError as error:
        text = f"it is not proven that {NAME} starts `costguard run`: {error}"
        problems.append(_not_clear(error, text, "`systemctl cat costguard`"))
    found = problems or [ok(f"{NAME} starts an agent at every boot ({unit_files.path(NAME)})")]
    return service._replace(checks=tuple(found))


def _not_clear(error: UnclearError, text: str, hint: str) -> CheckResult:
    return unseen(text, AS_ROOT) if isinstance(error, UnseenError) else bad(text, hint)


def _lacks(service: ServiceUnit, settings: Mapping[str, list[str]], searched: str) -> list[CheckResult]:
    """What it names is gone, so systemd does not start it."""
    hint = f"bring it back, or take the line out: {service.systemctl('edit')}"
    return [
        bad(f"{service.unit} does not start again: its {key}= names {path}, which does not exist", hint)
        for key, path in missing(settings, searched)
    ]


def _restarts(service: ServiceUnit, settings: Mapping[str, list[str]]) -> list[CheckResult]:
    """Whether it restarts after every kind of failure."""
    unit, how = service.unit, (settings.get("Restart") or ["no"])[-1]
    edit = service.systemctl("edit")
    if how == "no":
        text = f"{unit} has no Restart=, so the guard stays down after a failure"
    elif how not in RESTARTING:
        text = f"{unit} has Restart={how}, so the guard stays down after some failures"
    else:
        kept = _words(settings, "RestartPreventExitStatus") - INTENDED
        kept |= _words(settings, "SuccessExitStatus") - INTENDED if how == "on-failure" else set()
        if not kept:
            return []
        text = (
            f"{unit} does not restart after {', '.join(sorted(kept))} (RestartPreventExitStatus=, SuccessExitStatus=)"
        )
        return [bad(text, f"{edit}: [Service] RestartPreventExitStatus= and SuccessExitStatus= without these")]
    return [bad(text, f"{edit}: [Service] Restart=on-failure")]


def _words(settings: Mapping[str, list[str]], key: str) -> set[str]:
    return {word for value in settings.get(key, ()) for word in value.split()}


def _changed(service: ServiceUnit, files: Sequence[str], agent: Running) -> list[CheckResult]:
    """A unit that was changed after the start is not proven to start: its user or devices may be wrong."""
    if agent.started is None:
        text = f"the agent's start time is hidden, so {service.unit} may have changed since"
        return [unseen(text, AS_ROOT)]
    later = [path for path in files if agent.since(path)]
    if not later:
        return []
    if ahead := [path for path in later if is_ahead(path)]:
        text = f"{service.unit} has files with a date in the future ({', '.join(ahead[:3])}): the clock was wrong then, so it is not proven that it still starts"
        return [bad(text, f"`sudo touch {shlex.join(ahead)}`, then {service.systemctl('restart')}, proves it")]
    text = f"{service.unit} was changed after the agent was started ({', '.join(later[:3])}), so it is not proven that it still starts"
    return [bad(text, f"{service.systemctl('restart')} proves it")]


def _not_at_boot(
    service: ServiceUnit, unit_files: Units, uid: int | None, environ: Mapping[str, str]
) -> list[CheckResult]:
    unit = service.unit
    if not unit_files.path(unit):
        text = f"{unit}, which runs it, has no unit file that survives a boot"
        return [bad(text, install(environ))]
    for folders in (unit_files, units(environ, uid, fleeting=True)):
        if folders.masked(unit):
            text = f"{unit} is masked ({folders.path(unit)}), so nothing can start it"
            return [bad(text, service.systemctl("unmask"))]
    target = unit_files.boots_into()
    if not unit_files.starts_at_boot(unit) and unit_files.starts_at_boot(unit, "multi-user.target"):
        text = f"{unit} is enabled, but this machine boots into {target}, which does not start it"
        return [bad(text, "`sudo systemctl set-default multi-user.target`")]
    if not unit_files.starts_at_boot(unit):
        text = f"{unit} is not enabled: nothing starts the guard after a reboot"
        return [bad(text, service.systemctl("enable"))]
    name = _home(uid)[0] if uid is not None else ""
    if uid is not None and not os.path.exists(f"/var/lib/systemd/linger/{name}"):
        text = f"{unit} belongs to {name or f'uid {uid}'}, whose services run only while that user is logged in"
        return [bad(text, f"`sudo loginctl enable-linger {name or uid}`")]
    return []


def run_options(words: list[str], variables: dict[str, str], python: str) -> list[str]:
    """The options of ``costguard run`` in a command line; raises UnclearError when it starts nothing, or something else.

    ``variables`` are those that it gets; env(1) adds to them. ``python`` is the agent's own: a ``costguard`` of another
    Python is another installation.
    """
    if os.path.basename(words[0]) == "env":
        _program(words[0], variables)
        words = words[1:]
        while words and "=" in words[0]:
            name, _, variables[name] = words[0].partition("=")
            words = words[1:]
    if not words:
        raise UnclearError("its ExecStart= names no program")
    program = _program(words[0], variables)
    name = os.path.basename(program)
    if name.startswith("python") and (module := _module(words)):
        words = words[module:]
    elif name != "costguard":
        raise UnclearError(f"its ExecStart= starts {words[0]}")
    if words[1:2] != ["run"]:
        raise UnclearError(f"its ExecStart= starts `{' '.join(words[:2])}`")
    if not same_python(found := python_of(program), python):
        runs = python or "an unknown Python"
        raise UnclearError(
            f"its ExecStart= starts {program} ({found or 'not a Python program'}), but the agent runs on {runs}"
        )
    return words[2:]


def _module(words: list[str]) -> int:
    """Where ``costguard`` stands in ``python -m costguard``, also after options that take no value; 0: nowhere."""
    for number, word in enumerate(words[1:], 1):
        if word == "-m":
            return number + 1 if words[number + 1 :][:1] == ["costguard"] else 0
        if not word.startswith("-") or word.startswith(("-c", "-W", "-X", "--")):
            return 0
    return 0


def _program(name: str, variables: Mapping[str, str]) -> str:
    path = shutil.which(name, path=variables.get("PATH") or SEARCHED)
    if path is None:
        raise UnclearError(
            f"{name} does not exist" if os.path.isabs(name) else f"{name} is not in systemd's search path"
        )
    return path


def _container(number: str, docker: str, environ: Mapping[str, str]) -> CheckResult:
    try:
        hosted = json.loads(text_of(f"{docker}/containers/{number}/hostconfig.json", 1 << 20))
        policy = str(hosted["RestartPolicy"]["Name"])
    except (ValueError, KeyError, TypeError):
        policy = ""
    name = f"docker container {number[:12]}"
    if policy in RESTARTS and units(environ).starts_at_boot("docker.service"):
        return ok(f"{name} runs it, and docker starts it at every boot (restart policy {policy})")
    if policy in RESTARTS:
        text = f"{name} runs it, but docker itself does not start at boot"
        return bad(text, "`sudo systemctl enable docker`")
    if not policy:
        text = f"it runs in {name}, whose restart policy is unknown from inside"
        return bad(text, OUTSIDE)
    text = f"{name} runs it with the restart policy {policy}: nothing restarts it after a reboot"
    return bad(text, f"`docker update --restart unless-stopped {number[:12]}`")


def _group(path: str) -> str:
    """The control group; with cgroup v1, the one in systemd's own tree."""
    lines = [line.split(":", 2) for line in text_of(path).splitlines()]
    by_kind = {parts[1]: parts[2] for parts in lines if len(parts) == 3}
    return by_kind.get("name=systemd") or by_kind.get("") or next(iter(by_kind.values()), "")


def _home(uid: int) -> tuple[str, str]:
    """Name and home of a local user; a directory service on the network could hang."""
    rows = [line.split(":") for line in text_of("/etc/passwd", 1 << 20).splitlines()]
    return next(((row[0], row[5]) for row in rows if len(row) > 5 and row[2] == str(uid)), ("", ""))
