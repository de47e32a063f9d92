"""Commands that serve sessions: over HTTP, with the tokens that a server knows, and to an agent over stdio."""

from __future__ import annotations

import logging
import os
import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import click
import structlog
from msgspec import Struct

from ...actors.host.host import SessionHost
from ...events.disk.disk import OsDisk
from ...events.errors import ExtraMissing, InvalidInput
from ..command_list import Commands
from ..home import TOKEN, Home, token_in
from ..options import Moment, home_options, json_option, port_option, root_option
from ..output import echo_json, run

if TYPE_CHECKING:
    from socket import socket

    from ...actors.host.placement import Placement
    from ...actors.programs.mirror import ProgramMirror
    from ...server.application import Application
    from ...server.cluster.peers import Cluster
    from ...server.tokens import Tokens

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@click.command()
@click.argument("root", required=False, type=click.Path(file_okay=False, readable=False))
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen at.")
@port_option("The port; 0 for a free one.")
@click.option("--uds", type=click.Path(path_type=Path), help="Listen at a Unix socket instead.")
@click.option("--token-file", type=click.Path(path_type=Path), help="A file with a token that may do everything.")
@click.option("--read-only", is_flag=True, help="Refuse all writes.")
@click.option("--programs", is_flag=True, help="Show the sessions of all programs of this machine, to be read only.")
@click.option("--open", "opens", is_flag=True, help="Open the viewer in the browser of this machine.")
@click.option("--root-path", metavar="PATH", default="", help="The path under which a proxy shows the server.")
@click.option("--allowed-host", metavar="NAME", multiple=True, help="Another name by which requests may call it.")
@click.option("--allow-origin", metavar="URL", multiple=True, help="Let pages of this origin ask: https://app.example.")
@click.option("--trusted-proxy", metavar="ADDRESS", multiple=True, help="A proxy whose forwarded headers count.")
@click.option("--ssl-certfile", type=click.Path(path_type=Path), help="The certificate, for TLS.")
@click.option("--ssl-keyfile", type=click.Path(path_type=Path), help="The key of the certificate.")
@click.option(
    "--advertise",
    metavar="URL",
    help="Forward requests to the hosts that own their sessions; those reach this one here.",
)
@click.option("--peer", multiple=True, metavar="NETWORK", help="A network with other hosts, such as 10.0.0.0/24.")
@click.option("--cluster-secret-file", type=click.Path(path_type=Path), help="A file with the secret of all hosts.")
def serve(
    root: str | None,
    host: str,
    port: int,
    uds: Path | None,
    token_file: Path | None,
    read_only: bool,
    programs: bool,
    opens: bool,
    root_path: str,
    allowed_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    trusted_proxy: tuple[str, ...],
    ssl_certfile: Path | None,
    ssl_keyfile: Path | None,
    advertise: str | None,
    peer: tuple[str, ...],
    cluster_secret_file: Path | None,
) -> None:
    """Serve the sessions of a directory over HTTP, until SIGTERM or Ctrl-C.

    The first line on stdout is the address; requests and errors are logged on stderr as JSON. Without a token only this
    machine may ask: `treering token create` makes one, and from then on each request needs one. Then a second line is a
    link that signs a browser in, once, within ten minutes. Options of hosts, origins, proxies, peers may be repeated.

    \b
    Examples:
      treering serve ~/sessions
      treering serve --port 0 --read-only
      treering serve --open
      treering serve --programs --open
      treering serve postgresql://db/agents --advertise http://10.0.0.5:8765 --peer 10.0.0.0/24 --cluster-secret-file s
      curl localhost:8765/v1/sessions
    """
    if programs and (root is not None or advertise is not None):
        raise click.UsageError("--programs shows the sessions of other programs: leave out ROOT and --advertise")
    home = Home.at(root)
    tokens = _tokens(home.folder, token_file)
    is_private = uds is not None or host in _LOOPBACK
    if not (is_private or tokens.any()):
        raise InvalidInput(
            f"without a token only this machine may ask, and {host} is open to others: make one by "
            "`treering token create --role admin`, or listen at 127.0.0.1"
        )
    if opens and uds is not None:
        raise InvalidInput("a browser cannot open a Unix socket: leave out --open or --uds")
    if (ssl_certfile is None) != (ssl_keyfile is None):
        raise InvalidInput("TLS needs both --ssl-certfile and --ssl-keyfile")
    serving = _Serving(
        home=None if programs else home,
        tokens=tokens,
        cluster=_cluster(advertise, peer, cluster_secret_file),
        host=host,
        port=port,
        uds=uds,
        certificate=None if ssl_certfile is None or ssl_keyfile is None else (ssl_certfile, ssl_keyfile),
        root_path=root_path,
        opens=opens,
        is_private=is_private,
        read_only=read_only or programs,
        allowed_hosts=allowed_host,
        allow_origins=allow_origin,
        trusted_proxies=trusted_proxy,
    )
    run(_serve, serving, use_uvloop=find_spec("uvloop") is not None)


