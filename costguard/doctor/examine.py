"""The whole examination: everything that must hold so that this machine is guarded."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import costguard
from costguard import holders
from costguard.agent.config_checksum import checksum
from costguard.config.here import Absent
from costguard.config.options import OPTIONS
from costguard.config.values import FORMS
from costguard.doctor import decision, hardware, messages, package, senses, service, tasks
from costguard.doctor.finding import CheckResult, Level, Report, ReportSection, Verdict, bad, note, ok, unseen, warn
from costguard.doctor.plans import BootTimes, PlanShown, plan_checks, plans
from costguard.engine.words import duration, hanging, several
from costguard.host.control import OWNERS_SOCKET, SOCKET

HANGS_SECONDS = 60.0
"""An agent without a look for this long, and for three intervals, counts as hanging."""

DEFAULT_PLACES = {"procfs": "/proc", "sysfs": "/sys", "devfs": "/dev"}


class AgentAnswer(NamedTuple):
    """The agent's status, or why there is none (``problem``). ``silent``: an agent runs but does not answer."""

    report: Mapping[str, Any] | None
    problem: str
    hint: str
    silent: bool = False


class Configuration(NamedTuple):
    """The effective configuration that `run` would use, or its problems. ``mode_from``: the line that sets the mode.

    ``absent``: what it names that is not on this machine. ``denied``: this user may not read all of it, so the problems may be no others'.
    """

    effective: Mapping[str, Any] | None
    problems: tuple[str, ...]
    source: str
    mode_from: str = ""
    absent: tuple[Absent, ...] = ()
    denied: bool = False


Loader = Callable[[Sequence[str], Mapping[str, str]], Configuration]
"""Loads a configuration as `run` does, from its command-line options and its environment."""

DRY = "mode is dry-run: it warns and does nothing else"


def examine(configuration: Configuration, agent: AgentAnswer, environ: Mapping[str, str], as_run: Loader) -> Report:
    """Check everything. Takes some seconds, or half a minute when a driver hangs."""
    effective = judged(configuration, agent)
    places = _places(effective, agent)
    bus = hardware.look(places)
    # with an agent its own readings are shown: a second reader could hang too, or keep the driver from unloading
    answer = hardware.probe(places) if agent.report is None and bus.present is not False else {}
    seen = decision.gpus(agent.report, answer)
    scan = holders.scan(places["procfs"])
    planned = plans(effective, agent.report) if not agent.silent else []
    rules = effective if not agent.silent else {}  # what a silent agent would decide is unknown
    by_minor = _gpu_names(holders.addresses(places["procfs"]), seen)
    task = tasks.task_of(agent.report)  # whose guard no service brings back: it ends with the task
    by = service.NOBODY if agent.report is not None or agent.silent else service.installed(environ)
    if agent.report is not None and task is None:
        by = service.look(agent.report["agent"]["pid"], places["procfs"], environ)
    sections = (
        ReportSection("Package", tuple(package.checks(sys.path, environ))),
        ReportSection("Configuration", tuple(_configuration(configuration, agent, effective, by))),
        ReportSection("Agent", tuple(_agent(agent, by))),
        ReportSection("Task", tuple(tasks.checks(agent.report, seen))),
        ReportSection("After a boot", tuple(_after_boot(agent, by, as_run))),
        ReportSection("Hardware", tuple(hardware.checks(bus, places, read=bool(seen)))),
        ReportSection("GPUs", tuple(_gpus(seen, answer, bus, effective, by))),
        ReportSection("Processes on GPUs", tuple(_holders(scan, by_minor))),
        ReportSection("Senses", tuple(senses.checks(agent.report, rules, places["procfs"]))),
        ReportSection("Actions", tuple(_plans(planned, _actions(effective), agent))),
        ReportSection("Messages", tuple(messages.checks(effective, places, agent.report))),
        ReportSection("Decision", tuple(decision.checks(agent.report, rules, answer))),
    )
    missing, hidden = _texts(sections, "bad"), _texts(sections, "unseen")
    dry = bool(effective) and not agent.silent and effective["policy"]["mode"] != "live"
    facts = {
        "gpus": seen,
        "holders": [{**holder._asdict(), "gpus": [by_minor(m) for m in holder.minors]} for holder in scan.holders],
        "action": next(iter(_actions(effective)), None),
        "task": task,
        "plans": [plan._asdict() for plan in planned],
        "hidden_processes": scan.hidden,
        "agent": agent.report["agent"] if agent.report else None,
        "unit": by.unit or None,
        "reached": not any(
            check.text.startswith(messages.UNHEARD)
            for section in sections
            if section.name == "Messages"
            for check in section.checks
        ),
        "sentence": decision.sentence(agent.report, rules, answer),
    }
    verdict = _verdict(missing=bool(missing), hidden=bool(hidden), dry=dry)
    return Report(verdict, ((DRY,) if dry else ()) + missing + hidden, sections, facts)


