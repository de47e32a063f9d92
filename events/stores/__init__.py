"""The store protocol, and the stores that implement it."""