class _Serving(Struct, frozen=True, kw_only=True):
    """A server as the command line describes it; without a `home`, it shows the sessions of other programs."""

    home: Home | None
    tokens: Tokens
    cluster: Cluster | None
    host: str
    port: int
    uds: Path | None
    certificate: tuple[Path, Path] | None
    root_path: str
    opens: bool
    is_private: bool
    read_only: bool
    allowed_hosts: tuple[str, ...]
    allow_origins: tuple[str, ...]
    trusted_proxies: tuple[str, ...]

    def addresses(self, listening: socket) -> tuple[str, str | None]:
        """Return the address of the server, and that of its viewer for this machine; None at a Unix socket."""
        if self.uds is not None:
            return f"unix:{self.uds}", None
        scheme = "http" if self.certificate is None else "https"
        end = f"{listening.getsockname()[1]}{self.root_path}"
        here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, _shown(self.host))
        return f"{scheme}://{_shown(self.host)}:{end}", f"{scheme}://{here}:{end}/"

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[tuple[SessionHost, ProgramMirror | None]]:
        """Open the host of the sessions, and what fills it if they are those of other programs."""
        if self.home is None:
            async with _programs() as programs:
                yield programs.host, programs
            return
        placement: Placement = "local" if self.cluster is None else "forward"
        address = None if self.cluster is None else self.cluster.address
        async with SessionHost(
            self.home.root, settings=self.home.settings(), placement=placement, address=address
        ) as host:
            yield host, None

    def application(self, host: SessionHost, programs: ProgramMirror | None) -> Application:
        """Return what answers requests."""
        from ...server.application import Application
        from ...server.guard import LOOPBACK

        return Application(
            host,
            tokens=self.tokens,
            open_without_tokens=self.is_private,
            read_only=self.read_only,
            programs=programs,
            allowed_hosts=[*LOOPBACK, _shown(self.host), *self.allowed_hosts],
            allow_origins=self.allow_origins,
            cluster=self.cluster,
        )


async def _serve(serving: _Serving) -> None:
    from ...server.serving import listen, serve

    listening = listen(serving.host, serving.port, serving.uds)
    address, viewer = serving.addresses(listening)
    signs_in = viewer is not None and serving.tokens.any()
    if signs_in:
        viewer = f"{viewer}#once={serving.tokens.create('admin', once=True)}"
    started = anyio.Event()

    def say_started() -> None:
        click.echo(f"{address}\n{viewer}" if signs_in else address)
        started.set()

    async def open_viewer() -> None:
        await started.wait()
        if viewer is not None and not await anyio.to_thread.run_sync(webbrowser.open, viewer):
            click.echo("no browser could be opened here: open the address yourself", err=True)

    _log_as_json()
    async with serving.opened() as (host, programs), anyio.create_task_group() as tasks:
        if serving.opens:
            tasks.start_soon(open_viewer)
        if programs is not None:
            tasks.start_soon(programs.run)
        await serve(
            serving.application(host, programs),
            listening,
            root_path=serving.root_path,
            trusted_proxies=serving.trusted_proxies,
            certificate=serving.certificate,
            started=say_started,
        )
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _programs() -> AsyncGenerator[ProgramMirror]:
    """Show the sessions of the programs of this machine in a host whose root is a temporary folder."""
    from ...actors.programs.mirror import ProgramMirror
    from ...actors.programs.sessions import ProgramSessions

    with TemporaryDirectory(prefix="treering-programs-") as root:
        async with SessionHost(root) as host:
            yield ProgramMirror(host, ProgramSessions(os.environ))


