"""The resident process that sees what the GPUs do not show: terminals, servers, traffic and whatever else a person or a job does."""
