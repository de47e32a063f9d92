"""Sessions that other programs keep on this machine, followed as they write them; nothing of theirs is changed.

`sessions` follows them and shows how each begins and ends, `files` finds what they are in.
"""
