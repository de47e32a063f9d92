"""Contexts that fit: choose the messages for a model whose window is too small for the whole session.

Building is pure. It takes the messages of a context, the entries of its path, the stored summaries, a budget and a
tokenizer, and returns the messages to send and how they were chosen. It reads no store and writes nothing. If a summary
would help, it says which one, and the caller gets it: only `summaries` calls out, to the summarizer that it is given. The
same inputs always give the same bytes.
"""
