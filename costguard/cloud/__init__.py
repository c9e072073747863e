"""What clouds have in common, and what a plug-in offers: `costguard.cloud.api` is the interface, the rest is shared machinery."""
