"""The status for people: what the GPUs do, what keeps the machine up, what would stop it, who can change that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from costguard.cli import idle_cost
from costguard.cli.render import COLOURS, bar, clean, moment, percent, sentence
from costguard.engine.narrate import awaited, below, countdown_end, unreached
from costguard.engine.policy import Policy
from costguard.engine.reasons import OWN_REASONS, REASONS, Reason
from costguard.engine.rules import reached, rules_of
from costguard.engine.wording import WORDINGS, ActionWording, wording_of
from costguard.engine.words import duration, hanging
from costguard.engine.words import percent as share
from costguard.notify.job import HELD_BACK
from costguard.notify.words import gpus as joined
from costguard.plans import VERDICT_WORDS

Report = Mapping[str, Any]

ROWS = {reason.name: reason for reason in REASONS}
REFUSALS = {"refuse", "another"}
GOOD, BAD = "green", "red"

DAY = 86400.0
WISHES = {
    "": "under way",
    "acted": "done",
    "would": "dry run, it would have been done",
    "cannot": "refused",
    "failed": "failed and given up",
    "withdrawn": "cancelled, nothing was done",
    "unknown": "outcome unknown",
}
"""The outcome of a requested stop, by its code."""

NEW_HOLDS = "work on a GPU renews it"

LEFT_OUT_WHEN_BRIEF = frozenset(("Senses", "Plans", "Agent"))
"""What somebody who looks at a small screen can do without."""

NARROW = 70
"""Columns below which a table of GPUs does not fit."""


def view(report: Report, screen: Console, *, brief: bool = False, merged: bool = False) -> RenderableType:
    """The whole screen. ``brief``: a line for all GPUs that are alike, without their evidence, and no senses. ``merged``: for all in one state."""
    parts: list[RenderableType] = [sentence(report["sentence"], report["state"]), _rule(report), Text()]
    if report["gpus"]:
        parts += [_alike(report, merged=merged) if brief else _gpus(report, screen), Text()]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True, style="bold")
    facts.add_column(overflow="fold", ratio=1)
    for title, lines in _facts(report):
        if brief and title in LEFT_OUT_WHEN_BRIEF and not (title == "Plans" and _refused(report)):
            continue
        facts.add_row(title, Group(*lines))
    return Group(*parts, facts)


def wording(report: Report) -> ActionWording:
    """How to speak of what would be done, and to what."""
    return wording_of(report["action"], in_task=bool(report["agent"].get("task")))


def _rule(report: Report) -> Text:
    mode = "LIVE" if report["mode"] == "live" else f"DRY RUN, {wording(report).none}"
    below = f"{judged(report)} below {share(report['threshold'])} for {duration(report['window'])}"
    return Text(f"{mode} · {wording(report).word} after {below}", style="dim")


def judged(report: Report) -> str:
    """Whose load decides: every GPU's, any GPU's, or the mean."""
    policy = _policy(report)
    chosen = "selected GPU" if policy.gpu_devices and not policy.ends_machine else "GPU"
    return {"mean": f"the mean of the {chosen}s", "any": f"any {chosen}"}.get(policy.judges, f"every {chosen}")


def _policy(report: Report) -> Policy:
    """The agent's rules; of an agent of another version, the fields known here."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in report.get("policy", {}).items()
        if name in Policy._fields
    }
    return Policy(**given)


