"""The sentence says which load decides."""

import re
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.cli.status_view import keeps_up
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective


class Heard(Watch):
    """The facts of the last message of each kind."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.facts[str(message["kind"])] = message["facts"]


def said(aggregate: str, action: str, *loads: float) -> str:
    """The sentence after ten minutes of work and ten of these loads, at a threshold of 70 %."""
    phases = [Phase(600, (0.9, 0.9)), Phase(3600, loads)]
    rules = {"aggregate": aggregate, "kill_action": action, "kill_threshold": 0.7, "arm_threshold": 0.5}
    host = SimHost(Machine(gpus=2, script=phases), until=1200.0)
    loop = Loop(host, effective({"stop_below_load": True, **rules}), host.start())
    loop.run()
    return str(loop.last.sentence)


@pytest.mark.parametrize(
    ("aggregate", "action", "loads", "cause", "end"),
    [
        (
            "mean",
            "end_process",
            (0.9, 0.1),
            "the mean of the GPUs is below 70 % for",
            "the mean of the GPUs reaches 70 %",
        ),
        ("mean", "end_process", (0.9, 0.8), "the mean of the GPUs is not below 70 %", "work is never stopped"),
        ("any", "end_process", (0.9, 0.1), "GPU 1 below 70 % for", "unless every GPU is busy"),
        ("any", "end_process", (0.9, 0.8), "GPU 0 and GPU 1 are busy", "work is never stopped"),
        ("mean", "shutdown", (0.9, 0.1), "GPU 0 is busy", "work is never stopped"),
        ("all", "end_process", (0.1, 0.1), "both GPUs below 70 % for", "unless work is seen"),
    ],
)
def test_the_sentence_names_the_load_that_decides(
    aggregate: str, action: str, loads: tuple[float, float], cause: str, end: str
) -> None:
    """What is seen and what would end the countdown, in terms of the mean, of any GPU, or of every one."""
    words = said(aggregate, action, *loads)
    assert words.startswith(f"ARMED: {cause}")
    assert end in words


def test_a_hold_until_tomorrow_has_a_date() -> None:
    """The sentence names the hold that ends last, and a time of day alone would be today's."""
    host = SimHost(Machine(gpus=1, script=[Phase(600, 0.0)]), until=120.0)
    loop = Loop(host, effective(), host.start())

    def ask(uid: int, seconds: float) -> None:
        host.request(uid, {"command": "hold", "seconds": seconds})

    host.world.at(60.0, lambda: ask(1001, 86400.0))
    host.world.at(90.0, lambda: ask(1002, 600.0))
    loop.run()
    words = str(loop.last.sentence)
    assert re.search(r"held by uid 1001 and 1 other until 20\d\d-\d\d-\d\d \d\d:\d\d \S+\.", words), words


def test_without_a_warning_time_nobody_is_promised_one() -> None:
    """A grace of 0 reads *at once*, not *0s later*."""
    host = SimHost(Machine(gpus=1, script=[Phase(600, 0.9), Phase(3600, 0.0)]), until=1200.0)
    loop = Loop(host, effective(grace=0.0, kill_action="end_process", boot_grace=0.0), host.start())
    loop.run()
    words = str(loop.last.sentence)
    assert "the exit of costguard at once, unless" in words
    assert "0s later" not in words


def test_a_gpu_that_does_not_exist_is_told_by_its_name() -> None:
    """Not as one that cannot be read for 0 s, for ever: which name fits no GPU, which GPUs there are, what to correct."""
    phases = [Phase(7200, (0.0, 0.0))]
    heard = Heard()
    host = SimHost(Machine(gpus=2, script=phases), until=1800.0, watch=heard)
    loop = Loop(host, effective({"gpu_devices": ("0", "7"), "kill_action": "command"}), host.start())
    loop.run()
    words = str(loop.last.sentence)
    assert "no GPU matches 7 in gpu_devices; there are 0, 1" in words
    assert "no command until every name in gpu_devices matches a GPU" in words
    assert "cannot be read" not in words
    report = loop.status()
    assert report["lacking"] in keeps_up(report)
    text = compose("unknown_alarm", {"machine": "box", **heard.facts["unknown_alarm"]})
    assert "gpu_devices names a GPU that does not exist" in text.title
    assert "No GPU matches 7 in gpu_devices" in text.body
    assert "correct `gpu_devices`" in text.body
    assert "nreadable" not in text.body
