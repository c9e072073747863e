"""The page: strict, alone, and true."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from costguard.history import query, store
from costguard.history.keepers import Keeper
from costguard.money import Rate
from costguard.report import draw, facts, markup, page, style
from costguard.report.facts import ReportFacts
from costguard.report.palette import VARIABLES
from costguard.testing.simhost import Phase
from tests.unit.history.conftest import batch
from tests.unit.report.conftest import Recorded, record

CANARY = "<script>alert('c4n4ry')</script>\" onload='x' ]]> &lt; --> <svg/onload=1>"


def read(found: Recorded, price: Rate | None = None, machine: str = "", limit: float | None = None) -> ReportFacts:
    with query.reading(found.path) as database:
        return facts.read(database, found.path, found.since, found.until, price, machine, limit)


def written(found: ReportFacts, day: Recorded) -> str:
    drawn = day.timeline()
    return page.page(found, [draw.picture(drawn, wide, VARIABLES).svg(str(wide)) for wide in (page.WIDE, page.NARROW)])


def parsed(text: str) -> ET.Element:
    """By a strict parser; HTML's own declaration is not XML's."""
    assert text.startswith("<!DOCTYPE html>\n<html")
    return ET.fromstring(text.partition("\n")[2])


def words(root: ET.Element) -> str:
    return " ".join("".join(element.itertext()) for element in root.iter("body"))


def test_the_page_is_well_formed_and_refers_to_nothing(day: Recorded) -> None:
    """No script, no address, no file; whatever names something in the page finds it there, once."""
    text = written(read(day), day)
    root = parsed(text)
    names = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(names) == len(set(names)) > 0
    for element in root.iter():
        assert element.tag in {
            "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "dl", "dt", "dd", "div", "ul", "li", "code",
            "figure", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
            "svg", "g", "path", "rect", "use", "defs", "clipPath", "pattern", "text",
        }  # fmt: skip
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name not in {"src", "srcset", "action", "data", "poster"}
            if name == "href":
                assert value[0] == "#"
                assert value[1:] in names
            for reference in re.findall(r"url\(([^)]*)\)", value):
                assert reference[0] == "#"
                assert reference[1:] in names
    assert "://" not in text
    assert "url(" not in style.sheet()
    assert "@import" not in text
    assert not re.search("[<>&]", style.sheet()), "the style is read as it stands"
    assert "default-src 'none'" in text


def test_foreign_text_is_escaped_wherever_it_stands(day: Recorded) -> None:
    """Names of machines, users, reasons, GPUs, proofs, findings, files."""
    found = read(day)
    canaries: dict[str, Any] = dict.fromkeys(("path", "machine", "instance"), CANARY)
    strange = found._replace(
        **canaries,
        holds=tuple(band._replace(words=CANARY, detail=CANARY) for band in found.holds),
        incidents=tuple(
            one._replace(id=CANARY, reason=CANARY, action=CANARY, mode=CANARY, owner=CANARY, words=CANARY, proof=CANARY)
            for one in found.incidents
        ),
        keepers=(Keeper(1.79e9, None, CANARY, CANARY, CANARY, CANARY, CANARY, CANARY, 1),),
        unknown=tuple(one._replace(gpu=CANARY) for one in found.unknown),
        labels={CANARY: CANARY, **dict.fromkeys(found.labels, CANARY)},
        bills=(CANARY,),
        price=Rate(1.0, CANARY, CANARY),
    )
    text = written(strange, day)
    root = parsed(text)
    assert "<script" not in text
    assert "<svg/onload" not in text
    assert not list(root.iter("script"))
    assert words(root).count(CANARY) >= 12, "as text it is all there"


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[31mred", "\ud800", "\ufffe", "two\nlines", "\u202ereversed"])
def test_what_no_page_can_hold_becomes_a_blank(text: str) -> None:
    """Control characters, half letters, and what turns the reading direction."""
    root = parsed(markup.written(markup.tag("html", markup.tag("p", text, title="x"))))
    assert not any(c in words(root) + (root.findtext("p") or "") for c in text if not c.isprintable())


def test_the_page_says_what_the_history_has(day: Recorded) -> None:
    """The stop with its proof, the hold with its reason, the unknown time, hours and money by their rule."""
    found = read(day)
    root = parsed(written(found, day))
    text = words(root)
    assert "<script>alert(1)</script> & $x$" in text, "the reason of the hold, as text"
    assert "uid 4242" in text
    stops = [one for one in found.incidents if one.result not in page.CALLED_OFF]
    assert stops
    for one in found.incidents:
        assert one.id in text
        assert one.words in text
    assert all(one.proof in text for one in stops)
    assert found.unknown[0].gpu.startswith("0000:03")
    assert found.unknown[0].seconds == pytest.approx(2400.0, abs=60.0)
    assert "GPU 2 (NVIDIA H100 80GB HBM3)" in text
    assert "10.00 USD an hour" in text
    quiet = sum(each.quiet for each in found.days)
    assert f"about {quiet / 360.0:.2f} USD" in text
    assert "Money is an estimate" in text


def test_a_dry_run_says_what_live_mode_would_have_saved(tmp_path: Path) -> None:
    """The hours for which the machine stayed up, at its price; live mode has no such line."""
    script = [Phase(600, 0.0), Phase(3600, 0.9), Phase(9**9, 0.0)]
    recorded = record(tmp_path, 1, script, 20000.0, mode="dry-run")
    found = read(recorded)
    assert found.stayed_up > 9000.0
    text = words(parsed(page.page(found, [])))
    assert f"live mode would have savedabout {found.stayed_up / 360.0:.2f} USD" in text.replace("\n", "")
    few = read(recorded, limit=3600.0)
    assert (few.stayed_up, few.would_count) == (found.stayed_up, 3600.0), (
        "saving_limit: the hours are facts, the money an estimate"
    )
    assert "live mode would have savedabout 10.00 USD" in words(parsed(page.page(few, []))).replace("\n", "")
    assert "stop that a dry run only announced" not in words(parsed(page.page(found._replace(stayed_up=0.0), [])))


def test_all_times_are_in_the_zones_that_they_are_in(day: Recorded, zone: Callable[[str], None]) -> None:
    """Both, where summer time ends within the record: each date on the page names its own."""
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    end = 1_792_886_400.0 + 12 * 3600.0  # 2026-10-25, 12:00 UTC
    text = words(parsed(page.page(read(day)._replace(since=end - 5 * 86400.0, until=end), [])))
    assert "All times are in CEST/CET." in text
    text = words(parsed(page.page(read(day)._replace(since=end - 3600.0, until=end), [])))
    assert "All times are in CET." in text


def test_a_word_without_an_end_stays_in_its_cell() -> None:
    """The reason of a hold may be 200 letters without a blank: on a phone and on paper nobody can scroll to its end."""
    sheet = style.sheet()
    phone = sheet.partition("@media screen and (max-width:54rem)")[2].partition("@page")[0]
    assert re.search(r"\.stack td,\.stack th\{[^}]*max-width:none;overflow-wrap:anywhere", phone)
    assert re.search(r"\ntd\.text\{max-width:\d+rem\}", sheet), "a cell wraps only at a width of its own"
    assert "max-width" not in sheet.partition("@media print")[2].partition("main{max-width:none")[0]


def test_of_very_much_the_latest_is_listed(day: Recorded) -> None:
    """And how much there was: a page of a year opens on a phone."""
    found = read(day)
    many = found._replace(
        incidents=tuple(found.incidents[0]._replace(id=f"i{number}") for number in range(1000)),
        holds=tuple(found.holds[0]._replace(words=f"uid {50000 + number}") for number in range(1000)),
    )
    text = words(parsed(page.page(many, [])))
    assert f"The latest {page.LISTED} of 1000." in text
    assert "i999" in text
    assert "uid 50999" in text
    assert "uid 50100" not in text


def test_without_a_price_money_is_unknown(day: Recorded, tmp_path: Path) -> None:
    """No amount, and what to set."""
    bare = record(tmp_path, 1, [Phase(9**9, 0.0)], 7200.0, price_per_hour=None)
    text = words(parsed(page.page(read(bare), [], "nothing draws here")))
    assert "No price was recorded" in text
    assert "USD" not in text
    assert "There is no picture here: nothing draws here" in text
    assert "Nobody held it" in text
    assert "No stop was announced" in text


def test_what_is_still_billed_is_said_or_unknown(day: Recorded) -> None:
    """A machine with a fresh record is on; of one without nobody knows; what the last plan said of the bill stands there."""
    found = read(day)
    now = words(parsed(page.page(found._replace(bills=("kept, and still billed: vol-1",)), [])))
    assert "This machine: it was on at" in now
    assert "After a stop: kept, and still billed: vol-1." in now
    later = words(parsed(page.page(found._replace(until=found.until + 86400.0), [])))
    assert "Unknown: nothing was recorded after" in later
    last = found.incidents[-1]._replace(result="accepted", mode="live", words="accepted; nobody knows more")
    open_end = words(parsed(page.page(found._replace(incidents=(*found.incidents, last)), [])))
    assert "did not prove that the bill ended" in open_end


def test_who_kept_the_machine_up_is_on_the_page(tmp_path: Path) -> None:
    """With the evidence, how long, and what ended it; of those before this time only who went on into it."""
    rows = [
        ("keeps", 1.79e9, "ann on pts/3"), ("let_go", 1.79e9 + 7200.0, "ann on pts/3"),
        ("keeps", 1.79e9 - 9000.0, "bob on pts/4"), ("let_go", 1.79e9 - 8000.0, "bob on pts/4"),
    ]  # fmt: skip
    facts_of = {"sense": "terminals", "what": "typed", "by": "it was not seen again"}
    events = [["", at, kind, json.dumps({**facts_of, "who": who})] for kind, at, who in rows]
    path = tmp_path / "history.sqlite"
    store.save(batch(path, events=events, gpus=[], machine=[]))
    with query.reading(str(path)) as database:
        found = facts.read(database, str(path), 1.79e9 - 3600.0, 1.79e9 + 9000.0, None)
    text = words(parsed(page.page(found, [])))
    for said in ("ann on pts/3 typed", "2h", "terminals", "it was not seen again"):
        assert said in text
    assert "bob" not in text


def test_an_empty_history_says_so() -> None:
    """Instead of a page of zeros."""
    text = words(parsed(page.page(ReportFacts("/h", "", "", 0.0, time.time()), [])))
    assert "Nothing was recorded in this time" in text
    assert "0.0 h" not in text


def test_the_table_says_the_same_as_the_picture(day: Recorded) -> None:
    """For those who do not see it: every GPU, every stretch of time, unknown in words and never as a number."""
    found = read(day)
    for stretch in found.stretches:
        for span in stretch.gpus:
            assert (span.mean is None) == (span.known == 0.0)
    assert sum(span.unknown for stretch in found.stretches for span in stretch.gpus) == pytest.approx(2400.0, abs=60.0)
    root = parsed(written(found, day))
    pictures = list(root.iter("svg"))
    assert [picture.get("class") for picture in pictures] == ["wide", "narrow"]
    for picture in pictures:
        assert picture.get("role") == "img"
        assert "tables below" in str(picture.get("aria-label"))
    for table in root.iter("table"):
        heads = [head.text for head in table.iter("th") if head.get("scope") == "col"]
        for line in table.find("tbody") or []:
            assert len(line) == len(heads)
            assert line[0].get("scope") == "row"


def test_paper_is_no_phone() -> None:
    """A sheet is narrower than a window: what is stacked on a phone stays a table on paper."""
    narrow = [line for line in style.sheet().splitlines() if "max-width:" in line and line.startswith("@media")]
    assert narrow
    assert all(line.startswith("@media screen and ") for line in narrow)
