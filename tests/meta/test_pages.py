"""Pages for operators: complete, and every command and link in them is real."""

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import costguard
import costguard_aws
import costguard_azure
import costguard_gcp
from costguard.cli.main import VERBS, main
from costguard.notify.compose import _KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = [Path(str(module.__file__)).parent for module in (costguard, costguard_aws, costguard_azure, costguard_gcp)]
PAGES = sorted(path for path in DOCS.glob("*.md"))
TYPED = sorted(
    {
        (page.name, line.partition(" #")[0].partition(" > ")[0].strip())
        for page in PAGES
        for block in re.findall(r"```(?:console|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for line in block.splitlines()
        if re.match(r"(sudo )?costguard ", line)
    }
)


def test_every_kind_of_message_is_explained() -> None:
    """What it means, and what to do: whoever is woken by one finds it, and no other."""
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    kinds = [kind for kind, _means, _do in rows]
    assert sorted(kinds) == sorted(_KINDS), f"rows of docs/operations.md: {sorted(set(kinds) ^ _KINDS.keys())}"
    assert all(means and do for _kind, means, do in rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in headings(file), f"{page.name}: {target}#{anchor}"


def headings(page: Path) -> set[str]:
    """The anchors that a browser gets for its headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(("page", "line"), TYPED)
def test_every_command_is_taken_as_it_is_written(page: str, line: str) -> None:
    """Verb, options and values; a word in capitals stands for one of the reader's."""
    words = shlex.split(line.replace("CLOUD", "aws"))
    words = words[words.index("costguard") + 1 :]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{page}: {line}"
        command = found
        made = command.make_context(name, list(words), parent=context)
        context = click.Context(command, parent=context) if isinstance(command, click.Group) else made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_can_be_found_from_the_first_one(page: Path) -> None:
    """A page that nothing links to is read by nobody."""
    linked: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        at = todo.pop()
        if at in linked or not at.exists() or at.suffix != ".md":
            continue
        linked.add(at)
        found = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", at.read_text(encoding="utf-8"))
        todo += [(at.parent / target).resolve() for target in found]
    assert page.resolve() in linked


def named(file: Path) -> set[str]:
    """The verbs that the texts of a module tell people to type."""
    texts = [
        node.value for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)
    ]
    return {
        verb for text in texts if isinstance(text, str) for verb in re.findall(r"`(?:sudo )?costguard ([a-z]+)\b", text)
    }


def test_no_message_names_a_verb_that_is_not_there() -> None:
    """A hint that cannot be typed is worse than none."""
    sources = [file for package in PACKAGES for file in package.glob("**/*.py")]
    found = {verb: file.name for file in sources for verb in named(file)}
    assert len(found) > 10
    unknown = {verb: file for verb, file in found.items() if verb not in VERBS}
    assert not unknown, f"no such verb; a new one has its line in VERBS of cli/main.py: {unknown}"
