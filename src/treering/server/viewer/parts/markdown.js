/**
 * Messages as Markdown: tokens of the parser become elements and text nodes, never HTML.
 *
 * The rules are those of the exported page: CommonMark, tables and strikethrough; raw HTML is text, links lead to the
 * web or a mailbox, nothing is loaded. While a text is being written, blocks that are closed are kept as they are, and
 * only the last one is parsed again.
 */

import "../vendor/markdown-it.min.js";
import { Component, h } from "../vendor/preact.js";
import { CopyButton } from "./copy.js";
import { Plain } from "./plain.js";
import { clean, signs } from "./signs.js";

/** Longer texts are shown as they are: they are not written as Markdown, and parsing them is slow. */
export const PARSED_CHARS_MAX = 200_000;

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;
const HEADINGS_BELOW = 3;
/** Emphasis within emphasis may be nested without end; what is deeper is drawn as if it stood here. */
const NESTED_MAX = 48;
const CODE_CHARS_MAX = 20_000;
const UNFINISHED = /(?:^|\n) {0,3}(?:`{1,2}|~{1,2}|`{3,}[^\n`]*|~{3,}[^\n]*)$/;
const LINKED = { rel: "noopener noreferrer nofollow", target: "_blank" };

const parsers = new Map();

function parserFor(typed) {
  if (!parsers.has(typed)) {
    const options = { html: false, linkify: false, typographer: false, breaks: typed };
    const parser = globalThis.markdownit("commonmark", options).enable(["table", "strikethrough"]);
    parser.validateLink = (url) => SAFE_LINK.test(url.trim());
    parsers.set(typed, parser);
  }
  return parsers.get(typed);
}

/**
 * A text of a message.
 *
 * @param {{ text: string, typed?: boolean, streaming?: boolean }} props `typed`: by a person, whose line breaks are
 *   meant; `streaming`: more of it will come.
 */
export class Markdown extends Component {
  #blocks = [];
  #text = "";

  render({ text, typed = false, streaming = false }) {
    if (text.length > PARSED_CHARS_MAX) return h(Plain, { text });
    let shown = clean(text);
    if (streaming) shown = shown.replace(UNFINISHED, "");
    if (!shown.trim()) return null;
    this.#update(shown, typed, streaming);
    return h(
      "div",
      { class: "said", dir: "auto" },
      this.#blocks.map((each, place) => h(Block, { ...each, key: place })),
    );
  }

  /** Parse from the last block on, if the text only grew; otherwise all of it. */
  #update(text, typed, streaming) {
    const last = this.#blocks.at(-1);
    const grows = streaming && last !== undefined && text.startsWith(this.#text.slice(0, last.start));
    const start = grows ? last.start : 0;
    const kept = grows ? this.#blocks.slice(0, -1) : [];
    this.#blocks = [...kept, ...blocksOf(text.slice(start), start, typed)];
    this.#text = text;
  }
}

/** The blocks of a text at the outermost level: their tokens, source and place. */
function blocksOf(text, start, typed) {
  const env = {};
  const tokens = parserFor(typed).parse(text, env);
  const offsets = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) offsets.push(at + 1);
  const blocks = [];
  for (let first = 0; first < tokens.length;) {
    let after = first + 1;
    if (tokens[first].nesting === 1) {
      while (tokens[after].level > tokens[first].level || tokens[after].nesting !== -1) after += 1;
      after += 1;
    }
    const [from, to] = tokens[first].map;
    const source = text.slice(offsets[from], offsets[to] ?? text.length);
    blocks.push({
      start: start + offsets[from],
      source,
      tokens: tokens.slice(first, after),
      references: env.references,
    });
    first = after;
  }
  return blocks;
}

/** One block, drawn again only when its source changes. */
class Block extends Component {
  shouldComponentUpdate(next) {
    return next.source !== this.props.source || next.references !== undefined;
  }

  render({ tokens }) {
    return elements(tokens);
  }
}

/** The children that tokens stand for. */
function elements(tokens) {
  const root = [];
  const open = [];
  let children = root;
  for (const token of tokens) {
    if (token.nesting === 1) {
      open.push({ token, children });
      children = [];
    } else if (token.nesting === -1) {
      const opened = open.pop();
      const inside = children;
      children = opened.children;
      if (opened.token.hidden || open.length >= NESTED_MAX) children.push(...inside);
      else children.push(h(tagOf(opened.token), attributesOf(opened.token, inside.length), inside));
    } else {
      const element = leafOf(token);
      if (Array.isArray(element)) children.push(...element);
      else children.push(element);
    }
  }
  return root;
}

function tagOf(token) {
  return token.type === "heading_open" ? `h${Math.min(6, Number(token.tag.slice(1)) + HEADINGS_BELOW)}` : token.tag;
}

/** @param {object} token what opens an element · @param {number} children how many it has */
function attributesOf(token, children) {
  if (token.type === "link_open") {
    const href = token.attrGet("href");
    return { href, title: href, ...LINKED };
  }
  if (token.type === "th_open" || token.type === "td_open") {
    const side = (token.attrGet("style") ?? "").replace("text-align:", "");
    return side === "center" || side === "right" ? { class: side } : null;
  }
  // each block has the direction of its own text
  const own = token.level === 0 ? { dir: "auto" } : null;
  if (token.type !== "ordered_list_open") return own;
  const start = Number(token.attrGet("start") ?? 1);
  const digits = String(start + children).length;
  return { ...own, start, style: digits > 2 ? { paddingInlineStart: `${digits + 1.5}ch` } : undefined };
}

function leafOf(token) {
  switch (token.type) {
    case "inline":
      return elements(token.children);
    case "softbreak":
      return "\n";
    case "hardbreak":
      return h("br");
    case "hr":
      return h("hr");
    case "code_inline":
      return h("code", null, signs(token.content));
    case "fence":
    case "code_block":
      return h(Code, { text: token.content, language: token.info.trim().split(/\s+/)[0] });
    case "image":
      return h(OutsideImage, { address: token.attrGet("src"), name: token.content });
    default:
      return [signs(token.content)].flat();
  }
}

/** A block of code, with its language and a button that copies it. */
function Code({ text, language }) {
  const code = text.replace(/\n$/, "");
  if (code.length > CODE_CHARS_MAX) return h(Plain, { text: code });
  return h(
    "div",
    { class: "code", dir: "ltr" },
    h(
      "div",
      { class: "code-head" },
      h("span", { class: "code-language" }, language),
      h(CopyButton, { text: code, label: "Copy" }),
    ),
    h("pre", null, h("code", null, signs(code))),
  );
}

/** An image elsewhere: named with its host and address, and never loaded by itself. */
export function OutsideImage({ address, name }) {
  const host = URL.canParse(address) ? new URL(address).host : "";
  return h(
    "a",
    { class: "outside-image", href: address, ...LINKED },
    h("b", null, `Image${host ? ` on ${host}` : ""}`),
    name ? ` ${name} ` : " ",
    h("span", { class: "mono" }, address),
  );
}
