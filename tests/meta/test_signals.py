"""A signal of the GPU that is added is explained on its page, and the stand-in answers it."""

import re
from pathlib import Path

import costguard.testing.nvml
from costguard.readers.nvml import library
from costguard.readers.nvml.library import Nvml
from costguard.testing.nvml import Values

ROOT = Path(__file__).parents[2]
PACKAGE = Path(costguard.testing.nvml.__file__).parents[2]
SIGNALS = (ROOT / "docs/signals.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs/testing-nvml.md").read_text(encoding="utf-8")
STANDIN = (Path(costguard.testing.nvml.__file__).parent / "standin.c").read_text(encoding="utf-8")

EXPLAINED = {
    "rates": "GPU use",
    "samples": "ring of samples",
    "samples_at_rest": "ring of samples",
    "engines": "encoder, decoder, JPEG engine and OFA",
    "engines_below": "encoder, decoder, JPEG engine and OFA",
    "energy": "energy counter",
    "power": "mean power",
    "power_limits": "power limit",
    "memory_used": "memory",
    "mig": "divided (MIG)",
    "instances": "instance",
    "processes": "compute, graphics or MPS process",
    "process_use": "use by process",
    "counters": "byte counters",
    "gpm_supported": "activity counters (GPM)",
    "gpm_sample": "activity counters (GPM)",
    "gpm_metrics": "activity counters (GPM)",
}
"""Each call of `Nvml` that tells something about a GPU, and the words under which docs/signals.md has it."""

NO_SIGNAL = {
    *("shutdown", "count", "open_index", "open_address", "open_uuid", "same", "index", "address", "name", "uuid"),
    "temperature",  # for the summary of `costguard stress`
    "context_pids",  # whose a GPU is, for `costguard fill`: docs/fill.md
    *("gpm_buffer", "gpm_give_back", "engine_calls"),
}
"""Calls that find a GPU, or lend what another call needs."""

SPELT = {"processes": "process", "gpm_metrics": "gpm_metric", "instances": "instance", "counters": "counter"}
"""Values of `Script.set` that take several lines of the script, and the name of such a line."""


def test_every_call_is_explained_on_the_page() -> None:
    """What is read of a GPU, and what it means, stands in docs/signals.md."""
    calls = {name for name in vars(Nvml) if not name.startswith("_")}
    new = calls - EXPLAINED.keys() - NO_SIGNAL
    assert not new, f"say in docs/signals.md what {sorted(new)} means, and give its words there in EXPLAINED"
    gone = (EXPLAINED.keys() | NO_SIGNAL) - calls
    assert not gone, f"readers/nvml/library.py has no call {sorted(gone)}: take it out of EXPLAINED and NO_SIGNAL"
    page = " ".join(SIGNALS.split())
    missing = {name: words for name, words in EXPLAINED.items() if words not in page}
    assert not missing, f"docs/signals.md does not have these words: {missing}"


def test_every_call_is_made() -> None:
    """A call that is explained and answered by every driver of the tests, and that no reader makes, says nothing of a GPU."""
    others = "\n".join(
        file.read_text(encoding="utf-8")
        for file in PACKAGE.rglob("*.py")
        if file != Path(library.__file__) and "nvml." in file.read_text(encoding="utf-8")
    )
    idle = {name for name in EXPLAINED.keys() | NO_SIGNAL if not re.search(rf"nvml\.{name}\b", others)}
    assert not idle, f"read {sorted(idle)} in costguard/readers/nvml/gpu.py"


def test_the_stand_in_answers_every_call() -> None:
    """A call that the stand-in does not have would be tested as one that no driver has."""
    source = Path(library.__file__).read_text(encoding="utf-8")
    asked = {name for name in re.findall(r"\bnvml[A-Z]\w+", source) if name not in {"nvmlLib", "nvmlDeviceGet"}}
    there = re.findall(r"\b(nvml[A-Z]\w+)\(", STANDIN)
    bare = {re.sub(r"_v\d$", "", name) for name in there}
    assert len(asked) > 20
    missing = {name for name in asked if re.sub(r"_v\d$", "", name) not in bare}
    assert not missing, f"give {sorted(missing)} an answer in costguard/testing/nvml/standin.c"


def test_every_value_of_the_stand_in_is_read_and_on_its_page() -> None:
    """What a test sets, the library in C reads, and docs/testing-nvml.md names."""
    for value in Values.__annotations__:
        line = SPELT.get(value, value)
        known = f'"{line}"' in STANDIN
        assert known, f"costguard/testing/nvml/standin.c reads no line `{line}`"
        assert re.search(rf"`[^`\n]*\b{line}\b[^`\n]*`", TESTING), f"docs/testing-nvml.md does not name `{line}`"


def test_every_line_that_the_stand_in_reads_can_be_set() -> None:
    """A value that only the library in C knows is set by no test."""
    table = STANDIN[STANDIN.index("static void gpu_line") : STANDIN.index("static void script_line")]
    lines = set(re.findall(r'\{"(\w+)", &g->', table))
    assert len(lines) > 10
    missing = lines - {SPELT.get(value, value) for value in Values.__annotations__}
    assert not missing, f"add {sorted(missing)} to Values in costguard/testing/nvml/script.py"
