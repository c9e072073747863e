"""Which places keep every record, and under which name each is put."""

from typing import Any

import pytest

from costguard import record_address

GOOD = "https://x/{instance}/{step}-{attempt}"


@pytest.mark.parametrize(
    ("settings", "configured", "outlives"),
    [
        ({}, False, False), ({"url": ""}, False, False), ({"url": "https://x/a"}, True, True), ({"syslog": "udp://x"}, True, True),
        ({"tag": True}, True, False), ({"tag": "yes"}, False, False), ({"url": "https://x/a", "method": "PUT"}, True, False),
        ({"url": "https://x/a", "method": "PUT", "syslog": "udp://x"}, True, True), ({"url": "https://x/", "method": "PUT"}, True, True),
        ({"url": GOOD, "method": "PUT"}, True, True), ({"method": "PUT"}, False, False),
    ],
)  # fmt: skip
def test_which_places_count(settings: dict[str, Any], configured: bool, outlives: bool) -> None:
    """A tag ends with the machine; what writes over itself keeps one record of all."""
    assert (record_address.configured(settings), record_address.outlives(settings)) == (configured, outlives)
    assert bool(record_address.overwrites(settings)) is (
        settings.get("method") == "PUT"
        and bool(settings.get("url"))
        and not record_address.outlives({**settings, "syslog": ""})
    )


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://x/", ""), ("https://x/?key=1", ""), (GOOD, ""), ("https://x/{instance}/{step}-{time}", ""), ("https://x/?a={instance}{step}{time}", ""),
        ("https://x/{instance}/{step}", "overwrite"), ("https://x/{instance}/{attempt}", "overwrite"), ("https://x/{step}{time}", "overwrite"), ("https://x/a?b=/", "overwrite"),
        ("https://{instance}/", "the host"), ("https://x/{who}/{a}/", "unknown placeholder {a}, {who}"), ("https://x/{}/", "unknown placeholder {}"),
    ],
)  # fmt: skip
def test_an_address_that_cannot_tell_records_apart_is_refused(url: str, words: str) -> None:
    """Machines, incidents and steps; with what is allowed."""
    said = record_address.mistake(url)
    assert words in said
    assert bool(said) is bool(words)
    assert not said or "allowed: " in said


RECORD = {"instance": "m/1", "incident": "i 1", "attempt": "", "step": "prepared"}


@pytest.mark.parametrize(
    ("url", "at", "whole"),
    [
        ("https://x/{instance}?q={step}", 0.0, "https://x/m%2F1?q=prepared"), ("https://x/a/", 0.0, "https://x/a/m%2F1/i%201/none-prepared-19700101T000000.000Z.json"),
        ("https://x/a/?sig=b/", 1.5, "https://x/a/m%2F1/i%201/none-prepared-19700101T000001.500Z.json?sig=b/"),
        ("https://x/{time}", 86400.0625, "https://x/19700102T000000.062Z"), ("https://x/{time}", 1.999, "https://x/19700101T000001.999Z"), ("https://x/plain", 0.0, "https://x/plain"),
    ],
)  # fmt: skip
def test_the_name_of_a_record(url: str, at: float, whole: str) -> None:
    """What is in it, and when it was, to the millisecond; nothing of it leads elsewhere."""
    assert record_address.address(url, RECORD, at) == whole
