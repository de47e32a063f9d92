"""How lines reach their file: on the event loop or in a thread, created or continued.

`appender` chooses the way, `append_job` is the one in a thread, `writer` writes and checks, `creating` makes a new
file. `logs` knows the logs of a store, `open_files` their descriptors.
"""
