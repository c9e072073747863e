"""The backstop outside the machines."""
