"""Benchmarks: what operations cost compared with the alternatives, as ratios within one run on one machine.

    python -m bench list
    python -m bench run --scale quick
    python -m bench soak --hours 2

A scenario (`bench.scenarios`) is a job with a yardstick and goals; a peer (`bench.peers`) is a program that can do some
of the jobs. Each has its own file and is discovered by being in its folder. Rounds are interleaved (A B A B), so that a
disturbance of the machine affects all sides alike; figures are medians with their minimum and maximum. The soak
(`bench.soak`) compares nothing: it checks that a host with many agents stays stable for a day. See docs/benchmarks.md.
"""
