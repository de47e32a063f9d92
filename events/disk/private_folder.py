"""The private folder of treering under a root: locks, journals, the index, pointers."""

PRIVATE_FOLDER = ".treering"
"""The folder for files that are neither logs nor beside a log; logs in a folder of this name are ignored."""

ASIDE = f"{PRIVATE_FOLDER}/aside"
"""Where a repair moves files, relative to the folder that is repaired."""
