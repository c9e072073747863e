"""For all tests.

An ignored SIGINT is inherited, and a run in the background must test the same as one at a terminal.
No test leaves this machine: `tests.loopback`. Nor does one leave its agents' runtime folders behind: `tests.leftovers`.
"""

import os
import signal
import sys

pytest_plugins = ["tests.loopback", "tests.leftovers", "tests.engine.profiles"]

signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of short processes, and five that collect: each would compile the same files again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
