"""`treering chat`: the click command. The rest of the package implements it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from ...events.errors import InvalidInput
from ...models.remote import check_address
from ..home import Home, root_option
from ..number_input import Count
from .models import ECHO, Models

if TYPE_CHECKING:
    from .opening import Opening


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
@click.option(
    "--model",
    "model_name",
    metavar="NAME",
    envvar="TREERING_MODEL",
    show_envvar=True,
    show_default="echo",
    help="The model: openai:NAME, anthropic:NAME, ollama:NAME, llama.cpp:NAME, lmstudio:NAME, or echo.",
)
@click.option(
    "--base-url",
    metavar="URL",
    envvar="TREERING_BASE_URL",
    show_envvar=True,
    help="Where the model is served, with OpenAI's or Anthropic's API.",
)
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
@root_option
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
    from .main_thread import run_chat

    models = Models.from_options(model_name, base_url, window)
    model = models.named(models.name)
    home = Home.at(root)
    opening = _opening(home, latest, named)
    ctx.exit(run_chat(home, opening, models, model, system, prompt=prompt, as_one_document=as_json))


def _opening(home: Home, latest: bool, named: str | None) -> Opening:
    """Return the session to begin with.

    Raises:
        Exit: The person chose no session, or there is no terminal to choose on.
    """
    from ..output import INTERRUPTED, refuse_to_choose
    from ..picker import has_terminal
    from .opening import Opening, choose, listed

    if named is None:
        return Opening("latest" if latest else "new")
    if named:
        return Opening("named", named)
    if not has_terminal():
        refuse_to_choose(listed(home), "-r SESSION")
    picked = choose(home)
    if picked.session is not None:
        return Opening("named", picked.session.path or picked.session.id)
    if picked.action == "new":
        return Opening("new")
    raise Exit(INTERRUPTED if picked.action == "interrupt" else 0)
