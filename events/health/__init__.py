"""The health of sessions on disk: what is wrong, and its repair.

`doctor` examines a session, `surroundings` what lies beside it, `repair` mends; `holders` says who owns it now. All go
by path, so that they work where no host can open a root. This package knows the inside of the file store.
"""
