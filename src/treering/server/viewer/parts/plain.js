/** Text of any size as it is: the output of a tool, a file, a message that is too long for Markdown. */

import { Component, h } from "../vendor/preact.js";
import { CopyButton } from "./copy.js";
import { bytes, count } from "./numbers.js";
import { clean, signs } from "./signs.js";

const HEAD_LINES = 200;
const TAIL_LINES = 300;
const PART_CHARS_MAX = 40_000;
const LINE_CHARS_MAX = 4_096;
const STEP_LINES = 1_000;

/** The place after at most `lines` lines and `chars` characters from `start`; a longer line is whole. */
function placeAfter(text, start, lines, chars) {
  let at = start;
  for (let line = 0; line < lines; line += 1) {
    const next = text.indexOf("\n", at);
    if (next < 0) return text.length;
    at = next + 1;
    if (at - start >= chars) break;
  }
  return at;
}

/** The place where the last lines of a text begin, within the same bounds. */
function placeBefore(text, lines, chars) {
  let at = text.length;
  for (let line = 0; line < lines; line += 1) {
    const before = at < 2 ? -1 : text.lastIndexOf("\n", at - 2);
    if (before < 0) return 0;
    if (text.length - before > chars && line > 0) break;
    at = before + 1;
  }
  return at;
}

/** How many lines a text has. */
export function lineCount(text) {
  if (!text) return 0;
  let found = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) found += 1;
  return found;
}

/**
 * A text with its line breaks and spaces: head and tail of a long one, with the way to the rest.
 *
 * @param {{ text: string, head?: number, tail?: number }} props
 */
export class Plain extends Component {
  state = { more: 0 };
  #given = null;
  #text = "";
  #lines = 0;

  render({ text, head = HEAD_LINES, tail = TAIL_LINES }, { more }) {
    if (text !== this.#given) {
      this.#given = text;
      this.#text = clean(text);
      this.#lines = lineCount(this.#text);
    }
    const shown = this.#text;
    const chars = PART_CHARS_MAX * (1 + more);
    const headEnd = placeAfter(shown, 0, head + more * STEP_LINES, chars);
    const tailStart = Math.max(headEnd, tail > 0 ? placeBefore(shown, tail, PART_CHARS_MAX) : shown.length);
    const first = shown.slice(0, headEnd);
    const last = shown.slice(tailStart);
    const left = shown.slice(headEnd, tailStart);
    return h(
      "div",
      { class: "plain", dir: "auto" },
      h("pre", null, linesOf(first)),
      left ? this.#gap(left, first, last) : null,
      last ? h("pre", null, linesOf(last)) : null,
      h(
        "div",
        { class: left ? "plain-foot" : "plain-foot is-over" },
        left
          ? h(CopyButton, {
              text: first + last,
              label: `Copy the ${count(lineCount(first) + lineCount(last))} lines shown`,
            })
          : null,
        h(CopyButton, { text, label: left ? `Copy all ${bytes(text.length)}` : "Copy" }),
      ),
    );
  }

  #gap(left, first, last) {
    const shownLines = lineCount(first) + lineCount(last);
    const hidden = `${count(this.#lines - shownLines)} lines, ${bytes(left.length)}`;
    const words = `${count(shownLines)} of ${count(this.#lines)} lines shown; ${hidden} left out here`;
    return h(
      "p",
      { class: "plain-gap" },
      h("span", null, words),
      h(
        "button",
        { class: "button quiet", type: "button", onClick: () => this.setState(({ more }) => ({ more: more + 1 })) },
        `Show ${count(Math.min(STEP_LINES, this.#lines - shownLines))} more`,
      ),
    );
  }
}

/** Lines as children of a `<pre>`; lines beyond 4 KB in pieces that are asked for. */
function linesOf(text) {
  if (text.length <= LINE_CHARS_MAX) return signs(text);
  const children = [];
  let plain = 0;
  for (let start = 0; start < text.length;) {
    const end = text.indexOf("\n", start);
    const after = end < 0 ? text.length : end + 1;
    if (after - start > LINE_CHARS_MAX) {
      if (start > plain) children.push(signs(text.slice(plain, start)));
      children.push(h(LongLine, { text: text.slice(start, after), key: start }));
      plain = after;
    }
    start = after;
  }
  if (plain < text.length) children.push(signs(text.slice(plain)));
  return children.flat();
}

/** One very long line, of which a piece is shown. */
class LongLine extends Component {
  state = { pieces: 1 };

  render({ text }, { pieces }) {
    const end = pieces * LINE_CHARS_MAX;
    const left = text.length - end;
    return [
      h("span", { class: "long-line" }, signs(text.slice(0, end))),
      left > 0
        ? h(
            "button",
            { class: "button quiet", type: "button", onClick: () => this.setState({ pieces: pieces * 2 }) },
            `… ${bytes(left)} more on this line`,
          )
        : null,
    ];
  }
}
