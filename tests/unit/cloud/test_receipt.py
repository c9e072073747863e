"""Receipts: what stands in them, and how they are found again in the words of a message."""

import json

import pytest

from costguard.cloud import receipt
from costguard.cloud.api import Identity

WHO = Identity("X Cloud", "m-1", "north", "", "gpu", "spot", {"project": "p", "zone": "other", "empty": ""}, ())
RECEIPT = {"provider": "x", "cloud": "X Cloud", "instance": "m-1", "action": "stop"}


def test_a_receipt_begins_with_what_is_known() -> None:
    """What the core says counts before a plug-in's details; what is empty is left out."""
    found = receipt.begin("x", WHO, "stop", "i1", "a1")
    kept = {"project": "p", "region": "north", "type": "gpu", "incident": "i1", "attempt": "a1"}
    assert found == {**RECEIPT, **kept}, "also that there is no zone"


@pytest.mark.parametrize(
    ("said", "date"),
    [("2031-01-31T19:00:00+01:00", "2031-01-31T18:00:00Z"), ("2031-01-31T18:00:00.9Z", "2031-01-31T18:00:00Z"), ("", "20"), ("soon", "20")],
)  # fmt: skip
def test_a_request_that_was_taken_has_a_date(said: str, date: str) -> None:
    """That of the cloud's clock where it gave one, else this machine's; in UTC."""
    found = receipt.accepted(RECEIPT, "r1", said)
    assert {name: found[name] for name in (*RECEIPT, "request")} == {**RECEIPT, "request": "r1"}
    assert found["accepted"].startswith(date)
    assert (len(found["accepted"]), found["accepted"][-1]) == (20, "Z")


@pytest.mark.parametrize("words", ["{}", "Receipt: {} (keep it)", "\n\n {}\n"])
def test_a_receipt_is_found_in_the_words_around_it(words: str) -> None:
    """As people copy it."""
    line = receipt.line(RECEIPT)
    assert line == json.dumps(RECEIPT, separators=(",", ":"))
    assert receipt.parse(words.replace("{}", line)) == RECEIPT
    assert receipt.line({}) == ""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n          "])
def test_a_receipt_that_a_screen_has_broken_is_put_together(end: str) -> None:
    """At every place where it may have been: not before a blank, which would belong to what the screen has put there."""
    line = receipt.line(RECEIPT)
    places = [at for at in range(1, len(line)) if line[at] != " "]
    assert all(receipt.parse(line[:at] + end + line[at:]) == RECEIPT for at in places)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no receipt"), ("}{", "no receipt"), ("{", "no receipt"), ("}", "no receipt"), ("[1]", "no receipt"), ('{"a":1}', "a JSON object of strings"), ("{}", "it lacks provider, cloud, instance, action"),
        (json.dumps({**RECEIPT, "cloud": ""}), "it lacks cloud"), (json.dumps({**RECEIPT, "x": None}), "a JSON object of strings"), ("{x}", "Expecting"),
        (json.dumps(RECEIPT).ljust(receipt.LONGEST_BYTES + 1), "no receipt"),
    ],
)  # fmt: skip
def test_what_is_no_receipt_is_said_to_be_none(text: str, words: str) -> None:
    """And why."""
    with pytest.raises(ValueError, match=words):
        receipt.parse(text)


def test_a_file_as_long_as_a_receipt_may_be() -> None:
    """Is read."""
    assert receipt.parse(json.dumps(RECEIPT).ljust(receipt.LONGEST_BYTES)) == RECEIPT
