"""Deterministic simulation of a whole host: a seed decides the clock, the task order, the disk faults and the crashes.

    from treering.testing.simulation import simulate

    result = simulate(seed=17)

Writers and subscribers run on a host whose disk fails and loses data: they append, branch, archive, copy, follow and
cancel. The host is closed, killed or loses power, and another one opens what is left. After each step the state must
equal a replay of the file, and after each host every acknowledged entry must be stored exactly once. A seed always
produces the same run. A failing run prints the command that reproduces it::

    python -m treering.testing.simulation --seed 17

This needs trio, which `pip install 'treering[test]'` installs. Disks are simulated down to each operation, processes
are not: operating system locks and threads are not covered.
"""

from __future__ import annotations

from .checks import Broken, Replay, check_file, check_session, replayed
from .determinism import durabilities, run
from .story import Told, simulate

__all__ = ["Broken", "Replay", "Told", "check_file", "check_session", "durabilities", "replayed", "run", "simulate"]
