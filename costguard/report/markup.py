"""Elements of a page. Text becomes markup nowhere: everything is a tree until it is written, well-formed, at the end.

The same file is read by a browser and by a strict parser: elements without content are written as each of them takes it.
"""

import re
from xml.etree import ElementTree as ET

from costguard.people import with_names

Element = ET.Element
Child = Element | str | None

_EMPTY = re.compile(r"<(meta|br)( [^>]*)?></\1>")
_NUMBER = re.compile(r"-?\d+\.\d+")
_NAMESPACE = re.compile(r"^\{[^}]*\}")
_USED = re.compile(r"url\(#([\w-]+)\)")


def tag(name: str, *children: Child, **attributes: str) -> Element:
    """An element; ``class_`` and ``aria_label`` are written as HTML has them. None among the children is nothing."""
    found = Element(name, {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            text = plain(child)
            if len(found):
                found[-1].tail = (found[-1].tail or "") + text
            else:
                found.text = (found.text or "") + text
        elif child is not None:
            found.append(child)
    return found


def prose(name: str, text: str, **attributes: str) -> Element:
    """An element with a text of ours, in which commands stand between backticks."""
    parts: list[Child] = [tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))]
    return tag(name, *parts, **attributes)


def plain(text: object) -> str:
    """Foreign text without control characters, which XML does not have, and with the names of users."""
    return with_names("".join(c if c.isprintable() else " " for c in str(text)))


def written(root: Element) -> str:
    """The page as a text."""
    text = ET.tostring(root, encoding="unicode", short_empty_elements=False)
    return "<!DOCTYPE html>\n" + _EMPTY.sub(r"<\1\2 />", text) + "\n"


def inline(svg: str, colours: dict[str, str], **attributes: str) -> Element:
    """A picture of `draw.svg` as a part of a page: without addresses, without names that nothing uses, in the page's colours.

    ``colours``: what stands in for each; raises ParseError of `xml.etree`.
    """
    root = ET.fromstring(svg)  # noqa: S314 - drawn by our own process, and it declares no entity
    used = set()
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        for name, given in list(element.attrib.items()):
            del element.attrib[name]
            short, value = _NAMESPACE.sub("", name), given
            if short in {"style", "fill", "stroke"}:
                for stand_in, colour in colours.items():
                    value = value.replace(stand_in, colour)
                value = value.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
            element.set(short, value if short == "id" else _NUMBER.sub(_rounded, value))
            used |= {*_USED.findall(value), *([value[1:]] if short == "href" else [])}
        if element.text is not None and not element.text.strip():
            element.text = None
        element.tail = None
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for style in root.findall("defs/style"):
        style.text = None  # it would hold for the whole page
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return root


def _rounded(number: "re.Match[str]") -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
