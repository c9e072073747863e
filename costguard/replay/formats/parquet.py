"""Parquet files, converted by pyarrow to the table that every other reader takes."""

import io

from costguard import extras
from costguard.replay.formats.source import Source
from costguard.replay.trace import TraceError

MAGIC = b"PAR1"
"""First bytes of such a file."""


def as_table(source: Source) -> Source:
    """The same rows as CSV. A time with a zone keeps it, one without is local. Raises TraceError."""
    try:
        from pyarrow import ArrowException, csv, types
        from pyarrow import parquet as files
    except ImportError:
        raise TraceError(f"{source.name} is a Parquet file, which needs pyarrow", extras.install(extras.FAST)) from None
    try:
        found = files.read_table(source.raw)
    except (ArrowException, OSError, ValueError) as error:
        raise TraceError(f"cannot read {source.name} as Parquet: {error}", "is the file complete?") from None
    kept = [field.name for field in found.schema if not types.is_nested(field.type)]
    written = io.BytesIO()
    csv.write_csv(found.select(kept), written)
    content = written.getvalue()
    return Source(source.name, io.BufferedReader(io.BytesIO(content)), len(content))
