/** What an entry says: texts, images, thinking, calls and results, from its native JSON. */

import { h, useState } from "../vendor/preact.js";
import { ErrorLine } from "./failure.js";
import { Icon } from "./icons.js";
import { Markdown, OutsideImage } from "./markdown.js";
import { bytes } from "./numbers.js";
import { Plain } from "./plain.js";
import { signs, visible } from "./signs.js";

const SHOWN_IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/\s]+={0,2}\s*$/;
const IMAGE_BYTES_MAX = 4_000_000;
const PREVIEW_CHARS = 140;

/**
 * Something folded: one line that says what is in it, and the rest when it is opened.
 *
 * @param {{ kind: string, line: unknown, open?: boolean, onToggle?: (open: boolean) => void, children: () => unknown,
 *   built?: boolean }} props `children` makes the inside when it is first wanted; `built`: also while folded, so that
 *   the browser's search finds it.
 */
export function Fold({ kind, line, open, onToggle, children, built = false }) {
  const [own, setOwn] = useState(false);
  const isOpen = open ?? own;
  const toggle = () => (onToggle ? onToggle(!isOpen) : setOwn(!isOpen));
  const folded = built ? "until-found" : true;
  return h(
    "div",
    { class: `fold ${kind}${isOpen ? " is-open" : ""}` },
    h(
      "button",
      { class: "fold-line", type: "button", "aria-expanded": String(isOpen), onClick: toggle },
      h(Icon, { name: "fold" }),
      line,
    ),
    isOpen || built
      ? h(
          "div",
          { class: "fold-inside", hidden: isOpen ? false : folded, onbeforematch: isOpen ? undefined : toggle },
          children(),
        )
      : null,
  );
}

/** The visible line of a fold: a name, the beginning of what is in it, its size. */
export function foldLine(name, preview, ...notes) {
  return [
    h("span", { class: "fold-name" }, name),
    h(
      "span",
      { class: "fold-preview", dir: "auto" },
      visible(preview.slice(0, 4 * PREVIEW_CHARS)).slice(0, PREVIEW_CHARS),
    ),
    ...notes.filter(Boolean).map((each) => h("span", { class: "fold-note num" }, each)),
  ];
}

/** Thinking: folded, soft; redacted thinking says so. */
export function Thinking({ thinking, duration, open, onToggle, built, streaming }) {
  const text = thinking.content ?? "";
  const name = streaming ? "thinking" : duration ? `thought ${duration}` : "thought";
  const preview = thinking.redacted ? "redacted by its provider" : text;
  if (!text.trim())
    return h(
      "p",
      { class: "thinking-empty soft" },
      `${name}${thinking.redacted ? ", redacted by its provider" : ", not shown by its provider"}`,
    );
  return h(Fold, { kind: "thinking", line: foldLine(name, preview), open, onToggle, built }, () =>
    h(Markdown, { text, streaming }),
  );
}

