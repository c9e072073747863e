"""Tasks of a cluster's scheduler: which one this is, and how it is ended. The machine goes on."""
