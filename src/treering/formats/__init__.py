"""Sessions of other programs: read into entries, and written where other programs are to take them up.

A program is one module, or one folder if it takes several; `detect` has the table of all, and `base` what each of them
does. Nothing here opens a session of ours or knows a store or an actor; `actors.imports` writes what is read here.
"""
