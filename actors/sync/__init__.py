"""The blocking facade: hosts and sessions for programs without an event loop, usable from any number of threads.

    with SyncHost("~/sessions") as host:
        session = host.create(cwd="/work/project")
        session.append_message("user", "Hello")

A `SyncHost` runs a `SessionHost` in a thread of its own. Every method passes its call to that thread and blocks until
the result is available, even for reads of the index. Arguments, results and errors are those of the async twin. This
package contains no logic of its own.
"""

from __future__ import annotations

from .host import SyncHost as SyncHost
from .host import SyncKeyedSessions as SyncKeyedSessions
from .host import SyncSessionLike as SyncSessionLike
from .session import SyncSession as SyncSession
from .subscriptions import SyncEntrySubscription as SyncEntrySubscription
from .subscriptions import SyncEventSubscription as SyncEventSubscription
from .subscriptions import SyncSearch as SyncSearch
from .subscriptions import SyncSubscription as SyncSubscription
from .subscriptions import SyncTransientSubscription as SyncTransientSubscription
