"""Readers: long-lived children of the guard that turn the world into readings.

A reading is a value with evidence, or unknown with a reason; never a number that stands for unknown.
"""
