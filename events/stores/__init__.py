"""Where logs live: one protocol, and the stores that keep to it."""
