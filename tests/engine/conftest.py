"""What the engine's tests need where they stand alone."""

from tests.engine import profiles  # noqa: F401  # to load it
