"""Run simulations: one seed to inspect what happened, or many to search for failures."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from . import Broken, durabilities, simulate


def main() -> int:
    """Run the simulations that the command line selects."""
    parser = ArgumentParser(prog="python -m treering.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="the number of seeds to run")
    parser.add_argument("--durability", choices=durabilities(), help="the durability; by default the seed decides")
    parser.add_argument("--trace", action="store_true", help="print every event")
    arguments = parser.parse_args()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        try:
            result = simulate(seed, arguments.durability)
        except Broken as broken:
            if arguments.trace:
                sys.stdout.write("\n".join(broken.trace) + "\n")
            sys.stderr.write(f"seed {seed}: {broken}\n")
            failed += 1
            continue
        if arguments.trace:
            sys.stdout.write("\n".join(result.trace) + "\n")
        sys.stdout.write(
            f"seed {seed}: {result.acknowledged} entries acknowledged, {result.crashes} crashes, "
            f"{result.checks} checks, all well, {result.digest}\n"
        )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
