"""Spellings that argparse accepts for the flags of other tools: abbreviated, bundled, and with ``=`` before the value."""

from collections.abc import Collection, Iterator, Sequence

import click

LONG = (
    "--arm_duration", "--arm_threshold", "--kill_duration", "--kill_threshold", "--kill_action", "--gpu_devices",
    "--threshhold-percentage", "--sample-freq", "--num-samples", "--delay-samples", "--debug", "--all-or-any",
    "--signal-name", "--signal-children", "--conf",
)  # fmt: skip
"""Long flags of the other tools; an unambiguous prefix is enough."""

WITH_VALUE, SWITCHES = frozenset("tsndac"), frozenset("x")
"""Their short flags."""


def expanded(flag: str, known: Collection[str] = (), among: Collection[str] = LONG) -> str:
    """The long flag that this is the only prefix of; unchanged where it is ambiguous, or one of ``known`` itself."""
    meant = [one for one in among if one.startswith(flag)] if len(flag) > 2 and flag not in known else []
    return meant[0] if len(meant) == 1 else flag


def unbundled(word: str, with_value: Collection[str] = WITH_VALUE, switches: Collection[str] = SWITCHES) -> list[str]:
    """``-xt50`` as ``-x -t 50``, and ``-t=50`` as ``-t 50``; unchanged where a letter is not a flag."""
    found: list[str] = []
    for place, letter in enumerate(word[1:], 1):
        found.append(f"-{letter}")
        if letter in with_value:
            value = word[place + 1 :].removeprefix("=")
            return [*found, *([value] if value else [])]
        if letter not in switches:
            return [word]
    return found


def spelled_out(arguments: Sequence[str], known: Collection[str] = ()) -> list[str]:
    """A command line with each flag of another tool in full and by itself. What follows ``--`` stays as it is."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*_words(arguments[:end], known), *arguments[end:]]


def _words(arguments: Sequence[str], known: Collection[str]) -> Iterator[str]:
    for word in arguments:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            yield f"{expanded(name, known)}{equals}{value}"
        elif word.startswith("-") and len(word) > 2:
            yield from unbundled(word)
        else:
            yield word


class Lenient(click.Command):
    """A verb that accepts another tool's flags in every spelling that argparse allowed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spell the options out before click reads them; the command that follows them must not change."""
        return super().parse_args(ctx, self._spelled_out(args))

    def _spelled_out(self, args: Sequence[str]) -> list[str]:
        options = {name: one for one in self.params if isinstance(one, click.Option) for name in one.opts}
        theirs = [name for name in LONG if name in options]
        letters = {name[1] for name in options if len(name) == 2}
        with_value = {letter for letter in letters if not options[f"-{letter}"].is_flag}
        found: list[str] = []
        rest = list(args)
        while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            name = expanded(name, options, theirs)
            words = [f"{name}{equals}{value}"] if word.startswith("--") else unbundled(word, with_value, letters)
            option = options.get(words[-1])
            found += words
            if option is not None and not option.is_flag and rest:
                found.append(rest.pop(0))
        return [*found, *rest]
