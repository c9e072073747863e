"""docs/json.md lists every field of every answer for programs, and no other."""

import functools
import json
import os
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from costguard.agent.loop import Loop
from costguard.cli.answer import SCHEMAS
from costguard.cli.main import VERBS, main
from costguard.config.paths import resolve
from costguard.history import store
from costguard.host.control import SOCKET
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective, sensing
from costguard.testing.simworld import SimOff
from tests.json_page import PAGE, fields, listed
from tests.unit.cli.test_examples import GPU_MON
from tests.unit.history.conftest import NOW, batch

OF_ACCEPTED = {"receipt.*"}
"""What only an accepted stop has: seen with a cloud, in tests/e2e/test_stop.py, as is `verify`; `stress` needs a GPU: tests/e2e/test_stress.py."""


def answered(*typed: str, code: int = 0, **environment: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, list(typed), env=environment)
    assert done.exit_code == code, done.output
    text = done.stdout
    return [json.loads(line) for line in text.splitlines()] if text.startswith('{"') else [json.loads(text)]


class Answers(Watch):
    """What the agent says to whoever asks for its status."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        said = json.loads(answer)
        if "sentence" in said:
            self.reports.append(said)


def reports() -> list[dict[str, Any]]:
    """What an agent says in many states: held, quiet, warning, asked to stop, with a veto and a price."""
    heard = Answers()
    for hatch in ("", "costguard=off"):
        host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.0)]), until=6000.0, watch=heard)
        rules = {"price_per_hour": 2.0, "kill_duration": 1800.0, "arm_duration": None, "mode": "live", "lifetime": 9e5}
        config = sensing(effective(rules), "terminals")
        ann = {"terminals": [("ann on pts/3", "typed")]}
        host.world.at(80.0, functools.partial(host.world.activities.update, ann))
        host.world.at(1010.0, host.world.activities.clear)
        loop = Loop(host, config, host.start()._replace(hatch=hatch))
        asked: list[tuple[float, dict[str, Any]]] = [
            (60.0, {"command": "hold", "seconds": 600.0, "reason": "x"}),
            (70.0, {"command": "hold", "seconds": 600.0, "reason": "x", "past_deadline": True}),
            (90.0, {"command": "status"}),
            (1000.0, {"command": "status"}),
            (2000.0, {"command": "status"}),
            (2010.0, {"command": "stop"}),
            (2011.0, {"command": "status"}),
        ]

        def ask(question: dict[str, Any], host: SimHost = host) -> None:
            host.request(0, question)

        for at, question in asked:
            host.world.at(at, functools.partial(ask, question))
        with suppress(SimOff):
            loop.run()
    return heard.reports


@contextmanager
def agent(folder: Path, report: dict[str, Any]) -> Iterator[None]:
    """A stand-in for an agent: it answers every request on the real socket."""
    runtime = Path(resolve(str(folder), os.environ).runtime)
    runtime.mkdir(parents=True, exist_ok=True)

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = json.loads(self.rfile.readline())
            said = report if asked["command"] == "status" else {"done": True, "words": "done"}
            self.wfile.write(json.dumps(said).encode() + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(runtime / SOCKET), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            (runtime / SOCKET).unlink()
            runtime.rmdir()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Real answers of every verb."""
    folder = tmp_path_factory.mktemp("json")
    found: dict[str, list[dict[str, Any]]] = {}

    def keep(*typed: str, code: int = 0) -> None:
        for answer in answered(*typed, code=code):
            form = str(answer["schema"]).removeprefix("costguard.").partition("/")[0]
            found.setdefault(form, []).append(answer)

    state = ("--state-dir", str(folder))
    for report in reports():
        with agent(folder, report):
            keep("status", "--json", *state)
            if report["holds"]:
                keep("hold", "2h", "--json", *state)
                keep("hold", "--past-deadline", "2h", "--json", *state)
                keep("release", "--json", *state)
    events = [["x-i0", NOW - 600.0, "phase", json.dumps({"from": "WARNING", "to": "DONE", "done": "would"})], ["x-i1", 1.79e9, "told", json.dumps({"effect": "m1", "name": "closed", "facts": {
        "price_per_hour": 2.0, "currency": "EUR", "saved": 2.0, "stopped_wall": 1.79e9 - 3600.0, "started_wall": 1.79e9}})],
        ["", 1.79e9, "lost", json.dumps({"rows": 1})], ["", 1.79e9, "keeps", json.dumps({"sense": "terminals", "who": "ann"})]]  # fmt: skip
    store.save(batch(folder / "history.sqlite", events=events))
    keep("history", "--json", "--since", "2026-01-01", *state)
    keep("history", "last", "--json", *state)
    trace = folder / "trace.csv"
    rows = [f"2026/11/20 {10 + i // 60:02}:{i % 60:02}:00, 0, {90 if i < 60 or i > 580 else 0} %" for i in range(600)]
    trace.write_text("\n".join(["timestamp, index, utilization.gpu [%]", *rows]) + "\n")
    keep("replay", str(trace), "--json", "--price", "2", "--set", "kill_duration=30m")
    lines: list[object] = [{"costguard_trace": 1, "began": 1.79e9, "interval": 10.0}, {"gpus": [{"key": "gpu0"}]}]
    lines += [{"at": 0.0, "senses": [["terminals", "ann on pts/3 typed", False, False, ""]]}, [0.0, 0.9], [10.0, 0.0]]
    own = folder / "own.trace"
    own.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    keep("replay", str(own), "--json")
    keep("config", "check", "--json")
    keep("config", "check", "--json", "--set", "grace=soon", code=2)
    keep("config", "show", "--json")
    keep("permissions", "--json")
    keep("permissions", "aws", "--json")
    keep("permissions", "kubernetes", "--json")
    keep("permissions", "aws", "--secret", "team", "--json")
    here = ("--set", "cloud.provider=none", "--json", *state)
    keep("stop", "--action", "shutdown", "--yes", *here, code=3)
    keep("doctor", *here, code=1)
    channel = ("--set", "notify.local=[]", "--set", "notify.channels.team.urls=env:NOT_SET")
    keep("notify", "test", *channel, "--json", *state, code=1)
    keep("demo", "--json")
    (folder / "gpu_mon.conf").write_text(f"{GPU_MON}[other]\n")
    keep("import", "gpu-mon", str(folder / "gpu_mon.conf"), "--json")
    return found


