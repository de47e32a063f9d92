"""Sessions as documents for people: one Markdown text, one HTML page. Views alone; nothing here can be read back."""
