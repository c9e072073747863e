"""The last hours as a picture and as one page: load, threshold, unknown, decisions, holds, stops, money.

`timeline` reads the history and knows no library, `draw` lays it out on a `canvas`, which
alone imports matplotlib, in a process that ends (`worker`); `picture` is what others call. Nothing here is ever loaded by the guard or a reader.
"""