def test_the_page_lists_every_form_and_no_other() -> None:
    """A form that is new, gone or of another version changes the page."""
    differing = sorted(set(listed()) ^ set(SCHEMAS))
    assert not differing, f"SCHEMAS of cli/answer.py and the sections of docs/json.md differ in {differing}"


def test_every_answer_is_named_and_has_the_fields_of_the_page(samples: dict[str, list[dict[str, Any]]]) -> None:
    """Both ways: no field that the page does not list, and none that never comes."""
    missing = set(SCHEMAS) - set(samples) - {"verify", "stress"}
    assert not missing, f"keep a real answer of {sorted(missing)} among the samples of this file"
    for form, answers in samples.items():
        for answer in answers:
            assert next(iter(answer)) == "schema"
        found, page = fields(form, answers), listed()[form]
        assert found - page == set(), f"not in docs/json.md, section {form}: {sorted(found - page)}"
        never = page - found - (OF_ACCEPTED if form == "stop" else set())
        assert not never, f"in docs/json.md, section {form}, and in no answer: {sorted(never)}"


def _options(command: click.Command, path: str) -> Iterator[tuple[str, bool]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _options(inner, f"{path} {name}")
    else:
        yield path, any("--json" in option.opts for option in command.params)


def test_every_verb_with_json_has_its_section() -> None:
    """A verb that learns --json without a row here is named; one that prints data without it stays deliberate."""
    verbs = dict(_options(main, "costguard"))
    broken = VERBS.keys() ^ {path.split()[1] for path in verbs}
    assert not broken, f"no command is behind these lines in VERBS of cli/main.py: {sorted(broken)}"
    without = {path.removeprefix("costguard ") for path, has in verbs.items() if not has}
    (line,) = re.findall(r"^Without `--json`: (.*)$", PAGE, re.MULTILINE)
    listed_without = set(re.findall(r"`([a-z ]+)`", line))
    differing = sorted(without ^ listed_without)
    assert not differing, f"name {differing} in the line *Without `--json`* of docs/json.md, or give it that option"
    for path in (path for path, has in verbs.items() if has):
        section = rf"^`{path}[^`]*--json`"
        assert re.search(section, PAGE, re.MULTILINE), f"docs/json.md has no section that begins with `{path} --json`"