def _texts(sections: Sequence[ReportSection], level: Level) -> tuple[str, ...]:
    return tuple(check.text for section in sections for check in section.checks if check.level == level)


def _verdict(*, missing: bool, hidden: bool, dry: bool) -> Verdict:
    if missing:
        return "NOT GUARDED"
    if hidden:
        return "CANNOT TELL"
    return "WOULD BE GUARDED" if dry else "GUARDED"


def _places(effective: Mapping[str, Any], agent: AgentAnswer) -> dict[str, str]:
    """Where the host's files are: as configured, else as the agent has them."""
    host = effective.get("host") or (agent.report["agent"]["place"]["host"] if agent.report else {})
    return {**DEFAULT_PLACES, **{name: where for name, where in host.items() if name in DEFAULT_PLACES}}


def judged(given: Configuration, agent: AgentAnswer) -> Mapping[str, Any]:
    """What decides about this machine: the rules of a running agent, else the file's; empty when there is neither.

    Everything but the rules is the file's in both cases.
    """
    effective = given.effective or {}
    if agent.report is None:
        return effective
    return {**effective, "policy": agent.report["policy"]}


def _plans(planned: Sequence[PlanShown], actions: Sequence[str], agent: AgentAnswer) -> Iterator[CheckResult]:
    if agent.silent:
        yield note("unknown while the agent does not answer")
        return
    report = agent.report or {}
    yield from plan_checks(planned, actions, BootTimes(report.get("time", time.time()), report.get("started")))


def _configuration(
    given: Configuration, agent: AgentAnswer, effective: Mapping[str, Any], by: service.ServiceUnit
) -> Iterator[CheckResult]:
    report = agent.report
    check = f"`costguard config check {given.source}`" if given.source else "`costguard config check`"
    if given.denied:
        yield unseen(f"this user may not read the configuration ({given.source})", service.AS_ROOT)
        return
    if given.effective is None:
        level: Level = "warn" if report and by.options is not None else "bad"
        goes_on = "; the agent keeps its present one, but would not start again" if report else ""
        yield CheckResult(level, f"the configuration has problems{goes_on}:", f"after a correction: {check}")
        for problem in given.problems:
            yield note(problem)
        return
    yield ok(f"valid: {given.effective.get('origin') or given.source or 'the built-in defaults'}")
    for one in given.absent:
        what = f"{one.words}, so nothing would be saved before a stop" if one.saves else one.words
        yield CheckResult("bad" if one.saves else "warn", what, f"put it there, or correct {one.option}; then {check}")
    if report and (report["agent"]["source"] or "") != given.source:
        running = report["agent"]["source"] or "no file"
        yield note(f"the agent uses {running}", "use the same options for doctor as for `run`")
    if report and (others := unlike(report["agent"], given.effective)):
        text = f"the agent's values differ from this configuration: {'; '.join(others)}"
        hint = f"load it: {_reload(by, report)}; or use the same options for doctor as for `run`"
        yield warn(text, hint)
    if agent.silent:
        return
    if effective["policy"]["mode"] == "live":
        yield ok("mode is live: decisions are carried out")
    else:
        file = given.mode_from if given.mode_from.startswith("/") else given.source
        where = f'set mode = "live" in {file}' if file else "run with --live"
        yield warn(DRY, f"{where}, then {_reload(by, report)}" if file and report else where)


