"""The resident process that asks the metadata service of this machine's cloud."""
