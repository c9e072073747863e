"""What the engine's tests need where they stand alone."""

pytest_plugins = ["tests.engine.profiles"]
