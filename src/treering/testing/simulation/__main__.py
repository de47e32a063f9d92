"""`python -m treering.testing.simulation`: play seeds, one to see what happened or many to see that nothing did."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from .checks import Broken
from .determinism import durabilities
from .story import simulate


def main() -> int:
    """Play the seeds that the command line names."""
    parser = ArgumentParser(prog="python -m treering.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="how many seeds to play")
    parser.add_argument("--durability", choices=durabilities(), help="by default the seed decides")
    parser.add_argument("--trace", action="store_true", help="show what happened")
    asked = parser.parse_args()
    failed = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            told = simulate(seed, asked.durability)
        except Broken as broken:
            if asked.trace:
                sys.stdout.write("\n".join(broken.trace) + "\n")
            sys.stderr.write(f"seed {seed}: {broken}\n")
            failed += 1
            continue
        if asked.trace:
            sys.stdout.write("\n".join(told.trace) + "\n")
        sys.stdout.write(
            f"seed {seed}: {told.acknowledged} entries acknowledged, {told.crashes} crashes, "
            f"{told.checks} checks, all well, {told.digest}\n"
        )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
