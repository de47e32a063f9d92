"""The two frameworks whose turn it is in `.ci/run`: makes their environments, and names their tests for `pytest -k`.

`python -m tests.adapters.turn NUMBER`; exit status 2 says that a framework does not go together with what treering or
its tests need, and 1 anything else, such as no network.
"""

from __future__ import annotations

import sys

from .test_versions import made, turns


def main() -> None:
    """Make what is missing, and print the names."""
    turn = turns(int(sys.argv[1]))
    for package, which in turn:
        try:
            made(package, which, anew=True)
        except AssertionError as error:
            sys.stderr.write(f"{package}, {which}: {error}\n")
            sys.exit(2 if "ResolutionImpossible" in str(error) else 1)
    sys.stdout.write(" or ".join(f"{package}-{which}" for package, which in turn) + "\n")


if __name__ == "__main__":
    main()
