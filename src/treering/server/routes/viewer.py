"""Routes of the viewer: one page at all of its addresses, and the files that it loads. None of them holds data."""

from __future__ import annotations

from ..assets import Asset, assets
from ..http.compression import coding_of
from ..http.problems import NoSuchRoute
from ..http.reference import reference
from ..routing import Call, Nothing, Reply, Routes

routes = Routes()

_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


async def viewer(call: Call[Nothing, None]) -> Reply:
    """Return the page of the viewer, which reads its own address."""
    page = assets().page(call.incoming.scope.get("root_path", ""))
    call.unless_known(page.tag)
    return _reply(call, page, {})


for _path in (
    "/",
    "/sessions",
    "/usage",
    "/s/{session_id}",
    "/s/{session_id}/e/{entry}",
    "/s/{session_id}/tree",
    "/s/{session_id}/saw/{entry}",
    "/s/{session_id}/compare/{one}/{other}",
):
    routes.add("GET", _path, right="none", page=True)(viewer)


@routes.add("GET", "/docs", right="none", page=True)
async def docs(call: Call[Nothing, None]) -> Reply:
    """Return the interface as a page for people."""
    tag, document = call.service.openapi()
    root_path = call.incoming.scope.get("root_path", "")
    call.unless_known(f"{tag}.{assets().version}")
    return Reply(reference(document, f"{root_path}/", assets().version), media_type="text/html; charset=utf-8")


@routes.add("GET", "/client.js", right="none", page=True)
async def client(call: Call[Nothing, None]) -> Reply:
    """Return the client for JavaScript."""
    return _current(call, "client.js")


@routes.add("GET", "/favicon.ico", right="none", page=True)
async def icon(call: Call[Nothing, None]) -> Reply:
    """Return the icon, for browsers that show something else than the page."""
    return _current(call, "icon.svg")


@routes.add("GET", "/assets/{version}/{name}", right="none", page=True)
async def asset(call: Call[Nothing, None]) -> Reply:
    """Return a file of the viewer."""
    return _versioned(call, call.names["name"])


@routes.add("GET", "/assets/{version}/{folder}/{name}", right="none", page=True)
async def asset_in_folder(call: Call[Nothing, None]) -> Reply:
    """Return a file of the viewer that lies in a folder."""
    return _versioned(call, f"{call.names['folder']}/{call.names['name']}")


def _current(call: Call[Nothing, None], name: str) -> Reply:
    asset = _found(name)
    call.unless_known(asset.tag)
    return _reply(call, asset, {})


def _versioned(call: Call[Nothing, None], name: str) -> Reply:
    """Return a file of this version.

    Raises:
        NoSuchRoute: The page that asks is of another version, or there is no such file.
    """
    if call.names["version"] != assets().version:
        raise NoSuchRoute("this file is of another version of the viewer: load the page again")
    asset = _found(name)
    call.unless_known(asset.tag)
    return _reply(call, asset, _FOR_EVER)


def _found(name: str) -> Asset:
    asset = assets().find(name)
    if asset is None:
        raise NoSuchRoute("the viewer has no such file")
    return asset


def _reply(call: Call[Nothing, None], asset: Asset, headers: dict[str, str]) -> Reply:
    if coding_of(call.request.headers.get("accept-encoding", "").encode(), among=("gzip",)):
        return Reply(asset.packed, headers={**headers, "content-encoding": "gzip"}, media_type=asset.media_type)
    return Reply(asset.plain, headers=headers, media_type=asset.media_type)
