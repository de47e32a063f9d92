"""Conversion between `Message` and providers' own messages: plain dictionaries, as their HTTP interfaces use them.

Nothing here contacts a provider or imports its library. Reading never drops a block silently: a block that a `Message`
cannot hold is refused, and the error names its place. Writing leaves out only what the provider's format has no place
for; each module's docstring lists that.
"""
