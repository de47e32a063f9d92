"""Sessions that come in and go out: imports from other programs and places, and exports to them.

An import finds the sessions of a source (`formats.walk`), the log here that each of them may be (`existing`), and what
that log lacks (`incoming`). An export selects lines (`selection`), converts them (`exporting`), and writes them to its
destination (`target`). What a program's files look like is known to its format alone.
"""

EXPORTS = ("native", "pi", "omp", "json", "markdown", "html")
"""What a session is exported as, besides the files of other programs."""
