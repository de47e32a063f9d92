"""The sessions of a server (`treering serve`), by the same calls as those of a host of one's own.

    from treering.remote import RemoteHost

    async with RemoteHost("http://127.0.0.1:8765", token=token) as host:
        session = await host.get_or_create("telegram:123456")
        await session.append_message("user", "Hello")

It needs the extra `remote`.
"""

from ..events.errors import ExtraMissing

try:
    from .host import RemoteHost
    from .session import RemoteSession
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise
    raise ExtraMissing("sessions of a server need the package httpx2: pip install 'treering[remote]'") from error

__all__ = ["RemoteHost", "RemoteSession"]
