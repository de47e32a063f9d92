"""The catalog: the listing with its rows, archiving, projects with their current sessions, and the settings.

Nothing here is authoritative about a session: its log is. Rows are derived, kept by the store if it can, and made again
when they are missing, damaged or out of date. The only data that is not derived, the current session of each project,
is a pointer that may be lost without losing a session.
"""