def _reload(by: service.ServiceUnit, report: Mapping[str, Any]) -> str:
    return by.systemctl("reload") if by.unit else f"`kill -HUP {report['agent']['pid']}`"


def _after_boot(agent: AgentAnswer, by: service.ServiceUnit, as_run: Loader) -> Iterator[CheckResult]:
    """Whether the guard comes back with the same rules."""
    yield from by.checks
    if agent.report is None:
        return
    if by.options is None:
        return
    about = agent.report["agent"]
    again = as_run(by.options, by.variables)
    if again.denied:
        yield unseen(f"this user may not read what {by.unit} would start with ({again.source})", service.AS_ROOT)
        return
    if again.effective is None:
        text = f"{by.unit} would not start again: its configuration has problems"
        yield bad(
            text,
            f"correct {'it' if len(again.problems) == 1 else 'them'}; until it ends, the agent keeps its present configuration",
        )
        for problem in again.problems:
            yield note(problem)
        return
    if others := unlike(about, again.effective):
        text = f"{by.unit} would start with other values than the agent's: {'; '.join(others)}"
        yield bad(text, f"load and check them: {_reload(by, agent.report)}")
        return
    if not about.get("digest"):
        text = "this user may not see whether it would start with the same actions, messages, hooks and paths"
        yield unseen(text, f"{service.AS_ROOT}, and so can the agent's user")
    else:
        yield ok(f"it would start with the same configuration: {again.effective.get('origin') or 'the defaults'}")
    if again.effective["policy"]["mode"] != "live":
        live = as_run((*by.options, "--mode", "live"), by.variables)
        if live.effective is None:
            yield bad("it would not start in live mode: the configuration is valid only for a dry run", "correct it")
            for problem in live.problems:
                yield note(problem)


def unlike(about: Mapping[str, Any], written: Mapping[str, Any]) -> list[str]:
    """Where an agent's configuration differs from another one."""
    found = differences(about.get("configured") or {}, written["policy"])
    if not found and about.get("digest") not in {None, checksum(written)}:
        return ["something other than the rules (actions, messages, hooks, paths)"]
    return found


_UNITS = {path.removeprefix("deadline.").replace(".", "_"): option.unit for path, option in OPTIONS.items()}
"""The unit of each rule, by its name."""


def differences(runs: Mapping[str, Any], written: Mapping[str, Any]) -> list[str]:
    """Where the agent's rules differ from those of a configuration, by name."""
    return [
        f"{name} is {_written(name, runs[name])}, not {_written(name, written[name])}"
        for name in sorted(runs.keys() & written.keys())
        if _plain(runs[name]) != _plain(written[name])
    ]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _written(name: str, value: object) -> str:
    if value is None:
        return "off"
    form = FORMS.get(_UNITS.get(name.removesuffix("_until"), ""))
    return form(value) if form and isinstance(value, int | float) else repr(_plain(value))


def _agent(agent: AgentAnswer, by: service.ServiceUnit) -> Iterator[CheckResult]:
    report = agent.report
    if report is None:
        yield bad(
            agent.problem, f"start the service: {by.systemctl('start')}; then {by.journal}" if by.unit else agent.hint
        )
        return
    about = report["agent"]
    silent = about["now"] - about["ticked"]
    if silent > max(HANGS_SECONDS, 3.0 * about["interval"]):
        restart = by.systemctl("restart") if by.unit else f"kill it (`kill -9 {about['pid']}`) and start it again"
        hint = f"{restart}; for the cause: {by.journal}"
        yield bad(f"the agent (pid {about['pid']}) hangs: it last looked {duration(silent)} ago", hint)
    else:
        ago = f"looked {duration(silent)} ago, every {about['interval']:g} s"
        yield ok(f"costguard {about['version']} runs, pid {about['pid']}, {ago}; state in {about['state_dir']}")
    if about["version"] != costguard.__version__:
        again = by.systemctl("restart") if by.unit else "start it again"
        text = f"the agent runs costguard {about['version']}, and this is {costguard.__version__}"
        yield warn(text, f"{again} after an upgrade")
    yield from _doors(about["runtime_dir"], by)
    yield from _rented(about.get("cloud") or {})
    for subject, words in about["troubles"].items():
        if subject == tasks.TROUBLE:
            continue  # has a section of its own
        text = words if words.startswith(subject) else f"{subject}: {words}"
        if subject == "nvml":
            yield bad(text, hardware.advice(words))
        else:
            yield warn(text, f"see {by.journal}")
    if about["reader"] != "answers" and "nvml" not in about["troubles"]:
        yield bad(f"the GPU reader: {about['reader']}", hardware.advice(str(about["reader"])))
    if about["unreaped"]:
        text = hanging(about["unreaped"])
        yield warn(text, hardware.advice("hang"))


