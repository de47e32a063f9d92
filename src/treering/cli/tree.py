"""`treering tree`: all branches of a session."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ..actors.handles.session import Session
from ..projections.tree import LeafChanged, Tree, TreeNode, TreeReplica, to_json
from .descriptions import colored, preview_of, role_of, short
from .drawing import gutters
from .home import root_option
from .opening import find_leaf, json_option, leaf_option, opened, session_file
from .output import can_write_unicode, clean, columns, echo_json, echo_lines, run

_PREVIEW_LEAST = 20


@click.command()
@session_file
@leaf_option
@json_option
@root_option
def tree(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Draw all branches of a session; a dot marks the path to the leaf.

    \b
    Examples:
      treering tree session.jsonl
      treering tree session.jsonl --json | jq '.[] | select(.on_path).id'
    """
    run(_tree, file, root, leaf, as_json)


async def _tree(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        if as_json:
            echo_json(to_json(_seen_from(session.tree(), seq)))
        else:
            echo_lines(await tree_lines(session, seq))


async def tree_lines(session: Session, leaf: int | None = None) -> Iterator[str]:
    """Draw a session's tree, with the path to its leaf or to another entry marked.

    Args:
        session: The session.
        leaf: The seq of the other entry.
    """
    shown = _seen_from(session.tree(), leaf)
    captions: dict[int, tuple[str, str]] = {}
    async for entry in session.iter_entries():
        captions[entry.seq] = role_of(entry), preview_of(entry)
    return _lines(shown, captions)


def _seen_from(tree: Tree, leaf: int | None) -> Tree:
    """Return a tree in which the path to another entry is marked."""
    if leaf is None or leaf == tree.leaf:
        return tree
    replica = TreeReplica(tree)
    replica.apply(LeafChanged(leaf))
    return replica.tree()


def _lines(tree: Tree, captions: dict[int, tuple[str, str]]) -> Iterator[str]:
    from rich.cells import cell_len

    from .columns import cut

    width = columns()
    ascii_only = not can_write_unicode()
    dot = "*" if ascii_only else "•"
    for node, gutter in gutters(tree.nodes, ascii_only=ascii_only):
        name, preview = captions.get(node.seq, (node.role or node.type, ""))
        mark = dot if node.on_path else " "
        tail = _tail(tree, node)
        taken = cell_len(f"{gutter}{mark} {short(node.id)} {name}: {tail}")
        line = f"{gutter}{mark} {click.style(short(node.id), dim=True)} {colored(name)}"
        if preview:
            line += f": {cut(preview, max(width - taken, _PREVIEW_LEAST))}"
        yield line + (click.style(tail, bold=True) if tail else "")


def _tail(tree: Tree, node: TreeNode) -> str:
    label = f"  [{clean(node.label)}]" if node.label else ""
    return label + ("  <- leaf" if node.seq == tree.leaf else "")
