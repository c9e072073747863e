"""Whether this machine is guarded, and what to do where it is not. Short-lived; nothing here hangs or uses a network."""
