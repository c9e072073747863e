"""Errors that every cloud has: what is told of them, what to do, and whether the request may have been accepted."""

from collections.abc import Callable

import pytest

from costguard.cloud.api import CloudError
from costguard.cloud.errors import foreign, line, malformed, no_answer, sdk_failed, unreachable


class Mute(Exception):
    """An error of a library that says nothing."""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("busy", "busy"),
        ("  two\n\tlines  of it\n", "two lines of it"),
        (OSError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (Mute(), "Mute"),
        (Mute(" \n"), "Mute"),
        ("x" * 301, "x" * 300),
    ],
    ids=["word", "lines", "error", "mute", "blank", "long"],
)
def test_what_others_say_is_told_on_one_line(text: object, told: str) -> None:
    """An endless text is cut, and of what says nothing its kind is told."""
    assert line(text) == told


@pytest.mark.parametrize(
    ("error", "trouble", "code", "sent", "told"),
    [
        (
            lambda: unreachable("Nimbus", "Stop", "no\nroute"),
            "unreachable", "no_connection", "no",
            "Stop: Nimbus cannot be reached (no route)",
        ),
        (
            lambda: no_answer("Stop", Mute()),
            "unreachable", "no_answer", "silent",
            "Stop: the request was sent, but no answer came (Mute)",
        ),
        (
            lambda: foreign("Nimbus", "Stop", 407, "ask the proxy"),
            "unreachable", "foreign_answer", "hardly",
            "Stop: status 407, but not from Nimbus: a proxy or another service answers",
        ),
        (
            lambda: foreign("Nimbus", "Stop", 302, "ask the proxy", "log\nin", sent="no"),
            "unreachable", "foreign_answer", "no",
            "Stop: status 302, but not from Nimbus: a proxy or another service answers: log in",
        ),
        (
            lambda: malformed("Nimbus", "Stop"),
            "internal", "garbage", "silent",
            "Stop: malformed answer, not from Nimbus",
        ),
        (
            lambda: malformed("Nimbus", "Stop", "<html>\n", sent="no"),
            "internal", "garbage", "no",
            "Stop: malformed answer, not from Nimbus (<html>)",
        ),
        (
            lambda: sdk_failed("Nimbus", "Stop", Mute("odd"), "perhaps"),
            "internal", "Mute", "perhaps",
            "Stop: the SDK of Nimbus failed (Mute: odd)",
        ),
    ],
    ids=["unreachable", "no answer", "foreign", "foreign with words", "malformed", "malformed with words", "sdk"],
)  # fmt: skip
def test_an_error_says_what_was_done_and_what_of_it_may_have_been_accepted(
    error: Callable[[], CloudError], trouble: str, code: str, sent: str, told: str
) -> None:
    """All of them are technical, have advice, and name no detail where there is none."""
    made = error()
    assert (made.trouble, made.code, made.sent, str(made)) == (trouble, code, sent, told)
    assert made.technical
    assert made.hint
    assert made.retry_after == 0.0


@pytest.mark.parametrize("after", [None, 7.0])
def test_the_sdk_may_say_when_to_try_again(after: float | None) -> None:
    """Or that it would fail again."""
    assert sdk_failed("Nimbus", "Stop", Mute(), "no", after).retry_after == after
