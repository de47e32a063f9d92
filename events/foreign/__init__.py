"""Sessions of other programs: read into entries, and written where other programs are to take them up.

One file a format. Nothing here opens a session of ours or knows an actor; `actors.imports` writes what is read here.
"""
