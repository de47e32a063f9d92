"""`treering chat`: a conversation with a model, in which every message is stored at once.

It uses two threads. The main thread serves the person: it reads lines, prints, and gets the signals. The event loop
runs in a second thread, with the host, the session and the model's client, and never waits for the terminal. Each line
of input becomes one job in the loop (`chat`), whose output goes back through a queue (`job_runner`).

`command` has the click commands, and `main_thread` runs a chat from its beginning to its end. `conversation` is the
session with its model, which `models` makes; `chat` shows its turns. `slash` takes a line of input, and
`slash_commands` has the commands. `terminal` has the two sides of the terminal, reading and writing; `picker` is the
list to choose a session from, and `picker_screen` shows it. prompt_toolkit reads what a person types.
"""
