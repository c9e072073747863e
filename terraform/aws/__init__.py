"""The module for AWS."""
