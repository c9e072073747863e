"""A real recording of senses: what each of them was worth is what really happened. `record_story` says how it was made."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from costguard.cli.main import main

STORY = Path(__file__).with_name("senses.trace")
RULES = ("interval=2s", "kill_duration=30s", "grace=0s", "arm_duration=off", "boot_grace=0s")
BYTES = 60_000


def replayed(path: Path) -> dict[str, tuple[int, int]]:
    """Of each sense the stops that it prevented, rightly and wrongly."""
    rules = [word for rule in RULES for word in ("--set", rule)]
    done = CliRunner().invoke(main, ["replay", str(path), "--json", *rules])
    assert done.exit_code == 0, done.output
    (policy,) = json.loads(done.stdout)["policies"]
    return {one["sense"]: (one["right"], one["wrong"]) for one in policy["senses"]}


def test_a_recording_says_what_each_sense_was_worth() -> None:
    """Ann typed, and a cell ran, before the GPU worked again; after the download nobody used it for long."""
    assert replayed(STORY) == {"terminals": (1, 0), "jupyter": (1, 0), "traffic": (0, 1)}


@pytest.mark.parametrize("sense", ["terminals", "jupyter", "traffic"])
def test_without_a_sense_its_stop_is_not_prevented(tmp_path: Path, sense: str) -> None:
    """The others prevent what they did: each is counted alone."""
    lines = []
    for line in STORY.read_text().splitlines():
        value = json.loads(line)
        if isinstance(value, dict) and "senses" in value:
            value["senses"] = [row for row in value["senses"] if row[0] != sense]
        lines.append(json.dumps(value))
    path = tmp_path / "less.trace"
    path.write_text("\n".join([*lines, ""]))
    found = replayed(path)
    assert sense not in found
    assert {name: found[name] for name in found} == {
        name: worth for name, worth in replayed(STORY).items() if name != sense
    }


def test_it_tells_nothing_of_the_machine_that_it_was_made_on() -> None:
    """Names of the story's own users alone, and it is small."""
    text = STORY.read_text()
    assert len(text) < BYTES
    said = {row[1] for line in text.splitlines() if '"senses"' in line for row in json.loads(line)["senses"]}
    assert said == {
        "ann on pts/2 typed", "the network received more than 100 kB/s", "kernel python3 of ann's Jupyter was busy",
        "cannot be seen: not yet seen", "cannot be seen: ann's Jupyter refuses the connection",
    }  # fmt: skip
