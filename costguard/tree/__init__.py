"""Guard one command: a launcher that starts it and passes signals on, a watcher that judges its GPUs, and its tree.

The tree is every process that descends from the command. The launcher is its sub-reaper, so that no member can leave it
while the launcher lives; should the launcher be killed, the watcher ends what it followed.
"""
