"""The folder below a root that is treering's own: locks, journals, the index, pointers."""

PRIVATE_FOLDER = ".treering"
"""For what is neither a log nor beside one; no log lies in a folder of this name."""

ASIDE = f"{PRIVATE_FOLDER}/aside"
"""Where a repair puts what it moves, below the folder that it was asked about."""
