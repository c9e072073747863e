"""Every time that people read has its zone, or stands on a page that names one for all."""

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from costguard.agent.loop import Loop
from costguard.cli.history_view import overview
from costguard.cli.main import main
from costguard.cli.render import console, show
from costguard.cli.status_view import view
from costguard.cli.zone import adopt
from costguard.history.query import Day
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective

BARE = re.compile(r"\b\d\d:\d\d(?!:)\b(?! NPT)")


@pytest.fixture(autouse=True)
def _nepal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone that is not that of any clock of a cloud."""
    monkeypatch.setenv("TZ", "NPT-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Heard(Watch):
    """Lines of the journal and messages as people get them."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def said(self, now: Instant, line: str) -> None:
        self.texts.append(line)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        text = compose(str(message["kind"]), {"machine": "box", **message["facts"]})
        self.texts.append(f"{text.title}\n{text.body}")


def test_sentences_messages_and_status_name_the_zone() -> None:
    """Beside each other, in the journal and on a terminal, nobody has to guess which clock is meant."""
    heard = Heard()
    host = SimHost(Machine(gpus=2, script=[Phase(9**9, 0.0)]), until=4000.0, watch=heard)
    config = effective({"kill_duration": 1800.0, "arm_duration": None, "mode": "live", "grace": 3000.0})
    loop = Loop(host, config, host.start())

    def look() -> None:
        file = io.StringIO()
        screen = console(file)
        show(screen, view(loop.status(), screen))
        heard.texts.append(" ".join(file.getvalue().split()))

    def ask(uid: int, question: dict[str, Any]) -> None:
        host.request(uid, question)

    host.world.at(60.0, lambda: ask(1001, {"command": "hold", "seconds": 86000.0, "reason": "x"}))
    host.world.at(90.0, look)
    host.world.at(1000.0, lambda: ask(0, {"command": "release"}))
    host.world.at(1200.0, look)
    host.world.at(2500.0, look)
    loop.run()
    timed = [text for text in heard.texts if "NPT" in text]
    assert len(timed) >= 5
    assert not [text for text in heard.texts if BARE.search(text)]


def test_a_page_of_times_names_its_zone_once(tmp_path: Path) -> None:
    """History and replay: columns of times, and above them which zone it is."""
    file = io.StringIO()
    show(console(file), overview("/h", 1.79e9, [Day("2026-11-20", 9.0, 7200.0, 0.0, 720.0)], [], []))
    assert "(all times local, NPT)" in file.getvalue()
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "timestamp, index, utilization.gpu [%]\n2026/11/20 10:00:00, 0, 1 %\n2026/11/20 10:00:10, 0, 1 %\n"
    )
    heading = CliRunner().invoke(main, ["replay", str(trace)]).stdout.splitlines()[0]
    assert heading.endswith("times are local, NPT")


@pytest.mark.parametrize(
    ("zone", "shown"),
    [("UTC0", "UTC"), ("CET-1CEST,M3.5.0,M10.5.0/3", "CET"), ("../etc/shadow", "NPT"), (":/etc/shadow", "NPT"), (":CET-1CEST,M3.5.0,M10.5.0/3", "CET"), (":UTC", "UTC"), (7, "NPT"), (None, "NPT")],
)  # fmt: skip
def test_what_stands_beside_the_agent_s_sentences_is_in_its_zone(zone: object, shown: str) -> None:
    """A service runs in UTC, and whoever asks does not; an answer of another user's agent names no file."""
    adopt({"agent": {"zone": zone}})
    assert time.strftime("%Z", time.localtime(1.79e9 + 86400.0 * 120)) == shown
