"""`treering chat`: a conversation with a model, in which every message is stored at once.

It uses two threads. The main thread serves the person: it reads lines, prints, and gets the signals. The event loop
runs in a second thread, with the host, the session and the model's client, and never waits for the terminal. Each line
of input becomes one job in the loop (`chat`), whose output goes back through a queue (`job_runner`).

`command` is the click command, and `main_thread` runs a chat from its beginning to its end. `opening` chooses the
session, `conversation` is the session with its model, `slash` defines slash commands and `registry` lists them, and
`reader` and `screen` are the two sides of the terminal.
"""
