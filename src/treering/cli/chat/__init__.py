"""`treering chat`: a conversation with a model, in which every message is stored at once.

It uses two threads. The main thread serves the person: it reads lines, prints, and gets the signals. The event loop
runs in a second thread, with the host, the session and the model's client, and never waits for the terminal. Output of
the loop goes through a queue (`front`); each line of input becomes one job in the loop (`talk`).

`command` is the click command, `opening` chooses the session, `conversation` is the session with its model, `slash`
defines slash commands and `registry` lists them, `reader` and `screen` are the two sides of the terminal, and `desk`
runs it all.
"""
