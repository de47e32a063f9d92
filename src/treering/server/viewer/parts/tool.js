/** A call of a tool and its result as one thing: one line, and both when it is opened. */

import { h } from "../vendor/preact.js";
import { Arguments, Result, argumentsLine, resultText } from "./content.js";
import { NotRead } from "./failure.js";
import { Icon } from "./icons.js";
import { bytes } from "./numbers.js";
import { path } from "./paths.js";
import { FOUND_BYTES_MAX } from "./session-view.js";
import { visible } from "./signs.js";
import { StateChip } from "./state.js";
import { Elapsed, duration } from "./time.js";

const CLIP = 140;

/** The state of a call in a word, with its shape: it also stands in greyscale. */
function CallState({ result, isPending, waits, since, app }) {
  if (result?.error)
    return h(
      "span",
      { class: "call-state state is-error" },
      h(Icon, { name: "error" }),
      exitWord(result.text) ?? "failed",
    );
  if (result) return null;
  if (!isPending) return h("span", { class: "call-state soft" }, "no result");
  return h(
    "span",
    { class: `call-state state ${waits ? "is-waits" : "is-working"}` },
    h(Icon, { name: waits ? "waits" : "working" }),
    waits ? "waits " : "running ",
    h(Elapsed, { since, app }),
  );
}

/** What a failed result says of its exit, in two words. */
function exitWord(text) {
  const found = /\bexit(?:ed)?(?: with)?(?: code| status)?[ :]+(\d+)/i.exec(text ?? "");
  return found ? `exit ${found[1]}` : null;
}

/**
 * One call in a row.
 *
 * @param {{ call: {id, name, argument}, input?: object, result?: {error, bytes, item}, page: object, row: object,
 *   child?: object }} props `input` is there once the body of the call's entry is; `child` is a sub-agent's session
 */
export function ToolCall({ call, input, result, page, row, child }) {
  const { app, model } = page;
  const key = `call:${row.item.id}:${call.id}`;
  const isOpen = model.isOpen(key, Boolean(result?.error));
  const body = result ? model.bodies.get(result.item.id) : undefined;
  const failure = result ? model.bodies.failure(result.item.id) : undefined;
  const found = body ? resultOf(body, call.id) : undefined;
  const known = result && {
    ...result,
    text: result.error ? (found ? resultText(found).slice(0, 4000) : result.item.text) : "",
  };
  const isBuilt = isOpen || (page.isWhole && found !== undefined && result.bytes <= FOUND_BYTES_MAX);
  const took = result?.took ?? result?.item.duration_ms ?? null;
  const argument = call.argument || (input ? argumentsLine(input).slice(0, 400) : "");
  const isPending = !result && page.isTip(row);
  const kind = `tool fold${result?.error ? " is-error" : ""}${isOpen ? " is-open" : ""}`;
  return h(
    "div",
    { class: kind, "data-call": call.id },
    h(
      "button",
      {
        class: "fold-line",
        type: "button",
        "aria-expanded": String(isOpen),
        onClick: () => model.setOpen(key, !isOpen, row.key),
      },
      h(Icon, { name: "fold" }),
      h("span", { class: "fold-name" }, visible(call.name)),
      h("span", { class: "fold-preview", dir: "auto", title: visible(argument) }, visible(argument).slice(0, CLIP)),
      h(CallState, { result: known, isPending, waits: page.waits(), since: page.since(row, call), app }),
      took === null ? null : h("span", { class: "fold-note num" }, duration(took)),
      result ? h("span", { class: "fold-note num fold-size" }, bytes(result.bytes)) : null,
    ),
    child ? h(SubAgent, { child, app }) : null,
    isOpen || isBuilt
      ? h(
          "div",
          {
            class: "fold-inside",
            hidden: isOpen ? false : "until-found",
            onbeforematch: isOpen ? undefined : () => model.setOpen(key, true, row.key),
          },
          input === undefined
            ? h("p", { class: "soft" }, "…")
            : isSaidBy(argument, input)
              ? null
              : h(Arguments, { input }),
          result ? h("div", { class: "tool-result" }, resultPart(found, failure, result, model)) : null,
        )
      : null,
  );
}

/** Whether the line of a call says all of its input already. */
function isSaidBy(argument, input) {
  const values = Object.values(input ?? {});
  return values.length === 1 && typeof values[0] === "string" && values[0] === argument && argument.length < 60;
}

function resultPart(found, failure, result, model) {
  if (found) return h(Result, { result: found, ...(result.error ? { head: 6, tail: 24 } : {}) });
  if (failure) return h(NotRead, { failure, retry: () => model.bodies.retry(result.item.id) });
  return h("p", { class: "soft loading" }, `reading ${bytes(result.bytes)} …`);
}

/** The result of a call in the body of its entry. */
function resultOf(entry, callId) {
  const parts = entry.message?.content ?? [];
  const found = Array.isArray(parts)
    ? parts.find((each) => each.type === "tool_result" && each.tool_result.tool_use_id === callId)
    : null;
  return found?.tool_result;
}

/** The session that a call started: its state, its last line, and the way in. */
function SubAgent({ child, app }) {
  const state = child.state ?? {};
  return h(
    "p",
    { class: "sub-agent" },
    h(StateChip, { state: state.state, live: state.live }),
    h(
      "a",
      { href: app.href(path.session(child.id)) },
      "Sub-agent ",
      h("bdi", null, visible(child.name || child.title || child.id).slice(0, 120)),
    ),
    h("span", { class: "soft clip", dir: "auto" }, visible(state.line ?? "")),
  );
}
