"""Sessions that other programs keep on this machine, followed as they write them; nothing of theirs is changed.

`sessions` finds their files and shows how each session begins and ends, `watching` tells which files changed.
"""
