terraform {
  # Tried with 1.11. It needs no provider.
  required_version = ">= 1.5.7, < 2.0.0"
}
