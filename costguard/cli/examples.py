"""The examples at the end of each `--help`."""


def examples(*lines: str) -> str:
    """A block whose lines click leaves as they are; each line can be typed as it stands."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
