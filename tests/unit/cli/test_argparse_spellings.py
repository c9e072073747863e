"""Flags of other tools as argparse let people write them: `exec` and `fill` take them so."""

import click
import pytest

from costguard.cli import exec as exec_verb
from costguard.cli import fill as fill_verb


def parsed(command: click.Command, *words: str) -> dict[str, object]:
    return command.make_context("verb", list(words)).params


@pytest.mark.parametrize(
    "words",
    [
        "-t 50 -s 6 -n 5 -d 3 -x grep foo",
        "-xt50 -s6 -n5 -d3 grep foo",
        "-t=50 -s=6 -n=5 -d=3 -x grep foo",
        "--thresh 50 --sample 6 --num 5 --delay-s=3 --deb grep foo",
        "-xt 50 --sample-f=6 -n5 -d 3 -- grep foo",
    ],
)
def test_every_way_to_write_them_means_the_same(words: str) -> None:
    """Shortened, glued together, with = or without."""
    given = parsed(exec_verb.command, *words.split())
    assert (given["percentage"], given["interval"], given["samples"], given["delayed"]) == (0.5, 6.0, 5, 3)
    assert (given["debug"], given["program"]) == (True, ("grep", "foo"))


@pytest.mark.parametrize("words", ["-x prog --thresh -t50", "-x -- prog --thresh -t50"])
def test_the_command_s_own_words_stay(words: str) -> None:
    """What follows the command's name is not costguard's."""
    assert parsed(exec_verb.command, *words.split())["program"] == ("prog", "--thresh", "-t50")


def test_a_value_that_looks_like_a_flag_stays_a_value() -> None:
    """It belongs to the flag before it."""
    given = parsed(exec_verb.command, "-d", "-1", "--idle-code", "7", "prog")
    assert (given["delayed"], given["idle_code"], given["program"]) == (-1, 7, ("prog",))


@pytest.mark.parametrize("words", ["-c file", "-cfile", "-c=file", "--conf file", "--con=file"])
def test_the_file_of_gpu_mon_is_named_in_every_way(words: str) -> None:
    """As its own command line was."""
    assert parsed(fill_verb.command, *words.split(), "--once")["config"] == "file"


@pytest.mark.parametrize("short", ["--sig", "--d", "--thr3"])
def test_what_could_mean_two_flags_means_none(short: str) -> None:
    """There, too."""
    with pytest.raises(click.NoSuchOption):
        parsed(exec_verb.command, short, "prog")
