"""Recordings of GPU load, and what the engine would have decided on them.

`trace` holds a recording in columns, `files` reads one, `own` is costguard's format, `run` carries the engine
over it, `summary` counts what came of it, `show` prints it.
"""
