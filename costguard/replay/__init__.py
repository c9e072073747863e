"""Recordings of GPU load, and what the engine would have decided on them.

`trace` holds a recording in columns, `formats` reads it, `run` takes the engine through it and `skip` past what cannot
matter, `compare` does so for several policies, `summary` counts the results, `show` prints them.
"""
