"""On-disk formats: how a header and an entry become a line and back."""
