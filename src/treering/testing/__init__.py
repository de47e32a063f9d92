"""For tests, yours and ours: what every store has to pass, disks that fail and lose power, sessions drawn at random.

`stores` is the conformance suite of stores and needs pytest with anyio's plugin. `strategies` needs hypothesis. `disks` and
`clocks` are for hosts that a test makes. `models` is a model that follows a script, `model_server` answers clients of
models over real connections. Nothing else in treering imports this package.
"""
