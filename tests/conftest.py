"""For all tests.

An ignored SIGINT is inherited, and a run in the background must test the same as one at a terminal.
No test leaves this machine: `tests.loopback`.
"""

import signal

pytest_plugins = ["tests.loopback"]

signal.signal(signal.SIGINT, signal.default_int_handler)
