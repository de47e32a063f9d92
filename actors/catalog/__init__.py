"""Finding sessions: the index, the rows of the listing, projects, the current session of each, and the settings.

Nothing that is kept here is the truth about a session: that is in its log. What is derived is made anew where it is
missing, torn or out of date; what is not derived (which session of a project is the current one) is a pointer that may
be lost without losing a session.
"""
