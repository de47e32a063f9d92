"""Sessions as documents for people: Markdown and HTML. They cannot be imported again."""
