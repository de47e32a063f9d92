"""Contexts that fit: what of a session is sent to a model whose window is too small for all of it.

Building is pure. From the messages of a context, the entries of its path and the summaries that are stored, a budget and
a tokenizer it makes the messages to send, and says how. It reads no store and writes nothing; where a summary would help
it says which one, and the layer above gets it: `summaries` alone asks somebody, the summarizer that the caller gives. The
same inputs always give the same bytes.
"""
