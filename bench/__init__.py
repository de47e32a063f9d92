"""What things cost, measured beside what people would pick instead, as ratios within one run on one machine.

    python -m bench list
    python -m bench run --scale quick
    python -m bench soak --hours 2

A scenario (`bench.scenarios`) is a job, a yardstick and a goal; a peer (`bench.peers`) is something that can do some of
the jobs. Each has a file of its own and is found by being there. Rounds are interleaved (A B A B), so that what disturbs
the machine disturbs all alike; figures are medians with the least and the greatest. The soak (`bench.soak`) is no race:
it looks whether a host with many agents stays as it is for a day. See docs/benchmarks.md.
"""
