"""The bounds of a server: what one request, one principal and all of them together may take."""

from __future__ import annotations

from msgspec import Struct


class ServerLimits(Struct, frozen=True, kw_only=True):
    """The bounds of a server. A request over one of them is refused with a problem that names the bound.

    Attributes:
        body_bytes_max: The size of a request's body.
        import_bytes_max: The size of a file that is imported.
        batch_max: Entries that one request may append.
        depth_max: Brackets that may be open at once in a JSON body.
        url_bytes_max: The length of a path with its query.
        header_bytes_max: The size of all headers together.
        page_max: Items on one page.
        page_bytes_max: Bytes after which a page of entries ends.
        requests_max: Requests that one principal may have running.
        streams_max: Streams that one principal may have open.
        connections_max: Connections; also requests and streams of all principals together. No more connections are
            accepted than half of the files that the process may open.
        header_for_s: Seconds within which the headers of a request must have arrived; also those that a client may take
            to begin TLS.
        idle_for_s: Seconds that a connection is kept between two requests.
        body_for_s: Seconds without a byte of a body after which its request ends.
        send_for_s: Seconds that a client may take to accept a chunk of a stream or a reply before it is dropped.
        chunk_bytes_max: Bytes after which a chunk of a stream ends; one entry is never cut.
        alive_after_s: Seconds of silence after which a stream sends a comment.
        known_every_s: Seconds after which a stream looks again whether its reader's token is still valid.
        listed_every_s: Seconds between two changes of one session in a stream of the listing.
        at_least_for_s: Seconds that a read waits for the cursor that it is to show at least.
        wait_max_s: Seconds that a read may ask to wait for new entries.
        stream_for_s: Seconds after which a stream ends with `bye`, give or take a tenth.
        drain_for_s: Seconds that a server that stops gives its streams and requests.
    """

    body_bytes_max: int = 8 * 1024 * 1024
    import_bytes_max: int = 1024 * 1024 * 1024
    batch_max: int = 1000
    depth_max: int = 128
    url_bytes_max: int = 8 * 1024
    header_bytes_max: int = 32 * 1024
    page_max: int = 1000
    page_bytes_max: int = 4 * 1024 * 1024
    requests_max: int = 64
    streams_max: int = 64
    connections_max: int = 10_000
    header_for_s: float = 10.0
    idle_for_s: float = 30.0
    body_for_s: float = 30.0
    send_for_s: float = 30.0
    chunk_bytes_max: int = 256 * 1024
    alive_after_s: float = 15.0
    at_least_for_s: float = 5.0
    wait_max_s: float = 60.0
    known_every_s: float = 2.0
    listed_every_s: float = 0.25
    stream_for_s: float = 3600.0
    drain_for_s: float = 8.0
