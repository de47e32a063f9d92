"""The interface as OpenAPI 3.1, made from the route table and the types that it names.

`python -m treering.server.openapi docs/openapi.json` writes it to a file.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw, structs

from ..events.problem import MEDIA_TYPE, Problem
from .http.fields import KEY_PATTERN
from .http.openai_errors import PATHS, OpenAIRefusal
from .http.wire import new_entry_type
from .routes.entries import NewEntries
from .routes.table import ROUTES
from .routing import Nothing, Route

_ALWAYS = (400, 401, 403, 404, 405, 408, 413, 414, 415, 429, 431, 500, 503)
"""Statuses that any route under /v1 may answer with."""

_COMPONENTS = "#/components/schemas/{name}"

_EVENTS = {
    "entry": "An entry; its id is the cursor after it.",
    "reset": "The log was replaced; all entries of the new one follow.",
    "ready": "The reader has caught up.",
    "transient": "An event that no log has.",
    "view": "The value of a view.",
    "change": "A change of a view.",
    "session": "A session of the listing is new, changed or gone.",
    "problem": "A problem document: what cannot be read.",
    "bye": "The stream ends, and whether to open another one.",
}


@cache
def document() -> bytes:
    """Return the description as JSON."""
    from .. import __version__

    types_named = [*_types(), Problem, OpenAIRefusal]
    (schemas, components) = msgspec.json.schema_components(
        types_named, schema_hook=_schema_of, ref_template=_COMPONENTS
    )
    by_type = dict(zip(map(id, types_named), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in _described():
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, by_type)
    described: dict[str, object] = {
        "openapi": "3.1.0",
        "info": {
            "title": "treering",
            "version": __version__,
            "description": "Sessions of LLM agents: append-only, branching, followed as they grow.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
        "x-events": _EVENTS,
    }
    return json.dumps(_dedented(described), indent=1, ensure_ascii=False).encode() + b"\n"


def _dedented(value: object) -> object:
    """Return a document without the indentation of docstrings, which older releases of msgspec leave in texts."""
    if isinstance(value, list):
        return [_dedented(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, object]", value)
    return {
        key: inspect.cleandoc(each) if key == "description" and isinstance(each, str) else _dedented(each)
        for key, each in found.items()
    }


def _described() -> list[Route]:
    return [route for route in ROUTES if not route.page]


def _types() -> list[Any]:
    found: dict[int, Any] = {}
    for route in _described():
        for each in (route.query, _body_type(route), route.reply, route.refusal):
            if each is not None and each is not bytes and each is not Nothing:
                found[id(each)] = each
    return list(found.values())


def _body_type(route: Route) -> Any:  # noqa: ANN401  # any type
    return new_entry_type() if route.body is NewEntries else route.body


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Raw:
        return {}
    raise NotImplementedError


def _operation(route: Route, by_type: dict[int, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "x-right": route.right,
        "parameters": _parameters(route),
        "responses": _responses(route, by_type),
    }
    rest = inspect.getdoc(route.handler) or ""
    if "\n" in rest:
        described["description"] = rest.split("\n", 1)[1].strip()
    if route.right == "none":
        described["security"] = []
    if route.body is bytes:
        described["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    elif route.body is not None:
        schema = {**by_type[id(_body_type(route))], **route.schema}
        if route.body is NewEntries:
            schema = {"anyOf": [schema, _several(schema)]}
        is_needed = route.body is NewEntries or any(each.required for each in structs.fields(route.body))
        described["requestBody"] = {"required": is_needed, "content": {"application/json": {"schema": schema}}}
    return described


def _several(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body of several entries, given that of one."""
    (_, components) = msgspec.json.schema_components([NewEntries], schema_hook=_schema_of, ref_template=_COMPONENTS)
    schema: dict[str, Any] = components[NewEntries.__name__]
    entries = {"type": "array", "items": entry, "minItems": 1}
    return {**schema, "properties": {**schema["properties"], "entries": entries}}


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": segment[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for segment in route.path.split("/")
        if segment.startswith("{")
    ]
    if route.query is not Nothing:
        hints = get_type_hints(route.query, include_extras=True)
        for each in structs.fields(route.query):
            schema = _query_schema(hints[each.name])
            if each.default is not NODEFAULT and isinstance(each.default, (str, int, bool)):
                schema["default"] = each.default
            parameter: dict[str, Any] = {"name": each.encode_name, "in": "query", "schema": schema}
            parameter["required"] = each.required
            if schema.get("type") == "array":
                parameter |= {"style": "form", "explode": each.encode_name.endswith("[]")}
            found.append(parameter)
    for name, is_taken, pattern in (
        ("Idempotency-Key", route.keyed, KEY_PATTERN),
        ("If-Match", route.conditional, None),
        ("If-None-Match", route.tagged, None),
        ("Last-Event-ID", route.streams, None),
        ("Prefer", route.streams, None),
    ):
        if is_taken:
            schema = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
            found.append({"name": name, "in": "header", "required": False, "schema": schema})
    schema = {"type": "string", "minLength": 1}
    return found + [{"name": name, "in": "header", "required": True, "schema": schema} for name in route.headers]


def _query_schema(hint: Any) -> dict[str, Any]:  # noqa: ANN401  # any annotation
    options = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) in (Union, types.UnionType) and len(options) == 1:
        hint = options[0]
    schema: dict[str, Any] = msgspec.json.schema(hint, schema_hook=_schema_of)
    if schema.get("format") == "date-time":
        schema["minLength"] = len("2026-01-01T00:00:00Z")
    return schema


def _responses(route: Route, by_type: dict[int, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.summary}
    content: dict[str, Any] = {
        each: {"schema": {"type": "object" if each == "application/json" else "string"}} for each in route.media_types
    }
    if route.reply is not None and route.reply is not bytes:
        content["application/json"] = {"schema": by_type[id(route.reply)]}
    if content:
        success["content"] = content
    responses = {str(status): success for status in (route.status, *route.statuses)}
    responses |= {str(status): {"description": route.summary} for status in route.empty_statuses}
    if route.tagged:
        responses["304"] = {"description": "The caller has it already."}
    told: dict[str, Any] = {MEDIA_TYPE: {"schema": by_type[id(Problem)]}}
    if route.path.startswith(PATHS):
        told = {"application/json": {"schema": by_type[id(OpenAIRefusal)]}}
    problem = {"description": "A problem.", "content": told}
    for status in (*_ALWAYS, *sorted([*route.errors, *([412] if route.conditional else [])])):
        responses.setdefault(str(status), problem)
    if route.refusal is not None:
        refusal = {"application/json": {"schema": by_type[id(route.refusal)]}}
        both = {"description": "A problem, or a refusal of the protocol.", "content": {**told, **refusal}}
        responses |= {"400": both, "404": both}
    return responses


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(document())
