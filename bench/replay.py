"""How fast recordings are read and judged: both readers, and twenty policies side by side."""

import os
import random
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from bench.world import GPUS
from costguard.engine.policy import Policy
from costguard.replay.compare import compare
from costguard.replay.formats import files

SESSIONS = 7000
"""Machines of a fleet, each with a short recording: a sample each 15 minutes."""

STEP = 10.0
MONTH = int(30 * 86400 / STEP)
"""Samples of a month."""

POLICIES = (
    *[f"kill_duration={minutes}m" for minutes in (10, 15, 20, 30, 45, 60, 90, 120, 180, 240)],
    "kill_duration=30m, window_rule=unbroken",
    "kill_duration=60m, window_rule=unbroken",
    "kill_duration=45m, window_share=5%",
    "kill_threshold=10%",
    "kill_threshold=20%, kill_duration=30m",
    "kill_duration=2h, unused_after=off, grace=5m",
    "kill_action=command, aggregate=any, kill_duration=30m",
    "deadline.lifetime=7d",
    "preset:gpu-sentinel",
    "preset:gpu-idle-timeout-any",
)


class Speed(NamedTuple):
    """Rows per second of CPU of each reader, and of the whole command with the fast one and one policy, by the clock.

    ``compared``: seconds that the comparison of twenty policies takes, and costs in CPU.
    """

    standard: float
    fast: float
    whole: float
    compared: float
    compared_cpu: float


def speed(folder: Path, samples: int, times: int) -> Speed:
    """The best of several runs, all of one recording: what else runs on the machine only makes them slower."""
    path = folder / "recording.csv"
    _write(path, samples)
    standard, fast, whole, compared = [], [], [], []
    for _ in range(times):
        standard.append(_read(path, "standard"))
        fast.append(_read(path, "fast"))
        whole.append(samples * GPUS / _command(path, "--reader", "fast")[0])
        compared.append(_command(path, *[part for policy in POLICIES for part in ("--policy", policy)]))
    return Speed(
        max(standard), max(fast), max(whole), min(wall for wall, _ in compared), min(cpu for _, cpu in compared)
    )


def fleet_speed(folder: Path, sessions: int, times: int) -> float:
    """Rows per second of CPU, read and counted in one process, of a fleet's many short recordings."""
    path = folder / "fleet.csv"
    _write_fleet(path, sessions)
    found = []
    for _ in range(times):
        start = time.process_time()
        with files.uncollected():
            recording = files.read(str(path), reader="standard")
            compare(recording.traces, [Policy()], lambda _share: None, read=False, processes=1)
        found.append(recording.rows / (time.process_time() - start))
    return max(found)


def _write_fleet(path: Path, sessions: int) -> None:
    """As a scheduler's accounting has it: sessions of some hours to some days, work with pauses, then often an idle rest."""
    dice = random.Random(1)
    with path.open("w") as file:
        file.write("session,node,n_gpus,ts_utc,max_gpu_util_floor_pct\n")
        for session in range(sessions):
            at, rows = 1_675_000_000 + dice.randint(0, 50_000_000), min(900, int(dice.expovariate(1 / 70)) + 5)
            left, loads = 0, [0]
            for row in range(rows):
                if left <= 0:
                    loads, left = (
                        dice.choice([[0], [20, 40, 60, 80], [20, 60, 80], [0, 80]]),
                        dice.choice([2, 5, 20, 60]),
                    )
                left -= 1
                at += 930 + dice.choice([0, 0, 0, -3, 4]) + (5000 if dice.random() < 0.003 else 0)
                load = 0 if row < 1 else dice.choice(loads)
                file.write(f"s{session:05},cn{session % 97:03},4,{at},{load}\n")


def _write(path: Path, samples: int) -> None:
    """As nvidia-smi writes it: training with its pauses, half of the GPUs in use, idle stretches with short bursts."""
    dice = random.Random(1)
    when, mode, left = datetime(2026, 1, 1), "work", 0  # noqa: DTZ001 - nvidia-smi writes local time
    with path.open("w") as file:
        file.write("timestamp, index, utilization.gpu [%]\n")
        for _ in range(samples):
            if left <= 0:
                mode, left = dice.choice(["idle", "work", "work", "partial"]), dice.randint(30, 2000)
            left -= 1
            date, late = f"{when:%Y/%m/%d %H:%M:%S}", 100 + dice.randint(0, 3)
            when += timedelta(seconds=STEP)
            for gpu in range(GPUS):
                file.write(f"{date}.{late + gpu}, {gpu}, {_load(dice, mode, gpu)} %\n")


def _load(dice: random.Random, mode: str, gpu: int) -> int:
    chance = dice.random()
    if mode == "idle":
        return 0 if chance > 0.002 else dice.randint(1, 20)
    if mode == "partial" and gpu >= GPUS // 4:
        return 0
    return dice.randint(60, 100) if chance > 0.03 else dice.randint(0, 10)


def _read(path: Path, reader: str) -> float:
    start = time.process_time()
    rows = files.read(str(path), reader=reader).rows
    return rows / (time.process_time() - start)


def _command(path: Path, *options: str) -> tuple[float, float]:
    """The whole command, its start and the reading with it: seconds, and seconds of CPU of all its processes."""
    start, before = time.monotonic(), os.times()
    subprocess.run(
        [sys.executable, "-m", "costguard", "replay", str(path), "--no-timeline", *options],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall, after = time.monotonic() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system
