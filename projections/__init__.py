"""What is read: folds over entries, the views that they hold, and the changes by which a view is followed.

Everything here is a value or a pure function over entries and a log's index. Nothing reads a file or waits; what must be
read is said as ordinals, and the caller brings the entries.
"""
