"""`treering chat`: the command as it is called. What it does is in the other files of this folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from ...events.errors import InvalidInput
from ...models.naming import check_address
from ..home import Home, root_option
from .models import ECHO, Models

if TYPE_CHECKING:
    from .opening import Opening


@click.command()
@click.option("-c", "--continue", "latest", is_flag=True, help="Go on in the latest session of this project.")
@click.option(
    "-r",
    "--resume",
    "named",
    metavar="[SESSION]",
    is_flag=False,
    flag_value="",
    help="Go on in this session: an id, the beginning of one, or a name. Without it, choose one from a list.",
)
@click.option("-n", "--new", "anew", is_flag=True, help="Begin a new session, as without -c and -r; others are kept.")
@click.option(
    "--model",
    "model_name",
    metavar="NAME",
    envvar="TREERING_MODEL",
    show_envvar=True,
    show_default="echo",
    help="Who answers: openai:NAME, anthropic:NAME, ollama:NAME, llama.cpp:NAME, lmstudio:NAME, or echo.",
)
@click.option(
    "--base-url",
    metavar="URL",
    envvar="TREERING_BASE_URL",
    show_envvar=True,
    help="Where that model is served, by OpenAI's or Anthropic's interface.",
)
@click.option(
    "--window",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    envvar="TREERING_WINDOW",
    show_envvar=True,
    help="How many tokens that model takes; a longer conversation is then compacted by itself.",
)
@click.option("--system", metavar="TEXT", default="", help="What the system says, in every request; it is not kept.")
@click.option(
    "-p", "--prompt", metavar="TEXT", help="Say this alone, print the answer, and leave; - reads it from stdin."
)
@click.option("--json", "as_json", is_flag=True, help="With -p: print the answer as JSON, when it is whole.")
@root_option
@click.pass_context
def chat(
    ctx: click.Context,
    latest: bool,
    named: str | None,
    anew: bool,
    model_name: str | None,
    base_url: str | None,
    window: int | None,
    system: str,
    prompt: str | None,
    as_json: bool,
    root: str | None,
) -> None:
    """Talk with a model; everything is kept as it is said.

    Without a model an echo answers, which needs neither network nor key; a session that another model answered is not gone
    on with so by -p. Keys are read from the environment:
    OPENAI_API_KEY and ANTHROPIC_API_KEY for those providers, TREERING_API_KEY for what --base-url names. Ctrl-C stops an
    answer and keeps what was said of it; /help tells what else can be done.

    \b
    Examples:
      treering chat                                  a new session, with the echo
      treering chat -c --model ollama:qwen3:8b       go on in the latest session
      treering chat -r 5f0c12ab                      go on in this one
      treering chat -p "What is a tree ring?" --model anthropic:claude-sonnet-4-5
    """
    if latest + anew + (named is not None) > 1:
        raise click.UsageError("-c, -r and -n exclude each other: give one of them")
    if as_json and prompt is None:
        raise click.UsageError("--json is for one answer: give -p with what to say")
    if base_url and model_name in (None, ECHO):
        raise click.UsageError("--base-url says where a model is served: give it with --model, say openai:NAME")
    try:
        check_address(base_url or None)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--base-url") from error
    if prompt == "-":
        prompt = sys.stdin.read()
    if prompt is not None and not prompt.strip():
        raise click.UsageError("-p says nothing: give it a text")
    from .desk import hold

    models = Models.given(model_name, base_url, window)
    model = models.named(models.name)
    home = Home.at(root)
    opening = _opening(home, latest, named)
    ctx.exit(hold(home, opening, models, model, system, prompt=prompt, whole=as_json))


def _opening(home: Home, latest: bool, named: str | None) -> Opening:
    """Return in which session to begin.

    Raises:
        Exit: A session was to be chosen, and none was, or there is no terminal to choose on.
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
