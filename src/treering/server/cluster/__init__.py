"""Several servers of the same sessions: who they are to each other, and how a request goes on to the one that owns its.

Nothing here knows what a request asks for.
"""
