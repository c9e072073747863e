"""Recordings of GPU load, and what the engine would have decided on them.

`trace` holds a recording in columns, `files` reads one, `own` is costguard's format, `walk` carries the engine over it and
`forward` past what cannot matter, `compare` does so for several policies, `summary` counts what came of it, `show` prints it.
"""
