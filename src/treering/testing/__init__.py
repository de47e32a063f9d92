"""For tests, yours and ours: what every store has to pass, disks that fail and lose power, sessions drawn at random.

`stores` is the conformance suite of stores and needs pytest with anyio's plugin. `disks` needs nothing. `strategies`
needs hypothesis. Nothing else in treering imports this package.
"""
