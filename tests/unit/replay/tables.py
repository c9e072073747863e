"""Tables as people might have them, most of them in order, some of them not."""

import gzip
import random
from datetime import datetime, timedelta, timezone

ZONES = {"": None, "Z": timezone.utc, "+00:00": timezone.utc, "+05:30": timezone(timedelta(hours=5.5))}  # noqa: UP017 - the same


def plain_table(seed: int) -> bytes:
    """A recording of some GPUs, in any of the formats that the fast reader knows."""
    dice = random.Random(seed)
    lines = _rows(dice, plain=True)
    if seed % 3 == 0:
        lines[1:] = [line for row in lines[1:] for line in (lines[0], row)]
    if seed % 3 == 1:
        lines[-1] = lines[-1][: dice.randint(1, lines[-1].index(",") + 1)]
    content = ("\n".join(lines) + "\n" * (seed % 3 != 1)).encode()
    return gzip.compress(content) if seed % 5 == 0 else content


def any_table(seed: int) -> bytes:
    """A recording of some GPUs, in any of the formats and with any of the faults that the standard reader knows."""
    dice = random.Random(seed)
    lines = _rows(dice)
    if dice.random() < 0.3:
        _spoil(dice, lines)
    text = dice.choice(["\n", "\n", "\r\n"]).join(lines) + "\n"
    if dice.random() < 0.2:
        text = text[: -dice.choice([1, 2, 5, 9])]
    packed = dice.random() < 0.1
    content = (b"\xef\xbb\xbf" if dice.random() < 0.05 else b"") + text.encode()
    return gzip.compress(content) if packed else content


def _rows(dice: random.Random, *, plain: bool = False) -> list[str]:
    gpus, ticks = dice.choice([1, 1, 2, 3, 8]), dice.choice([2, 30, 300])
    step, digits = dice.choice([10.0, 10.0, 1.0, 0.1, 60.0]), dice.choice([0, 3, 3, 6])
    step = step if digits else max(step, 1.0)  # a clock that is read more often than it moves shows one time for many
    kind, zone = dice.choice(["smi", "smi", "iso", "seconds", "milliseconds"]), dice.choice(list(ZONES))
    names = ["timestamp", *dice.sample(["name", "memory.used [MiB]"], dice.randint(0, 2))]
    if gpus > 1 or dice.random() < 0.5:
        names.append(dice.choice(["index", "index", "uuid", "pci.bus_id"]))
    engines = ["utilization.encoder [%]", "utilization.decoder [%]"] if dice.random() < 0.2 else []
    names += ["utilization.gpu [%]", *engines]
    if dice.random() < 0.3:
        dice.shuffle(names)
    nameless = dice.random() < 0.1 and gpus > 1 and ticks > 2  # two are no rhythm
    if nameless:
        names = [name for name in names if name not in {"index", "uuid", "pci.bus_id"}]
    comma, unit = dice.choice([", ", ","]), dice.choice([" %", " %", "", "%"])
    rough = dice.choice([0, 0, 0.01] if plain else [0, 0, 0.01, 0.3]) if digits else 0
    fine, lost = dice.random() < 0.2, dice.choice([0, 0, 0.01])
    lines = [comma.join(names)] if plain or dice.random() < 0.9 else []
    at, busy, left = 1.75e9 + dice.randrange(10**7), True, 0
    for _ in range(ticks):
        if left <= 0:
            busy, left = not busy, dice.choice([3, 20, 100])
        left -= 1
        at += step + rough * (dice.random() - 0.5)
        for gpu in range(gpus):
            load = (
                f"{dice.uniform(0, 100):.2f}"
                if fine
                else str(dice.randint(50, 100) if busy else dice.choice([0, 0, 3]))
            )
            cells = {
                "timestamp": _time(kind, at + 0.001 * gpu * (digits >= 3), digits, zone),
                "name": "NVIDIA A100",
                "memory.used [MiB]": f"{dice.randint(0, 9)} MiB",
                "index": str(gpu),
                "uuid": f"GPU-{gpu}",
                "pci.bus_id": f"00000000:{gpu:02X}:00.0",
                "utilization.gpu [%]": "[N/A]" if dice.random() < lost else load + unit,
                "utilization.encoder [%]": dice.choice(["0 %", "[N/A]", "40 %"]),
                "utilization.decoder [%]": dice.choice(["0 %", "7 %"]),
            }
            lines.append(comma.join(cells[name] for name in names))
    return lines


def _time(kind: str, at: float, digits: int, zone: str) -> str:
    if kind == "seconds":
        return f"{at:.{digits}f}"
    if kind == "milliseconds":
        return f"{at * 1000:.0f}"
    when = datetime.fromtimestamp(at, ZONES[zone] if kind == "iso" else None)
    fraction = f".{when.microsecond:06}"[: digits + 1] if digits else ""
    if kind == "smi":
        return f"{when:%Y/%m/%d %H:%M:%S}{fraction}"
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"


def _spoil(dice: random.Random, lines: list[str]) -> None:
    """What happens to files: headers again, rows that are missing, twice, in another order, empty, wrong."""
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(1, len(lines))
        match dice.choice(
            ["header", "headers", "gone", "twice", "swapped", "empty", "wrong", "missing", "blank", "quoted"]
        ):
            case "header":
                lines.insert(place, lines[0])
            case "headers":
                lines[1:] = [line for row in lines[1:] for line in (lines[0], row)]
            case "gone":
                del lines[place:]
            case "twice":
                lines.insert(place, lines[place])
            case "swapped":
                lines[place - 1], lines[place] = lines[place], lines[place - 1]
            case "empty":
                lines.insert(place, "")
            case "wrong":
                lines[place] = lines[place].replace("0", "x", 1)
            case "missing":
                del lines[place]
            case "blank":
                lines[place] += " "
            case _:
                lines[place] = lines[place].replace("NVIDIA A100", '"NVIDIA, A100"')
        if len(lines) < 3:
            return
