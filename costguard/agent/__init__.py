"""The resident guard: the loop, its host, its children and its state."""