def _gpus(report: Report, screen: Console) -> RenderableType:
    if screen.width < NARROW:
        return Group(*(line for gpu in _rows(report) for line in _paragraph(gpu)))
    unicode = (screen.encoding or "").startswith("utf")
    width = 16 if screen.width >= 100 else 8
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", expand=False)
    table.add_column("GPU", overflow="fold", min_width=5)
    table.add_column("state", no_wrap=True)
    table.add_column("load", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("evidence", overflow="fold")
    for gpu in _rows(report):
        load = bar(gpu.load, width, gpu.colour, unicode=unicode)
        table.add_row(gpu.label, Text(gpu.state, style=gpu.colour), load, percent(gpu.load), gpu.evidence)
    return table


def _alike(report: Report, *, merged: bool) -> RenderableType:
    """One line for all GPUs in the same state with the same load; ``merged``: whatever their load, and since when they are in it."""
    alike: dict[tuple[str, ...], list[_Row]] = {}
    for gpu in _rows(report):
        key = (gpu.state.partition(" for ")[0],) if merged else (gpu.state, percent(gpu.load))
        alike.setdefault((*key, gpu.colour), []).append(gpu)
    table = Table.grid(padding=(0, 2, 0, 0))
    for (state, *_), rows in alike.items():
        of_all = {gpu.state for gpu in rows}  # one that is alone in its state keeps since when
        loads = sorted({gpu.load for gpu in rows if gpu.load is not None})
        load = " to ".join(dict.fromkeys(map(percent, (loads[0], loads[-1])))) if loads else percent(None)
        table.add_row(
            joined([gpu.label for gpu in rows]),
            Text(of_all.pop() if len(of_all) == 1 else state, style=rows[0].colour),
            load,
        )
    return table


class _Row(NamedTuple):
    label: str
    state: str
    colour: str
    load: float | None
    evidence: str


def _rows(report: Report) -> Iterator[_Row]:
    quiet = below(rules_of(_policy(report)))
    for gpu in report["gpus"]:
        state = {"quiet": quiet, "works": "busy"}.get(gpu["state"], str(gpu["state"]))
        since = f" for {duration(report['time'] - gpu['since'])}" if gpu["since"] is not None else ""
        evidence = ", ".join(map(clean, gpu["signs"])) or clean(gpu["words"])
        colour = COLOURS.get(str(gpu["state"]), "white")
        yield _Row(clean(gpu["label"]), state + since, colour, gpu["load"], evidence)


def _paragraph(gpu: _Row) -> Iterator[RenderableType]:
    """One GPU on a screen that is too narrow for a table."""
    load = "" if gpu.load is None else f", load {percent(gpu.load)}"
    yield Text(gpu.label)
    yield Padding(Text(gpu.state, style=gpu.colour) + Text(load), (0, 0, 0, 2))
    yield Padding(Text(gpu.evidence), (0, 0, 0, 2))


def _facts(report: Report) -> Iterator[tuple[str, list[RenderableType]]]:
    guarded = wording(report).guarded
    if task := report["agent"].get("task"):
        yield "Guards", [Text(clean(words)) for words in _guarded(task)]
    yield guarded.keeps, [Text(words) for words in keeps_up(report)]
    if seen := senses(report):
        yield "Senses", [Text(words, style="dim") for words in seen]
    if found := findings(report):
        yield "Notes", [Text(words) for words in found]
    yield guarded.would, [Text(words) for words in would_stop(report)]
    if words := idle_cost.words(report):
        yield "Idle cost", [Text(clean(words))]
    yield "Who decides", [Text(words) for words in who(report)]
    if report["plans"]:
        yield "Plans", [line for plan in report["plans"] for line in _plan(plan)]
    if words := wish(report):
        yield "Requested", [Text(words)]
    if problems := _problems(report):
        yield "Problems", [Text(words, style=BAD) for words in problems]
    yield "Agent", [Text(words, style="dim") for words in _agent(report)]


def _guarded(task: Report) -> Iterator[str]:
    """The task, and how its owner reaches, ends and starts it."""
    owner = f" of {task['owner']}" if task["owner"] else ""
    yield f"{task['words']}{owner} ({task['scheduler']})"
    advice = task["advice"]
    titles = {
        "reach": "from elsewhere: `{}`",
        "end": "to end it: {}",
        "show": "its state: {}",
        "again": "to start it again: {}",
    }
    yield from (
        title.format(advice[name].replace("{}", "costguard …")) for name, title in titles.items() if advice.get(name)
    )


def findings(report: Report) -> list[str]:
    """What the reader reports about a GPU, while it lasts."""
    gpus: Sequence[Report] = report["gpus"]
    return [f"{_short(gpu)}: {clean(gpu['finding_words'])}" for gpu in gpus if gpu.get("finding")]


def keeps_up(report: Report) -> list[str]:
    """Everything that keeps this machine, or this task, from being ended now."""
    gpus: Sequence[Report] = report["gpus"]
    lines = [f"held by {_hold(hold, report['time'])}" for hold in report["holds"]]
    lines += list(_vetoes(report))
    lines += [clean(report["lacking"])] if report.get("lacking") else []
    lines += _busy(report)
    if not gpus:
        lines.append("no GPU has been read yet")
    elif not lines and report["state"] == "STARTING":
        lines.append("it has just started and is left alone")
    elif not lines and report["state"] == "HELD":
        lines.append("an administrator's hold, or the cloud's own notice (see above)")
    elif not lines and not report["armed"]:
        lines.append("no work was seen since boot, so idle time does not count yet")
    if not lines:
        lines.append(f"nothing: {_idle(report)}")
    if report["mode"] != "live":
        lines.append(f"dry run: {wording(report).none}")
    return lines


def _vetoes(report: Report) -> Iterator[str]:
    """What readers object: what a sense sees as a sentence, with how long ago and what would end it."""
    seen = {(sense["name"], f"{one['who']} {one['what']}"): one["words"] for sense, one in _active(report)}
    vetoes = _counting(report)
    for veto in vetoes:
        words = seen.get((veto["source"], veto["reason"])) or f"{veto['source']}: {veto['reason']}"
        blocks = "; it blocks every stop" if veto.get("hatch") and (veto["source"], veto["reason"]) in seen else ""
        yield clean(words + (", and unknown is never idle" if veto.get("unknown") else blocks))
    kept = report.get("kept_since") is not None and report["phase"] == "WATCHING"
    if kept and any(_of_sense(veto, report) for veto in vetoes):
        yield f"without that, its warning would have come {duration(report['time'] - report['kept_since'])} ago"


def _counting(report: Report) -> list[Report]:
    """The vetoes that keep it up: not what senses see, once they have kept it up for as long as the owner wants at most."""
    since, most = report.get("kept_since"), _policy(report).kept_at_most
    over = since is not None and most is not None and reached(report["time"], since + most)
    return [veto for veto in report["vetoes"] if not over or veto.get("hatch") or not _of_sense(veto, report)]


def _of_sense(veto: Report, report: Report) -> bool:
    """Whether a sense objects, and not the owner by a tag or at boot."""
    return any(sense["name"] == veto["source"] for sense in report["agent"].get("senses", ()))


def _active(report: Report) -> Iterator[tuple[Report, Report]]:
    """Each sense that sees somebody, with whom."""
    return ((sense, one) for sense in report["agent"].get("senses", ()) for one in sense["active"])


def senses(report: Report) -> list[str]:
    """What each sense sees now, and what it cannot see."""
    lines = []
    for sense in report["agent"].get("senses", ()):
        words = "; ".join(one["words"] for one in sense["active"]) or sense["seen"]
        cannot = f"cannot see everything: {sense['unknown']}" if sense["unknown"] else ""
        lines.append(clean(f"{sense['name']}: {'; '.join(filter(None, (words, cannot)))}"))
    return lines


def _busy(report: Report) -> list[str]:
    """The GPUs that prevent a stop, by the load that decides."""
    gpus = [gpu for gpu in report["gpus"] if gpu.get("judged", True)] or report["gpus"]
    lost = [_short(gpu) for gpu in gpus if gpu["state"] == "unknown"]
    unknown = [f"{joined(lost)} cannot be read, and unknown is never idle"] if lost else []
    alike: dict[str, list[str]] = {}  # one line for all of which the same is said, so that all matters fits a screen
    for gpu in gpus:
        if gpu["state"] == "works":
            alike.setdefault(_by(report, gpu), []).append(_short(gpu))
    working = [f"{joined(names)} {'is' if len(names) == 1 else 'are'} busy{by}" for by, names in alike.items()]
    by = _policy(report).judges
    if by == "any":
        return [] if any(gpu["state"] == "quiet" for gpu in gpus) else [*working, *unknown]
    if by == "mean" and gpus and not unknown:
        mean = sum(gpu["load"] or 0.0 for gpu in gpus) / len(gpus)
        return [f"the mean of the GPUs is {percent(mean)}"] if mean >= report["threshold"] else []
    return unknown if by == "mean" else [*working, *unknown]


def _by(report: Report, gpu: Report) -> str:
    """That a GPU shows only a weak sign of work, and for how long."""
    if report.get("weak_since") is None or not gpu["signs"]:
        return ""
    return f", with only a weak sign of work for {duration(report['time'] - report['weak_since'])}: {clean(gpu['signs'][0])}"


def _idle(report: Report) -> str:
    """That no GPU prevents a stop, by the load that decides."""
    policy, limit = _policy(report), share(report["threshold"])
    if policy.judges == "any":
        return f"{', '.join(_short(gpu) for gpu in report['gpus'] if gpu['state'] == 'quiet')} below {limit}"
    return f"{judged(report)} is {below(rules_of(policy))}"


def would_stop(report: Report) -> list[str]:
    """The reasons that could stop this machine, each with its time."""
    now, incident, action = report["time"], report["incident"], wording(report).word
    if report["phase"] in {"DONE", "FAILED"} or (incident and report["phase"] != "WARNING"):
        return [f"{action}: see above"]
    if incident:
        reason = ROWS.get(incident["reason"])
        title = reason.title if reason else clean(incident["reason"])
        if incident["due"] is None:
            return [
                f"{action}, {duration(_policy(report).grace)} after the warning; reason: {title}; {_warning(report)}"
            ]
        unseen = [clean(veto["source"]) for veto in _counting(report) if veto.get("unknown")]
        sight = awaited(reason, unseen, dark=report["unknown_since"] is not None) if reason else ""
        when = countdown_end(incident["due"] - now, f"at {moment(incident['due'], now)}", sight)
        return [f"{action} {when}, reason: {title}{_told(incident)}"]
    lines = [f"{action} cannot be carried out now (see Plans)"] if _refused(report) else []
    coming = [
        (reason, report[f"{reason.name}_at"]) for reason in OWN_REASONS if report.get(f"{reason.name}_at") is not None
    ]
    lines += [_coming(reason, at, report) for reason, at in coming]
    if all(reason.by_date for reason, _at in coming):
        lines.append("nothing now; a GPU that is busy or cannot be read stops the clock")
    return lines


def _refused(report: Report) -> bool:
    """Whether the plan of the action says that it must not be carried out."""
    return any(plan["action"] == report["action"] and plan["verdict"] in REFUSALS for plan in report["plans"])


def _coming(reason: Reason, at: float, report: Report) -> str:
    """When one reason would warn people, and what would prevent that."""
    policy, now = _policy(report), report["time"]
    held = max([hold["until"] or 0.0 for hold in report["holds"]], default=0.0)
    soonest, free = max(at, held), "as soon as nothing else keeps it up"
    when = f"when the hold ends, at {moment(held, now)}" if at < held else f"at {moment(at, now)}"
    if soonest <= now:
        when = free
    elif any(veto.get("hatch") or reason.heeds_vetoes for veto in _counting(report)):
        when = f"{free}, at {moment(soonest, now)} at the earliest"
    if not reason.by_date:
        unless = ", unless work is seen before"
    else:
        unless = ", even during work" if policy.stop_busy else ", but not during work"
    return f"{reason.outlook(policy)}{_limit(report) if reason.by_date else ''}: warning {when}{unless}"


def _limit(report: Report) -> str:
    """Which limit the deadline is, and who moved it."""
    deadline = report.get("deadline")
    if not deadline:
        return ""
    extended = deadline.get("extended")
    reason = f": {clean(extended['reason'])}" if extended and extended["reason"] else ""
    by = f", moved by {clean(extended['owner'])}{reason}" if extended else ""
    return f" ({deadline['limit']}{by})"


def _warning(report: Report) -> str:
    """How far the warning has come."""
    tries = report["incident"].get("tries", 0)
    return (
        "it is being sent"
        if tries <= 1
        else f"it has reached nobody yet, try {tries} of {_policy(report).warn_attempts}"
    )


def _told(incident: Report) -> str:
    """Who got the warning; empty where none was needed or that is not known yet."""
    if incident.get("unreached"):
        return f"; {unreached(incident['tries'], clean(incident.get('reached') or ''))}"
    reached = clean(incident.get("reached") or "")
    if reached.startswith(HELD_BACK):
        return f"; the warning is {reached}"
    return f"; warned over {reached}" if reached else ""


def who(report: Report) -> list[str]:
    """Which command changes it, and for whom."""
    where = "where it runs" if report["agent"].get("task") else "of this machine"
    more = f"any user {where}: `costguard hold 2h --reason WHY` postpones it"
    if report.get("hold_left", 1.0) < 1.0:
        more = f"root: `costguard hold 2h`; users' hold time (hold.total) is used up; {NEW_HOLDS}"
    if report["phase"] in {"ACTING", "CONFIRMING"}:
        return ["nobody: it has already been requested"]
    if report["holds"]:
        return ["the owner of a hold, or root: `costguard release` ends it", more, *_past_deadline(report)]
    if report["phase"] in {"DONE", "FAILED"}:
        return ["root: `costguard release` makes it watch again; so does work on a GPU"]
    return [more, *_past_deadline(report)]


def _past_deadline(report: Report) -> list[str]:
    """How users may move the deadline, where there is one."""
    limit, deadline = _policy(report).extend_max, report.get("deadline")
    if not deadline or limit <= 0.0:
        return []
    moved = max((deadline.get("extended") or {}).get("until") or 0.0, deadline["at"], report["time"])
    if (more := deadline["at"] + limit - moved) < 60.0:
        return [
            "root: `costguard hold --past-deadline 2h` moves the deadline further; users have moved it as far as they may"
        ]
    return [f"any user: `costguard hold --past-deadline 2h` moves the deadline, by {duration(more)} at most"]


def _plan(plan: Report) -> Iterator[RenderableType]:
    good = plan["verdict"] in {"go", "consequences"}
    words = VERDICT_WORDS.get(plan["verdict"], plan["verdict"])
    named = wording_of(plan["action"]).word if plan["action"] in WORDINGS else clean(plan["action"])
    yield Text(f"{named}: {words}", style=GOOD if good else BAD)
    for _code, text, hint in plan["findings"]:
        yield Padding(Text(clean(text)), (0, 0, 0, 2))
        if hint:
            yield Padding(Text(f"-> {clean(hint)}", style="cyan"), (0, 0, 0, 2))


def wish(report: Report) -> str:
    """The outcome of a stop that a person requested within the last day; empty when there was none."""
    last, now = report.get("wish"), report["time"]
    if not last or now - (last["ended"] or now) > DAY:
        return ""
    asked = f"{clean(last['owner'])} requested a stop at {moment(last['asked'], now)}"
    detail = f" ({clean(last['words'])})" if last["words"] else ""
    again = "; to retry: `costguard stop`" if last["fate"] in {"failed", "withdrawn"} else ""
    return f"{asked}: {WISHES.get(last['fate'], clean(last['fate']))}{detail}{again}"


def _hold(hold: Report, now: float) -> str:
    until = moment(hold["until"], now, exact=True) if hold["until"] is not None else "an unknown time"
    reason = clean(hold["reason"])
    return f"{clean(hold['owner'])} until {until}" + (f": {reason}" if reason else "")


def _problems(report: Report) -> list[str]:
    agent = report["agent"]
    words = [f"{clean(subject)}: {clean(text)}" for subject, text in agent["troubles"].items()]
    silent = agent["now"] - agent["ticked"]
    if silent > max(60.0, 3 * agent["interval"]):
        words.append(f"the agent last looked {duration(silent)} ago")
    if report["gpus"] and agent["reader"] != "answers" and "nvml" not in agent["troubles"]:
        words.append(f"the GPU reader: {clean(agent['reader'])}")
    if agent["unreaped"]:
        words.append(f"{hanging(agent['unreaped'])}; a reboot ends that")
    return words


def _agent(report: Report) -> Iterator[str]:
    agent = report["agent"]
    count = agent["reader_restarts"]
    restarts = f", GPU reader restarted {'once' if count == 1 else f'{count} times'}" if count else ""
    ago = duration(agent["now"] - agent["ticked"])
    yield f"costguard {agent['version']}, pid {agent['pid']}; last look {ago} ago, every {agent['interval']:g} s{restarts}"
    cloud = agent.get("cloud") or {}
    if who := cloud.get("identity"):
        place = who["zone"] or who["region"]
        yield f"machine: {clean(cloud['cloud'])} {clean(who['instance'])}, {clean(who['type'])} in {clean(place)}"
    if words := cost(report):
        yield words
    yield f"settings: {agent.get('origin') or agent['source'] or 'the built-in defaults'}"
    if relaxed := agent.get("milder"):
        shown = [f"{name} {_setting(name, value)}" for name, value in relaxed.items()]
        yield f"relaxed by instance tags: {', '.join(shown)}"
    yield f"state: {agent['state_dir']}"


def cost(report: Report) -> str:
    """What the machine costs; empty when no price is known."""
    price = idle_cost.rate_of(report)
    return clean(f"price (estimate): {price.hourly}") if price else ""


def _setting(name: str, value: float | None) -> str:
    if value is None:
        return "off"
    return f"{value:.3g}" if name == "kill_threshold" else duration(value)


def _short(gpu: Report) -> str:
    return clean(gpu["label"]).split(" (", 1)[0]
