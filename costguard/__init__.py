"""costguard: stops GPU machines that earn nothing any more, and never stops work."""

__version__ = "0.1.0"
