"""The catalog: the index of sessions, the rows of the listing, projects with their current sessions, and the settings.

Nothing stored here is authoritative about a session: its log is. Derived data is rebuilt when it is missing, torn or out
of date. The only data that is not derived, the current session of each project, is a pointer that may be lost without
losing a session.
"""
