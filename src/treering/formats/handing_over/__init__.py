"""Handing a session over to another program: its path as that program's own session file, where the program looks.

A program is one module here with one class like `Target`; `targets` lists them. What is handed over is a `Talk`, made
by `talk`: the messages of a path in the least that all programs share. A target plans the file and writes nothing;
`actors.transfer.handing_over` writes it and keeps a record in the session, and `actors.transfer.coming_back` brings
back what the program wrote after it. Nothing here knows a store or an actor, or runs a program.
"""
