"""Recordings made on the spot, of the shapes that people have."""

import random
from array import array
from collections.abc import Sequence

from costguard.engine import Device, Known, Policy, Unknown
from costguard.replay.trace import ReadingCodes, Trace, steps_of

START = 1_750_000_000.0

ROOMY = Policy(kill_duration=600.0, grace=60.0, boot_grace=0.0, arm_duration=60.0, unused_after=None)
"""Ten minutes of idleness, a minute of warning, armed by a minute of work."""


def trace(*columns: Sequence[float | None], step: float = 10.0, times: Sequence[float] | None = None) -> Trace:
    """One machine; a column of loads for each GPU, None where it could not be read."""
    palette = ReadingCodes()
    codes = [
        [palette.number(Unknown("not read") if load is None else Known(load)) for load in column] for column in columns
    ]
    when = array("d", times or [START + step * k for k in range(len(columns[0]))])
    return Trace(
        "made",
        tuple(Device(f"gpu{i}", i) for i in range(len(columns))),
        when,
        tuple(palette.pack(column) for column in codes),
        tuple(palette.readings),
        steps_of(when),
    )


def restless(seed: int, samples: int) -> Trace:
    """Work and pauses of every length, flicker, holes, GPUs that cannot be read, signs of work, evidence that reaches back."""
    dice = random.Random(seed)
    gpus, step = dice.choice([1, 3]), dice.choice([10.0, 10.0, 90.0])
    noise, lost, hole = dice.choice([0, 0.01, 0.1, 0.4]), dice.choice([0, 0, 0.002]), dice.choice([0, 0, 0.003])
    palette = ReadingCodes()
    columns: list[list[int]] = [[] for _ in range(gpus)]
    times: list[float] = []
    at, left, unread = START, 0, [0] * gpus
    mode = "idle"
    for _ in range(samples):
        if left <= 0:
            mode, left = dice.choice(["idle", "work", "idle", "partial"]), dice.choice([5, 30, 100, 400])
        left -= 1
        at += step * dice.choice([1, 1, 1.01, 0.99, dice.choice([2, 5, 400]) if dice.random() < hole else 1])
        times.append(at)
        for gpu in range(gpus):
            unread[gpu] = (
                unread[gpu] - 1 if unread[gpu] else dice.choice([1, 5, 100, 900]) if dice.random() < lost else 0
            )
            load = 0 if mode == "idle" or (mode == "partial" and gpu) else dice.choice([60, 70, 75, 85, 99])
            if dice.random() < noise:
                load = 0 if load else dice.choice([4, 5, 6, 30, 90])
            signs = ("power 90 W above idle",) if dice.random() < 0.0005 else ()
            seen = Known(load / 100, signs, dice.choice([0.0, 12.0]))
            columns[gpu].append(palette.number(Unknown("lost") if unread[gpu] else seen))
    when = array("d", times)
    devices = tuple(Device(f"gpu{i}", i) for i in range(gpus))
    return Trace("made", devices, when, tuple(map(palette.pack, columns)), tuple(palette.readings), steps_of(when))


def readable(seed: int) -> Trace:
    """A short recording in which every GPU could always be read: work, pauses, bursts, holes, samples of one time.

    Times are sums of powers of two, so that moments that are equal in theory are equal to the last bit.
    """
    dice = random.Random(seed)
    gpus, step = dice.choice([1, 1, 1, 2, 3]), dice.choice([10.0, 10.0, 60.0, 90.0, 900.0])
    noise, hole = dice.choice([0, 0.01, 0.1, 0.4]), dice.choice([0, 0.003, 0.03])
    palette = ReadingCodes()
    columns: list[list[int]] = [[] for _ in range(gpus)]
    times: list[float] = []
    at, left, mode = START, 0, "idle"
    for _ in range(dice.choice([1, 2, 5, 20, 70, 300])):
        if left <= 0:
            mode, left = dice.choice(["idle", "work", "idle", "partial"]), dice.choice([1, 2, 5, 30, 100])
        left -= 1
        at += step * dice.choice([1, 1, 1.015625, 0.984375, dice.choice([0, 2, 5, 400]) if dice.random() < hole else 1])
        times.append(at)
        for gpu in range(gpus):
            load = 0 if mode == "idle" or (mode == "partial" and gpu) else dice.choice([60, 70, 75, 85, 99])
            if dice.random() < noise:
                load = 0 if load else dice.choice([4, 5, 6, 30, 90])
            signs = ("power 90 W above idle",) if dice.random() < 0.002 else ()
            columns[gpu].append(palette.number(Known(load / 100, signs)))
    when = array("d", times)
    devices = tuple(Device(f"gpu{i}", i) for i in range(gpus))
    return Trace("made", devices, when, tuple(map(palette.pack, columns)), palette.whole, steps_of(when))


def plain_policy(seed: int) -> Policy:
    """Any policy that needs no engine to be counted, with windows of whole buckets."""
    policy = any_policy(seed)
    return policy._replace(
        aggregate=policy.aggregate if policy.ends_machine else "all",
        gpu_devices=(),
        lifetime=None,
        lease_until=None,
        budget=None,
        admin_hold="",
        unused_after=random.Random(seed).choice([None, 240.0, 600.0, 14400.0]),
    )


def any_policy(seed: int) -> Policy:
    """Every rule that a replay knows, in any combination."""
    dice = random.Random(seed)
    return Policy(
        arm_threshold=dice.choice([0.05, 0.5, 0.8]),
        arm_duration=dice.choice([None, 0.0, 30.0, 60.0, 600.0]),
        kill_threshold=dice.choice([0.01, 0.05, 0.2, 0.7]),
        kill_duration=dice.choice([30.0, 60.0, 300.0, 600.0, 3600.0]),
        window_rule=dice.choice(["share", "unbroken"]),
        window_share=dice.choice([0.01, 0.05, 0.2]),
        aggregate=dice.choice(["all", "any", "mean"]),
        kill_action=dice.choice(["stop", "command", "end_process"]),
        grace=dice.choice([0.0, 5.0, 600.0]),
        boot_grace=dice.choice([0.0, 60.0, 1200.0]),
        unused_after=dice.choice([None, 200.0, 600.0, 14400.0]),
        unknown_alarm=dice.choice([60.0, 900.0]),
        unknown_stop_after=dice.choice([None, None, None, 1000.0]),
        delay=dice.choice([0.0, 0.0, 55.0]),
        lifetime=dice.choice([None, None, 8000.0]),
        lease_until=dice.choice([None, None, None, START + 6000.0]),
        budget=dice.choice([None, None, None, 10.0]),
        budget_period=dice.choice([5000.0, 30 * 86400.0]),
        price_per_hour=10.0,
        admin_hold=dice.choice(["", "", "", "", "", "", "", "not now"]),
        stop_busy=dice.choice([True, False]),
        stop_below_load=dice.choice([True, False]),
        gpu_devices=dice.choice([(), (), (), ("1",), ("0", "2"), ("7",)]),
    )