def _cluster(address: str | None, peers: tuple[str, ...], secret_file: Path | None) -> Cluster | None:
    """Return what a server knows of the other hosts; None if it is alone.

    Raises:
        InvalidInput: One of the options is missing that belong together, or one is of no use.
        OSError: The file cannot be read.
    """
    from ...server.cluster.peers import Cluster

    if address is None and not peers and secret_file is None:
        return None
    if address is None or not peers or secret_file is None:
        raise InvalidInput("a server of several needs --advertise, --peer and --cluster-secret-file: give all three")
    return Cluster(address, secret_file.read_bytes().strip(), peers)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log_as_json() -> None:
    """Log events on stderr, one JSON object a line, and what other libraries log in the same form."""
    add_level, add_time = structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)
    render = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[add_level, add_time, render],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    others = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        foreign_pre_chain=[add_level, add_time, structlog.processors.format_exc_info],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(others)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _tokens(folder: str, token_file: Path | None = None) -> Tokens:
    """Return the tokens of a root, and those that are given.

    Raises:
        ExtraMissing: The server's packages are not installed.
        InvalidInput: The file holds no token.
        OSError: It cannot be read.
    """
    try:
        from ...server.tokens import Tokens
    except ImportError as error:
        raise ExtraMissing("the server needs more packages: pip install 'treering[server]'") from error
    given = [os.environ[TOKEN]] if os.environ.get(TOKEN) else []
    given += [] if token_file is None else [token_in(token_file)]
    return Tokens(Path(folder, ".treering", "tokens.json"), OsDisk(), given=given)


@click.command()
@click.option("--read-only", is_flag=True, help="Offer no tool that labels entries.")
@home_options
def mcp(read_only: bool, root: str | None) -> None:
    """Let an agent look up sessions, over the Model Context Protocol by stdio.

    The program that runs the agent starts it, and stops it by closing its stdin. It offers tools to search, list, read,
    draw the tree and label, and each session as a resource that updates. Secrets are removed from what it shows.

    \b
    Examples:
      claude mcp add treering -- treering mcp
      treering mcp --server http://127.0.0.1:8765 --read-only
    """
    run(_answer_agent, Home.at(root), read_only)


async def _answer_agent(home: Home, read_only: bool) -> None:
    from ...mcp.reach import HostReach
    from ...mcp.stdio import StdioServer

    async with home.opened() as host:
        await StdioServer(HostReach(host, may_write=not read_only)).run()


@click.group(cls=Commands)
def token() -> None:
    """Manage the tokens by which a server knows who asks.

    \b
    Examples:
      treering token create --role write --prefix team-a: --expires 30d
      treering token list
    """


@token.command()
@click.option("--role", type=click.Choice(["read", "write", "admin"]), required=True, help="What its owner may do.")
@click.option("--prefix", help="Only sessions whose key begins with this, which ends with ':'.")
@click.option("--expires", type=Moment(ahead=True), help="When it ends: a date, or 30d from now; by default never.")
@root_option
def create(role: str, prefix: str | None, expires: datetime | None, root: str | None) -> None:
    """Make a token, and print it; only a hash of it is kept.

    \b
    Examples:
      treering token create --role admin
      treering token create --role write --prefix team-a: --expires 30d
    """
    click.echo(_tokens(Home.at(root).folder).create(role, prefix=prefix, expires=expires))  # type: ignore[arg-type]  # a choice


@token.command("list")
@json_option
@root_option
def list_tokens(as_json: bool, root: str | None) -> None:
    """List the tokens: their ids, roles and prefixes, and when they end."""
    kept = _tokens(Home.at(root).folder).all()
    if as_json:
        shown = ("id", "role", "prefix", "created", "expires")
        echo_json([{name: getattr(each, name) for name in shown} for each in kept])
        return
    for each in kept:
        ends = "never ends" if each.expires is None else f"ends {each.expires:%Y-%m-%d %H:%M}"
        click.echo(f"{each.id}  {each.role:5}  {each.prefix or '(all sessions)'}  {ends}")


@token.command()
@click.argument("token_id")
@root_option
def revoke(token_id: str, root: str | None) -> None:
    """End a token now, in servers that run too; TOKEN_ID is its id in the list."""
    if not _tokens(Home.at(root).folder).revoke(token_id):
        raise InvalidInput(f"there is no token {token_id!r}: `treering token list` shows their ids")
