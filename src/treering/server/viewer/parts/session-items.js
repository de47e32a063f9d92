/** Items of the outline made from entries that the stream brings, like those the server makes. */

import { argumentsLine, partsOf, resultText, textOf } from "./content.js";

const WORDS_MAX = 160;
const ARGUMENT_MAX = 80;
const MATTERS = [
  "command",
  "cmd",
  "path",
  "file_path",
  "file",
  "filename",
  "query",
  "pattern",
  "url",
  "prompt",
  "question",
  "description",
];

function words(text, chars) {
  const line = text
    .slice(0, 8 * chars)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > chars ? `${line.slice(0, chars - 1)}…` : line;
}

/** The argument of a call that says most about it. */
export function argumentOf(input) {
  const name = MATTERS.find((each) => typeof input?.[each] === "string");
  return words(name ? input[name] : argumentsLine(input), ARGUMENT_MAX);
}

/** The outline's item of an entry that was appended to the end of its path. */
export function itemOf(entry) {
  const payload = entry[entry.type] ?? {};
  const parts = entry.type === "message" || entry.type === "custom_message" ? partsOf(payload.content) : [];
  const calls = parts.filter((each) => each.type === "tool_use").map((each) => each.tool_use);
  const results = parts.filter((each) => each.type === "tool_result").map((each) => each.tool_result);
  const usage = payload.usage ?? {};
  return {
    id: entry.id,
    seq: entry.seq,
    parent_id: entry.parent_id,
    type: entry.type,
    role: payload.role ?? null,
    text: words(
      payload.summary ??
        parts
          .filter((each) => each.type === "text")
          .map(textOf)
          .join(" "),
      WORDS_MAX,
    ),
    tools: calls.map(({ id, name, input }) => ({ id, name, argument: argumentOf(input) })),
    results: results.map((each) => ({
      call_id: each.tool_use_id,
      error: each.is_error === true,
      bytes: resultText(each).length,
    })),
    call_id: payload.tool_call_id ?? null,
    bytes: JSON.stringify(payload).length,
    timestamp: entry.timestamp,
    duration_ms: payload.duration_ms ?? null,
    tokens: usage.total_tokens ?? null,
    branches: 1,
    branch: 1,
    label: null,
    error: payload.error ?? null,
    in_context: true,
    model: payload.model ?? null,
  };
}
