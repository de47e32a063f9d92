"""Providers' own messages: plain dictionaries, as their HTTP interfaces take and give them, to and from `Message`.

Nothing here speaks to a provider or imports its library. Reading never drops a block in silence: what a message cannot
hold is refused with its place. Writing leaves out only what the provider has no place for, and says what that is.
"""
