"""Background work on GPUs that nobody uses: it begins when a GPU is free, and ends at once when somebody else comes.

A launcher starts and ends the work, a watcher looks at the GPUs; the pair, and what a tree is, are those of `costguard.tree`.
"""

NAME = "costguard fill"
"""How its lines on standard error begin."""
