"""The read side: folds over entries, their views, and the changes by which a view is followed.

Folds and the values built from them are pure: they name the seqs that they need, and the caller supplies the entries.
Subscriptions and shared views are async, and read through a `Source`. Nothing here opens a log.
"""
