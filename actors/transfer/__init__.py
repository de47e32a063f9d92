"""Sessions that come in and go out: imports from other programs and places, and exports to them.

An import (`importing`) finds the sessions of a source (`formats.walk`), the log here that each of them may be
(`existing`), by content where there are no ids (`matching`), and what that log lacks (`incoming`), such as the rest of
an answer (`growing_answers`). An export selects lines (`selection`), converts them (`exporting`), and writes them to
its destination (`target`). A session that goes on in another program is handed over (`handing_over`), and what was
written there comes back (`coming_back`); one that a program is still writing is mirrored (`mirroring`). `reports` say
what was done. What a program's files look like is known to its format alone.
"""

EXPORTS = ("native", "pi", "omp", "json", "markdown", "html")
"""What a session is exported as, besides the files of other programs."""
