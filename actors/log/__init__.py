"""One log as the actors see it, whoever owns it.

`open_log` is the index and the bodies, `owned_log` what may be written here, `follower` follows a log that is not
owned, `moved_logs` knows where logs went, `whole_log` writes one at once, and `bodies` caches what was read.
"""
