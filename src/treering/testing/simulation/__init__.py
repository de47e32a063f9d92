"""A whole host in a small world: one seed decides the clock, the order of tasks, the disk's illnesses and the crashes.

    from treering.testing.simulation import simulate

    told = simulate(seed=17)

Writers and subscribers live on a host whose disk fails and forgets; the host is closed, killed or cut off from power;
another one opens what is left. After each step the state has to be what a replay of the file gives, and after each end
every acknowledged entry has to be there once. A seed always tells the same story. One that fails says how to see it
again::

    python -m treering.testing.simulation --seed 17

It needs trio, which `pip install 'treering[test]'` brings. Disks are simulated to the last operation, processes are not:
the locks of the operating system and its threads have no place here.
"""

from __future__ import annotations

from .checks import Broken, Replay, check_file, check_session, replayed
from .determinism import durabilities, run
from .story import Told, simulate

__all__ = ["Broken", "Replay", "Told", "check_file", "check_session", "durabilities", "replayed", "run", "simulate"]