def _doors(runtime: str, by: service.ServiceUnit) -> Iterator[CheckResult]:
    """An agent of an older version has one socket for all; where its folder is not in sight, nothing is said."""
    common, own = (os.path.exists(os.path.join(runtime, name)) for name in (SOCKET, OWNERS_SOCKET))
    if common and not own:
        hint = f"{by.systemctl('restart')} after an upgrade" if by.unit else "start it again after an upgrade"
        yield warn("a user who fills the queue of its control socket keeps root's commands waiting, too", hint)


def _rented(cloud: Mapping[str, Any]) -> Iterator[CheckResult]:
    """The machine's identity in its cloud, as far as its metadata service told it."""
    who, price = cloud.get("identity"), cloud.get("price")
    if not who:
        return
    place = who["zone"] or who["region"]
    text = f"{cloud['cloud']}: {who['instance']}, {who['type'] or 'of unknown type'} in {place}"
    if price:
        text += f"; about {price['amount']:.2f} {price['currency']} an hour (list price of {price['date']})"
    yield ok(text)


def _gpus(
    seen: Sequence[Mapping[str, Any]],
    answer: Mapping[str, Any],
    bus: hardware.Hardware,
    effective: Mapping[str, Any],
    by: service.ServiceUnit,
) -> Iterator[CheckResult]:
    if answer.get("error"):
        words = str(answer["error"])
        yield CheckResult("warn" if seen else "bad", f"no GPU can be read: {words}", hardware.advice(words))
    for gpu in seen:
        if gpu["known"]:
            yield ok(f"{gpu['label']}: {gpu['words']}")
        else:
            tolerated = effective.get("policy", {}).get("unknown_stop_after") is not None
            text = f"{gpu['label']} cannot be read ({gpu['words']}), and unknown is never idle"
            yield CheckResult("warn" if tolerated else "bad", text, hardware.advice(str(gpu["words"])))
    if not seen and not answer.get("error") and bus.present is not False:
        yield bad("no GPU has been read yet", f"check again in a minute, then {by.journal}")


def _holders(scan: holders.Scan, by_minor: Callable[[int], str]) -> Iterator[CheckResult]:
    for holder in scan.holders:
        held = ", ".join(by_minor(minor) for minor in holder.minors)
        where = f" in {holder.place}" if holder.place else ""
        watching = "; it only watches" if holder.monitor else ""
        yield note(f"{held}: pid {holder.pid} {holder.name} of {holder.user}{where}{watching}")
    if not scan.holders:
        yield note("no visible process holds a GPU")
    if scan.hidden:
        text = f"{several(scan.hidden, 'process', 'processes')} of other users cannot be inspected"
        yield note(text, "`sudo costguard doctor` sees them all")
    if not scan.complete:
        yield note("too many processes: not all were inspected", "`sudo fuser -v /dev/nvidia*`")


def _actions(effective: Mapping[str, Any]) -> list[str]:
    policy = effective.get("policy")
    return list(dict.fromkeys((policy["kill_action"], *policy["fallback"]))) if policy else []


def _gpu_names(addresses: Mapping[int, str], seen: Sequence[Mapping[str, Any]]) -> Callable[[int], str]:
    """The name of each GPU for people, by the minor number of its device file."""
    labels = {str(gpu["key"]): str(gpu["label"]) for gpu in seen}

    def name(minor: int) -> str:
        address = addresses.get(minor)
        return labels.get(address, address) if address else f"/dev/nvidia{minor}"

    return name
