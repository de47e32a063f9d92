"""Which certificates a client of HTTP trusts: those of the machine's authorities, where there is TLS.

To read them takes longer than many requests, so that nothing here makes a client that reads them in vain.
"""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit


def verify_for(url: str) -> ssl.SSLContext | bool:
    """Return the argument `verify` of a client of httpx2 for the servers of an address.

    Args:
        url: The address. Without TLS nobody is trusted, and a client for it refuses every server that has TLS.
    """
    return True if urlsplit(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
