"""The resident process that reads the GPUs through NVML."""
