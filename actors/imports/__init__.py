"""Imports: conversations of other programs, brought in as sessions and merged when they are imported again.

`importing` is what a host calls. `incoming` prepares a foreign conversation, `overlap` finds what a session already has
of it by `matching` entries, and `growing_answers` recognizes answers that have grown since. `report` tells the outcome.
"""
