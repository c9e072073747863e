"""For all tests: an ignored SIGINT is inherited, and a run in the background must test the same as one at a terminal."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
