"""The health of sessions on disk: what is wrong, and its repair.

`doctor` examines sessions, `lines` what is in a file, `surroundings` what lies beside it; `repair` mends, and
`known_damage` is what it leaves. All go by path, so that they work where no host can open a root. This package knows
the inside of the file store.
"""
