"""Sessions over HTTP: a server for programs in any language, on top of one host.

    async with SessionHost("~/sessions") as host:
        application = app(host, authorize=who_asks)   # an ASGI application, to run or to mount

`treering serve ROOT` runs it as a process. Nothing of a session's logic is here: each route is one call of the library.
"""

from .application import Application, app
from .http.limits import ServerLimits
from .principals import Authorize, Principal, Role
from .tokens import Tokens

__all__ = ["Application", "Authorize", "Principal", "Role", "ServerLimits", "Tokens", "app"]
