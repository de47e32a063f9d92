/** Characters that do not show themselves: terminal codes are dropped, control and direction characters are drawn. */

import { h } from "../vendor/preact.js";

const TERMINAL = /\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>NOM78c]/g;
const HIDDEN = new RegExp(
  "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb" +
    "\\u{e0000}-\\u{e007f}]",
  "gu",
);

const NAMES = {
  0x061c: "ALM",
  0x200e: "LRM",
  0x200f: "RLM",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
};

/** A text without terminal codes, with plain line breaks. */
export function clean(text) {
  const lines = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
  return lines.includes("\x1b") ? lines.replace(TERMINAL, "") : lines;
}

/** The name by which a hidden character is drawn. */
function nameOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code >= 0xe0000) return code > 0xe0020 && code < 0xe007f ? `TAG ${String.fromCharCode(code - 0xe0000)}` : "TAG";
  return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A text as children of an element: strings, and a small box for each hidden character; terminal codes are dropped. */
export function signs(given) {
  const text = clean(given);
  if (text.search(HIDDEN) < 0) return text;
  const children = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) children.push(text.slice(end, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    children.push(h("span", { class: "sign", title: `hidden character U+${code}` }, nameOf(match[0])));
    end = match.index + match[0].length;
  }
  children.push(text.slice(end));
  return children;
}

/** A text on one line, with hidden characters named, for where no element can stand (titles, labels). */
export function visible(text) {
  return clean(text)
    .replace(/[\s\u2028\u2029]+/g, " ")
    .replace(HIDDEN, (each) => `\u27e8${nameOf(each)}\u27e9`)
    .trim();
}
