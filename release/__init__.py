"""What is made of the product and is no part of it: a release (`make release`), and the picture of the README (`make docs`)."""
