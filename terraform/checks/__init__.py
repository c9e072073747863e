"""Checks of the modules with Terraform itself: `make terraform`."""
