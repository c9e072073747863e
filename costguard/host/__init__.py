"""The I/O of the guard: its clocks, children, sockets, lock and files. `costguard.testing.simhost` is its simulated twin."""
