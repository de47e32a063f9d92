"""What is read: folds over entries, the views that they hold, and the changes by which a view is followed.

Folds and what is built of them are pure: what must be read is said as ordinals, and the caller brings the entries.
Subscriptions and shared views wait, and read through the `Source` that they are given. Nothing here opens a log.
"""
