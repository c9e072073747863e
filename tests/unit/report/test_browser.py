"""The page in a real browser, at a desk and on a phone, light and dark: nothing lies on anything else, and nothing is cut off."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from costguard.history import query
from costguard.report import draw, facts, page
from costguard.report.palette import VARIABLES
from costguard.testing.simhost import Phase
from tests.unit.report.conftest import Recorded, record

CHROMIUM = shutil.which("chromium") or ""
HEIGHT = 6000
"""Pixels, more than the page has."""

MARGIN = 8
"""Pixels at each side in which nothing stands."""

MEASURE = """<script>
const hidden = (part) => part.closest("script,style,title,desc") || (part.closest("thead") && getComputedStyle(part.closest("thead")).clipPath != "none");
const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walk.nextNode());) {
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects())
    if (node.textContent.trim() && box.width > 1 && box.height > 1 && !hidden(node.parentElement))
      found.push([node.textContent.trim(), box.left, box.top, box.right, box.bottom]);
}
parent.document.title = JSON.stringify({width: innerWidth, whole: document.documentElement.scrollWidth, found});
</script>"""
"""Where each line of text stands, and how wide the page is."""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium, which no other test does"),
    pytest.mark.thorough,
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with sixteen GPUs, and with words of users that are long."""
    folder = tmp_path_factory.mktemp("browser")
    script = [Phase(7200, 0.9), Phase(6000, 0.0), Phase(9**9, 0.6)]
    long = {"command": "hold", "seconds": 900, "reason": "w" * 200}
    of_words = {"command": "hold", "seconds": 900, "reason": "one more evaluation " * 9}
    day = record(folder, 16, script, 2 * 86400.0, [(11500.0, 1000, long), (20000.0, 1001, of_words)])
    path = folder / "page.html"
    path.write_text(written(day))
    return path


def written(day: Recorded) -> str:
    """The page as `costguard history --html` makes it."""
    with query.reading(day.path) as database:
        found = facts.read(
            database, day.path, day.since, day.until, None, "a-machine-with-a-long-name.example.org", None
        )
    drawn = day.timeline()
    return page.page(found, [draw.picture(drawn, wide, VARIABLES).svg(str(wide)) for wide in (page.WIDE, page.NARROW)])


def browse(path: Path, width: int, *options: str) -> str:
    """What the browser prints of a page."""
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={path.parent / 'profile'}", f"--window-size={width},{HEIGHT}", *options, path.as_uri(),
        ],
        capture_output=True, check=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_lies_on_another_one_or_leaves_the_page(shown: Path, width: int) -> None:
    """By where the browser itself puts each line."""
    measured = shown.with_name(f"measured-{width}.html")
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", shown.read_text())  # which lets nothing run
    inner = escape(free.replace("</body>", f"{MEASURE}</body>"))
    # a window of the browser cannot be as narrow as a phone
    frame = f'<iframe width="{width}" height="{HEIGHT}" style="border: 0" srcdoc="{inner}"></iframe>'
    measured.write_text(f"<!DOCTYPE html><title></title>{frame}")
    title = re.search(r"<title>(.*?)</title>", browse(measured, 1400, "--dump-dom"), re.DOTALL)
    assert title is not None
    said: dict[str, Any] = json.loads(unescape(title[1]))
    boxes = said["found"]
    assert said["whole"] <= said["width"] == width
    assert len(boxes) > 60
    for words, left, _top, right, _bottom in boxes:
        assert left >= 0.0, words
        assert right <= width, words
    for number, (words, left, top, right, bottom) in enumerate(boxes):
        for others, other_left, other_top, other_right, other_bottom in boxes[number + 1 :]:
            across = min(right, other_right) - max(left, other_left)
            down = min(bottom, other_bottom) - max(top, other_top)
            assert across <= 1.0 or down <= 0.3 * min(bottom - top, other_bottom - other_top), (
                f"{words!r} lies on {others!r}"
            )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_stands_in_the_margin(shown: Path, width: int, *, dark: bool) -> None:
    """What is wider than the window would be cut off there; and the browser's own colours are taken."""
    picture = shown.with_name(f"{width}-{dark}.png")
    browse(shown, width, f"--screenshot={picture}", *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    with Image.open(picture) as opened:
        image = opened.convert("L")
    ground = image.tobytes()[0]
    assert (ground < 64) is dark
    for left in (0, width - MARGIN):
        assert set(image.crop((left, 0, left + MARGIN, image.height)).tobytes()) == {ground}
    assert len(set(image.tobytes())) > 1, "there is something to see"
