"""`treering chat` and `treering resume`: the click commands. The rest of the package implements them."""

from __future__ import annotations

import sys

import click
from click.exceptions import Exit

from ...events.errors import InvalidInput
from ...models.remote import check_address
from ...projections.summary import CORRUPTED, SessionSummary
from ..home import Home
from ..options import Count, base_url_option, home_options, model_option, session_completion
from ..output import INTERRUPTED, echo_lines, has_terminal, run
from ..rows import listed
from .models import ECHO, Models


@click.command()
@click.option("-c", "--continue", "latest", is_flag=True, help="Resume the latest session of this project.")
@click.option(
    "-r",
    "--resume",
    "named",
    metavar="[SESSION]",
    is_flag=False,
    flag_value="",
    help="Resume this session: an id, the beginning of one, or a name. Without a value, choose from a list.",
)
@click.option("-n", "--new", "new", is_flag=True, help="Start a new session, which is the default; others are kept.")
@model_option("The model: openai:NAME, anthropic:NAME, ollama:NAME, llama.cpp:NAME, lmstudio:NAME, or echo.", "echo")
@base_url_option("Where the model is served, with OpenAI's or Anthropic's API.")
@click.option(
    "--window",
    metavar="TOKENS",
    type=Count(min=1),
    envvar="TREERING_WINDOW",
    show_envvar=True,
    help="The model's window; a conversation that outgrows it is compacted automatically.",
)
@click.option("--system", metavar="TEXT", default="", help="The system prompt of every request; it is not stored.")
@click.option(
    "-p", "--prompt", metavar="TEXT", help="Send this prompt, print the answer, and exit; - reads it from stdin."
)
@click.option("--json", "as_json", is_flag=True, help="With -p: print the complete answer as JSON.")
@home_options
@click.pass_context
def chat(
    ctx: click.Context,
    latest: bool,
    named: str | None,
    new: bool,
    model_name: str | None,
    base_url: str | None,
    window: int | None,
    system: str,
    prompt: str | None,
    as_json: bool,
    root: str | None,
) -> None:
    """Talk with a model; every message is stored at once.

    The default model is an echo, which needs neither network nor key; with -p, a session that another model answered
    requires --model. Keys are read from the environment: OPENAI_API_KEY and ANTHROPIC_API_KEY for those providers,
    TREERING_API_KEY for --base-url. Ctrl-C stops an answer and keeps the part that arrived; /help lists the commands.

    \b
    Examples:
      treering chat                                  a new session, with the echo
      treering chat -c --model ollama:qwen3:8b       resume the latest session
      treering chat -r 5f0c12ab                      resume this session
      treering chat -p "What is a tree ring?" --model anthropic:claude-sonnet-4-5
    """
    if latest + new + (named is not None) > 1:
        raise click.UsageError("-c, -r and -n exclude each other: give only one of them")
    if as_json and prompt is None:
        raise click.UsageError("--json requires -p with a prompt")
    if base_url and model_name in (None, ECHO):
        raise click.UsageError("--base-url requires --model, for example openai:NAME")
    try:
        check_address(base_url or None)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--base-url") from error
    if prompt == "-":
        prompt = sys.stdin.read()
    if prompt is not None and not prompt.strip():
        raise click.UsageError("the prompt of -p is empty")
    from .main_thread import Opening, run_chat

    models = Models.from_options(model_name, base_url, window)
    model = models.named(models.name)
    home = Home.at(root)
    opening = Opening("latest" if latest else "new")
    if named == "":
        row = _chosen(home, "-r SESSION")
        named = None if row is None else row.path or row.id
    if named is not None:
        opening = Opening("named", named)
    ctx.exit(run_chat(home, opening, models, model, system, prompt=prompt, as_one_document=as_json))


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@click.option("-a", "--all", "everywhere", is_flag=True, help="Choose from the sessions of all projects.")
@model_option("The model that answers; see `treering chat`.")
@base_url_option("Where the model is served.")
@home_options
@click.pass_context
def resume(
    ctx: click.Context,
    session: str | None,
    everywhere: bool,
    model_name: str | None,
    base_url: str | None,
    root: str | None,
) -> None:
    """Resume a session, by name or chosen from a list.

    The session becomes the current one of its project, and a chat continues it. Without a terminal to choose on, the
    sessions are listed and the exit status is 2.

    Keys: Enter resumes, n starts a new session, q quits; arrows or j and k move, / filters, Tab shows all projects.

    \b
    Examples:
      treering resume
      treering resume 5f0c12ab
      treering resume "Fix the cart" --model ollama:qwen3:8b
    """
    home = Home.at(root)
    if session is None:
        row = _chosen(home, "resume SESSION", everywhere=everywhere)
        session = None if row is None else row.path or row.id
    if session is not None:
        row = run(_make_current, home, session)
        session = row.path or row.id
    target = ["--new"] if session is None else ["--resume", session]
    options = (("--model", model_name), ("--base-url", base_url), ("--root", None if home.server else home.root))
    args = [*target, *(part for name, value in options if value is not None for part in (name, value))]
    with chat.make_context("chat", args, parent=ctx.parent) as inner:
        chat.invoke(inner)


async def _make_current(home: Home, text: str) -> SessionSummary:
    """Resolve a session and make it the current one of its project; of one that cannot be read, the chat says why."""
    async with home.opened() as host:
        row = await host.resolve(text)
        if row.status != CORRUPTED:
            await host.set_current_session(row.project or home.project, row)
        return row


def _chosen(home: Home, syntax: str, *, everywhere: bool = False) -> SessionSummary | None:
    """Let a person choose, and return the session, or None for a new one.

    Without a terminal, the sessions are listed on stdout, since one has to be named.

    Args:
        home: The root and the project.
        syntax: How to name a session in this command.
        everywhere: Choose from the sessions of all projects.

    Raises:
        Exit: Nothing was chosen; the status is 0, 130 after Ctrl-C, or 2 without a terminal.
    """
    if not has_terminal():
        rows = run(listed, home, everywhere)
        echo_lines(rows)
        advice = f"there is no terminal to choose on: name one of these, as {syntax}"
        none = "there are no sessions here yet; start one with treering chat"
        click.echo(f"treering: {advice if rows else none}", err=True)
        raise Exit(2)
    from .picker_screen import choose

    picked = choose(home, everywhere=everywhere)
    if picked.action in ("quit", "interrupt"):
        raise Exit(INTERRUPTED if picked.action == "interrupt" else 0)
    return picked.session
