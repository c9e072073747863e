"""Modules for Terraform, and what writes their generated files."""
