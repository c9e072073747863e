"""The files of the Terraform modules that come from costguard's own code are those that it would write today."""

import json
import re
from pathlib import Path

import pytest

from costguard.config.options import OPTIONS, Option
from costguard.notify.delivery import LOCAL_CHANNELS
from terraform.generate import files, options, readme, variables

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", files.generated())
def test_it_is_written_from_the_code(path: str) -> None:
    """Options, rights and the tables of the READMEs; `make docs` writes them again."""
    assert (ROOT / path).read_text(encoding="utf-8") == files.generated()[path], "run `make docs`"


def takes(path: str, text: str) -> bool:
    """As the module judges a value."""
    row = options.row(OPTIONS[path])
    items = [text] if row["kind"] not in {"list", "command"} else [item for item in text.split(",") if item]
    return not row["pattern"] or all(re.fullmatch(str(row["pattern"]), item) for item in items)


@pytest.mark.parametrize("channel", LOCAL_CHANNELS)
def test_a_channel_of_the_machine_is_known(channel: str) -> None:
    """It may be chosen, and a channel beyond the machine that took its name would be refused there: nothing would guard it."""
    assert takes("notify.local", channel), (
        f"no item of notify.local may be {channel}: see LocalChannel of config/types.py"
    )
    names = re.search(r"!contains\((\[.*?\]), name\)", (ROOT / "terraform/aws/settings.tf").read_text(encoding="utf-8"))
    assert names
    assert channel in json.loads(names[1]), f"terraform/aws/settings.tf does not know {channel}: run `make docs`"


def written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("path", files.packages())
def test_it_is_packed_from_its_source(path: str) -> None:
    """What runs in the cloud is what stands in the repository."""
    assert (ROOT / path).read_bytes() == files.packages()[path], "run `make docs`"


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_a_default_and_an_example_are_taken(option: Option) -> None:
    """A plan refuses nothing that the agent takes."""
    assert takes(option.path, written(option.example))
    assert option.default == "" or takes(option.path, written(option.default))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("grace", "ten"), ("grace", ""), ("grace", "off"), ("grace", "1s1h"), ("grace", "5 minutes"), ("grace", "-1m"),
        ("kill_threshold", "7"), ("kill_threshold", "120%"), ("kill_threshold", "70 percent"), ("mode", "Live"), ("mode", "dry_run"),
        ("price_per_hour", "much"), ("price_per_hour", "-3"), ("currency", "euro"), ("deadline.lease", "2027-01-31"),
        ("deadline.lease", "tomorrow"), ("heartbeat.url", "beat.example.org"), ("heartbeat.url", "https://me:pw@beat.example.org"),
        ("sink.token_file", "token"), ("fallback", "shutdown,pause"), ("gpu_devices", "first"), ("notify.local", "mail"),
        ("notify.attempts", "many"), ("heartbeat.tag", "yes"), ("notify.channels.NAME.urls", "slack://a/b/c"),
        ("notify.channels.NAME.kinds", "alarms"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_by_the_plan(path: str, text: str) -> None:
    """Before a machine that costs money starts with it."""
    assert not takes(path, text)


def test_patterns_are_those_of_terraform() -> None:
    """RE2 knows no looking ahead, no references back, and at most a thousand repetitions."""
    for path, option in OPTIONS.items():
        pattern = str(options.row(option)["pattern"])
        assert not re.search(r"\(\?[=!<P]|\\[1-9]", pattern), path
        assert all(int(most or 0) <= 1000 for _, most in re.findall(r"\{(\d+),?(\d*)\}", pattern)), path


def test_a_readme_names_every_variable_and_output() -> None:
    """A description that the generator cannot read is an error, not a gap."""
    found = list(readme.entries('variable "a" {\n  description = "x $${y}"\n  type        = string\n}\n'))
    assert found == [readme.Entry("variable", "a", "x ${y}", "string", "")]
    with pytest.raises(ValueError, match="has no description"):
        list(readme.entries('output "b" {\n  value = 1\n}\n'))
    with pytest.raises(ValueError, match="lacks the marks"):
        readme.fill("# a page\n", "")


def test_what_most_people_set_has_a_variable() -> None:
    """Each of them is an option, once."""
    assert len(set(variables.COMMON)) == len(variables.COMMON)
    assert set(variables.COMMON) <= OPTIONS.keys()
