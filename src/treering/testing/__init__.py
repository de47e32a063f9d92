"""For tests, yours and ours: the suite that every store has to pass, and disks that can be failed, counted and cut off.

Nothing else in treering imports this package. `stores` needs pytest and anyio's plugin for it, `disks` needs nothing.
"""
