"""The status on a screen that stays: whatever its size, what matters is on it, and it says what is not."""

from rich.console import Console, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.text import Text

from costguard.cli.status_view import Report, view
from costguard.engine.words import several


def screenful(report: Report, screen: Console, below: str, above: str = "") -> RenderableType:
    """The whole status where it fits, else with a line for all GPUs that are alike, else for all in one state, else as much of that as there is room for.

    ``above``: what is wrong with the view, on top of it; ``below``: its last line, whatever is left out.
    """
    head = [Text(above, style="bold red")] if above else []
    foot = Text(below, style="dim", no_wrap=True, overflow="ellipsis")
    room = screen.height - 1
    lines: list[list[Segment]] = []
    for brief, merged in ((False, False), (True, False), (True, True)):
        lines = screen.render_lines(Group(*head, view(report, screen, brief=brief, merged=merged)), pad=False)
        if len(lines) <= room:
            return Group(SegmentLines(lines, new_lines=True), foot)
    left_out = f"… {several(len(lines) - room + 1, 'more line')}: `costguard status`"
    cut = Text(left_out, style="bold", no_wrap=True, overflow="ellipsis")
    return Group(SegmentLines(lines[: room - 1], new_lines=True), cut, foot)
