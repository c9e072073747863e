"""Writes the files of the modules that come from costguard's own code: ``make docs``."""