/** An image: embedded ones bounded, larger at a click; those elsewhere only named. */
export function Image({ image }) {
  const [shown, setShown] = useState(false);
  const [large, setLarge] = useState(false);
  const source = image.source ?? {};
  if (source.type === "url") {
    if (/^https?:\/\//i.test(source.data)) return h("p", null, h(OutsideImage, { address: source.data }));
    return h(
      "p",
      { class: "soft" },
      `Image (${visible(source.media_type ?? "")}) at `,
      h("code", null, visible(String(source.data).slice(0, 200))),
    );
  }
  const size = Math.floor(((source.data ?? "").length * 3) / 4);
  const words = `${visible(source.media_type ?? "image")}, ${bytes(size)}`;
  if (!SHOWN_IMAGES.has(source.media_type) || !BASE64.test(source.data))
    return h("p", { class: "soft" }, `Image (${words}), not shown`);
  if (size > IMAGE_BYTES_MAX && !shown) {
    return h(
      "p",
      null,
      h("button", { class: "button", type: "button", onClick: () => setShown(true) }, `Show image (${words})`),
    );
  }
  const address = `data:${source.media_type};base64,${source.data.replace(/\s+/g, "")}`;
  return h(
    "figure",
    { class: large ? "image is-large" : "image" },
    h(
      "button",
      {
        type: "button",
        "aria-expanded": String(large),
        title: large ? "smaller" : "larger",
        onClick: () => setLarge(!large),
      },
      h("img", { src: address, alt: `Image (${words})`, loading: "lazy", decoding: "async" }),
    ),
    h("figcaption", null, words),
  );
}

/** The arguments of a call: a list of names and values, texts without quotes. */
export function Arguments({ input }) {
  const names = input && typeof input === "object" && !Array.isArray(input) ? Object.keys(input) : null;
  if (names === null) return h(Plain, { text: JSON.stringify(input, null, 2) ?? "" });
  if (!names.length) return h("p", { class: "soft" }, "No arguments.");
  return h(
    "dl",
    { class: "arguments" },
    names.map((name) => [
      h("dt", { key: `${name}:` }, signs(name)),
      h("dd", { key: name }, h(Value, { value: input[name] })),
    ]),
  );
}

function Value({ value }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (text.length < 200 && !text.includes("\n")) return h("span", { class: "mono", dir: "auto" }, signs(text));
  return h(Plain, { text, head: 60, tail: 20 });
}

/** The text of a result; texts of several parts are joined by line breaks. */
export function resultText(result) {
  if (typeof result.content === "string") return result.content;
  return (result.content ?? [])
    .filter((each) => each.type === "text")
    .map(textOf)
    .join("\n");
}

/** The body of a result: its text, then its images. */
export function Result({ result, head, tail }) {
  const text = resultText(result);
  const images = Array.isArray(result.content) ? result.content.filter((each) => each.type === "image") : [];
  return [
    text ? h(Plain, { text, head, tail }) : images.length ? null : h("p", { class: "soft" }, "No output."),
    ...images.map((each, place) => h(Image, { key: place, image: each.image })),
  ];
}

/** The text of a text part, in either of its forms. */
export function textOf(part) {
  return typeof part.text === "string" ? part.text : (part.text?.content ?? "");
}

/** The parts of a message's content as a list, also where it is a string. */
export function partsOf(content) {
  if (typeof content === "string") return content ? [{ type: "text", text: { content } }] : [];
  return content ?? [];
}

/**
 * Parts one below the other; calls and results folded.
 *
 * @param {{ parts: object[]|string, typed?: boolean, streaming?: boolean }} props
 */
export function Content({ parts, typed = false, streaming = false }) {
  return partsOf(parts).map((each, place) => h(Part, { key: place, part: each, typed, streaming }));
}

function Part({ part, typed, streaming }) {
  switch (part.type) {
    case "text":
      return h(Markdown, { text: textOf(part), typed, streaming });
    case "thinking":
      return h(Thinking, { thinking: part.thinking, streaming });
    case "image":
      return h(Image, { image: part.image });
    case "tool_use": {
      const { name, input } = part.tool_use;
      return h(Fold, { kind: "tool", line: foldLine(visible(name), argumentsLine(input)) }, () =>
        h(Arguments, { input }),
      );
    }
    case "tool_result": {
      const result = part.tool_result;
      const text = resultText(result);
      const kind = result.is_error ? "tool result is-error" : "tool result";
      return h(Fold, { kind, line: foldLine(result.is_error ? "failed" : "result", text, bytes(text.length)) }, () =>
        h(Result, { result }),
      );
    }
    default:
      return h(Plain, { text: JSON.stringify(part, null, 2) });
  }
}

/** A call's arguments on one line: the value of a single one, `name: value` of several. */
export function argumentsLine(input) {
  if (!input || typeof input !== "object") return String(input ?? "");
  const entries = Object.entries(input);
  const plain = (value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? "")).slice(0, 200);
  return entries.length === 1
    ? plain(entries[0][1])
    : entries.map(([name, value]) => `${name}: ${plain(value)}`).join(", ");
}

/** The whole body of an entry of any type. */
export function EntryBody({ entry }) {
  if (entry.opaque) return h(Plain, { text: JSON.stringify(entry.line, null, 2) });
  const payload = entry[entry.type] ?? {};
  switch (entry.type) {
    case "message":
      if (payload.bash) return h(Command, { bash: payload.bash });
      return [
        h(Content, { parts: payload.content, typed: payload.role === "user" }),
        payload.error ? h(ErrorLine, { text: payload.error }) : null,
      ];
    case "custom_message":
      return h(Content, { parts: payload.content });
    case "compaction":
    case "branch_summary":
      return payload.summary ? h(Markdown, { text: payload.summary }) : h("p", { class: "soft" }, "No summary.");
    default:
      return h(Plain, { text: JSON.stringify(payload, null, 2) });
  }
}

/** A command that a person ran, and its output. */
export function Command({ bash }) {
  const notes = [
    bash.cancelled && "cancelled",
    bash.exit_code && `exit ${bash.exit_code}`,
    bash.exclude_from_context && "not shown to the model",
  ];
  return h(
    "div",
    { class: bash.exit_code ? "ran is-error" : "ran" },
    h(
      "p",
      { class: "mono" },
      "$ ",
      signs(bash.command ?? ""),
      " ",
      h("span", { class: "soft" }, notes.filter(Boolean).join(", ")),
    ),
    bash.output ? h(Plain, { text: bash.output }) : h("p", { class: "soft" }, "No output."),
  );
}
