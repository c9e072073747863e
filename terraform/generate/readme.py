"""The tables of inputs and outputs of a module's README, read from its Terraform files."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

BEGIN = "<!-- BEGIN written by `make docs`; changes here are lost -->"
END = "<!-- END -->"
_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)


class Entry(NamedTuple):
    """One variable or output."""

    kind: str
    name: str
    description: str
    type: str
    default: str


def entries(source: str) -> Iterator[Entry]:
    """Those of a module, in the order of its files. Each attribute stands on a line, as `terraform fmt` leaves it."""
    for kind, name, body in _BLOCK.findall(source):
        quoted = _attribute(body, "description")
        if not quoted.startswith('"'):
            raise ValueError(f"{kind} {name} has no description on one line")
        text = json.loads(quoted.replace("$${", "${").replace("%%{", "%{"))
        yield Entry(kind, name, text, _attribute(body, "type"), _attribute(body, "default"))


def _attribute(body: str, name: str) -> str:
    found = re.search(rf"^  {name}\s*= (.*)$", body, re.MULTILINE)
    return found[1] if found else ""


def fill(page: str, source: str) -> str:
    """The page with its tables between the marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"a README lacks the marks {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables(source)}\n{END}{tail}"


def tables(source: str) -> str:
    """Inputs and outputs as Markdown."""
    found = list(entries(source))
    lines = ["## Inputs", "", "| name | type | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{one.name}` | `{one.type}` | {f'`{one.default}`' if one.default else 'required'} | {_cell(one.description)} |"
        for one in found
        if one.kind == "variable"
    ]
    lines += ["", "## Outputs", "", "| name | meaning |", "|---|---|"]
    lines += [f"| `{one.name}` | {_cell(one.description)} |" for one in found if one.kind == "output"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
