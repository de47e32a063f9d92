"""The interface as a page for people: what `/openapi.json` says, as HTML without a script."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any

_START = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The interface of treering</title>
<base href="{base}">
<link rel="stylesheet" href="assets/{version}/css/base.css">
<link rel="stylesheet" href="assets/{version}/css/reference.css">
</head>
<body>
<main class="reference">
<h1>The interface of treering {number}</h1>
<p>{about} <a href="openapi.json">openapi.json</a> says the same to programs.</p>
"""
_END = "</main>\n</body>\n</html>\n"


def reference(document: bytes, base: str, version: str) -> bytes:
    """Return the page.

    Args:
        document: The description of the interface.
        base: The address under which the server is seen, ending with "/".
        version: The version of the viewer's files, whose style the page has.
    """
    described: dict[str, Any] = json.loads(document)
    about = described["info"]
    start = _START.format(
        base=html.escape(base), version=version, number=_text(about["version"]), about=_text(about["description"])
    )
    return "".join([start, *_contents(described), *_routes(described), *_events(described), _END]).encode()


def _text(value: object) -> str:
    return html.escape(str(value))


def _contents(described: dict[str, Any]) -> Iterator[str]:
    yield "<nav aria-label='Routes'><ul>\n"
    for path, verbs in described["paths"].items():
        for verb, operation in verbs.items():
            name, summary = _text(operation["operationId"]), _text(operation["summary"])
            yield f"<li><a href='docs#{name}'><code>{verb.upper()} {_text(path)}</code></a> {summary}</li>\n"
    yield "</ul></nav>\n"


def _routes(described: dict[str, Any]) -> Iterator[str]:
    for path, verbs in described["paths"].items():
        for verb, operation in verbs.items():
            yield f"<section id='{_text(operation['operationId'])}'>\n"
            yield f"<h2><code>{verb.upper()} {_text(path)}</code></h2>\n<p>{_text(operation['summary'])}</p>\n"
            for paragraph in operation.get("description", "").split("\n\n"):
                if paragraph:
                    yield f"<p>{_text(paragraph)}</p>\n"
            right = operation["x-right"]
            yield f"<p>Who may: {'everybody' if right == 'none' else f'those with the role {_text(right)}'}.</p>\n"
            yield from _table("Takes", _taken(operation))
            yield from _table("Answers", _answers(operation))
            yield "</section>\n"


def _taken(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in operation["parameters"]:
        needed = ", needed" if each["required"] else ""
        yield each["name"], f"{each['in']}{needed}: {_kind(each['schema'])}"
    if "requestBody" in operation:
        for media_type, content in operation["requestBody"]["content"].items():
            yield "body", f"{media_type}: {_kind(content['schema'])}"


def _answers(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    problems: list[str] = []
    for status, reply in operation["responses"].items():
        content = reply.get("content", {})
        if "application/problem+json" in content:
            problems.append(status)
        else:
            kinds = ", ".join(f"{media_type}: {_kind(each['schema'])}" for media_type, each in content.items())
            yield status, kinds or reply["description"]
    yield ", ".join(problems), "a problem"


def _kind(schema: dict[str, Any]) -> str:
    """Return a schema in few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind: str | list[str] = schema.get("type", "anything")
    if kind == "array":
        return f"several: {_kind(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _table(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    shown = [f"<tr><th scope='row'><code>{_text(name)}</code></th><td>{_text(what)}</td></tr>\n" for name, what in rows]
    if shown:
        yield f"<table><caption>{title}</caption><tbody>\n{''.join(shown)}</tbody></table>\n"


def _events(described: dict[str, Any]) -> Iterator[str]:
    yield "<section id='events'>\n<h2>Events of streams</h2>\n"
    yield from _table("Events", iter(described["x-events"].items()))
    yield "</section>\n"
