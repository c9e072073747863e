"""Work that costguard brings along: a load for GPUs."""
