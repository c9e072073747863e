"""Cut a text down to the characters that a service takes. Pure."""

LEAST_CHARACTERS = 120
"""A line of at most so many characters stays whole while others can be shortened."""

CUT = " …"
RECEIPT = "Receipt: "
RECEIPT_ELSEWHERE = f"{RECEIPT}`costguard history` shows it."
"""Stands in for a receipt that does not fit: part of one is worth nothing."""


def fitted(text: str, room: int) -> str:
    """Shorten a text to ``room`` characters: the longest lines lose their middle first, so that each line can still be recognized."""
    lines = text.split("\n")
    while sum(map(len, lines)) + len(lines) - 1 > room:
        number = max(range(len(lines)), key=lambda line: len(lines[line]))
        if len(lines[number]) <= LEAST_CHARACTERS:
            return _cut("\n".join(lines), room)
        lines[number] = _shorter(lines[number])
    return "\n".join(lines)


def _shorter(line: str) -> str:
    if line.startswith(RECEIPT):
        return RECEIPT_ELSEWHERE
    kept = max(LEAST_CHARACTERS - 3, len(line) * 2 // 3) // 2
    return f"{line[:kept].rstrip()}{CUT} {line[-kept:].lstrip()}"


def _cut(whole: str, room: int) -> str:
    """Cut off the end of too many short lines: the first ones say the most."""
    return whole[: max(0, room - len(CUT))].rstrip() + CUT if room > len(CUT) else whole[:room]
