/** Entries that a person picked by a click and a Shift+click, drawn or not, and copied as Markdown from the data. */

import { h } from "../vendor/preact.js";
import { argumentsLine, partsOf, resultText, textOf } from "./content.js";
import { copy } from "./copy.js";
import { counted } from "./numbers.js";
import { speaker } from "./session-rows.js";
import { exact } from "./time.js";

const ASKED_MAX = 200;
const COPIED_MAX = 2_000;

/** A fence longer than any run of backticks in a text. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((each) => each[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

function partMarkdown(part) {
  if (part.type === "text") return textOf(part);
  if (part.type === "thinking") return `> ${(part.thinking?.content ?? "").replaceAll("\n", "\n> ")}`;
  if (part.type === "tool_use") return `**${part.tool_use.name}** ${fencedLine(argumentsLine(part.tool_use.input))}`;
  if (part.type === "tool_result") return fenced(resultText(part.tool_result));
  return `(${part.type})`;
}

const fencedLine = (text) => (text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``);

/** One entry as Markdown: who, when, and what; a note about the session is its data. */
export function entryMarkdown(item, entry) {
  const payload = entry[entry.type] ?? {};
  const head = `### ${speaker(item)}, ${exact(entry.timestamp)}`;
  const said = entry.type === "message" || entry.type === "custom_message";
  const body = said
    ? partsOf(payload.content).map(partMarkdown)
    : [payload.summary ?? fenced(JSON.stringify(payload, null, 2), "json")];
  if (payload.error) body.push(`**Error:** ${payload.error}`);
  return [head, ...body.filter(Boolean)].join("\n\n");
}

/** What is picked on one session's page. */
export class Picked {
  #from = null;
  #to = null;
  #isCopying = false;

  /** @param {{ app: object, model: object, reader: object, draw: () => void }} page */
  constructor({ app, model, reader, draw }) {
    Object.assign(this, { app, model, reader, draw });
  }

  /** The places of the first and the last row that are picked, or null. */
  get range() {
    if (this.#to === null) return null;
    const places = [this.#from, this.#to].map((key) => this.model.rows.findIndex((row) => row.key === key));
    return places.includes(-1) ? null : [Math.min(...places), Math.max(...places)];
  }

  /** The items in the rows that are picked, in the order of the path. */
  get items() {
    const { range, model } = this;
    if (range === null) return [];
    const ids = new Set();
    for (const row of model.rows.slice(range[0], range[1] + 1)) {
      if (row.kind !== "entry" || row.item.live) continue;
      ids.add(row.item.id);
      for (const result of row.results.values()) ids.add(result.item.id);
    }
    return model.items.filter((item) => ids.has(item.id));
  }

  /** Shift+click picks the rows from the one that is active; the browser would select text. */
  onMouseDown = (event) => {
    const key = this.#keyAt(event, "a, input");
    if (event.button !== 0 || key === null || !event.shiftKey || this.reader.active === null) return;
    event.preventDefault();
    this.#from = this.reader.active;
    this.#to = key;
    this.draw();
  };

  /** A click makes a row the active one, unless it selects text or is for something in the row. */
  onClick = (event) => {
    const key = this.#keyAt(event, "a, button, input, summary");
    if (event.shiftKey || event.button !== 0 || key === null || !document.getSelection().isCollapsed) return;
    this.#to = null;
    this.reader.active = key;
    this.reader.target = null;
    this.draw();
  };

  /** A Shift+click on what folds picks the row, and folds nothing. */
  onClickCapture = (event) => {
    if (event.shiftKey && this.#to !== null && this.#keyAt(event, "a, input") !== null) event.stopPropagation();
  };

  /** The row at a click, unless that was for something in the row. */
  #keyAt({ target }, others) {
    return target.closest(others) ? null : (target.closest("[data-entry]")?.dataset.key ?? null);
  }

  /** Copy what is picked; returns false where nothing is, or where the browser has a text to copy. */
  copy = () => {
    if (this.range === null || !document.getSelection().isCollapsed) return false;
    this.#copy();
    return undefined;
  };

  async #copy() {
    const { items, model, app } = this;
    if (this.#isCopying) return;
    if (items.length > COPIED_MAX) {
      app.toast(`At most ${COPIED_MAX} entries are copied: export the session for more`, { kind: "bad" });
      return;
    }
    this.#isCopying = true;
    try {
      const entries = new Map();
      for (let left = items.map((item) => item.id); left.length; left = left.filter((id) => !entries.has(id))) {
        const page = await model.get("entries", { ids: left.slice(0, ASKED_MAX) });
        if (!page.items.length) throw new Error("the server sent nothing of these entries");
        for (const entry of page.items) entries.set(entry.id, entry);
      }
      const text = items.map((item) => entryMarkdown(item, entries.get(item.id))).join("\n\n");
      await copy(`${text}\n`, app, `${counted(items.length, "entry", "entries")} as Markdown`);
    } catch (error) {
      if (error.name !== "AbortError") app.toast(`Not copied: ${error.message}`, { kind: "bad" });
    } finally {
      this.#isCopying = false;
    }
  }

  /** Pick nothing; returns whether something was. */
  clear = () => {
    const was = this.#to !== null;
    this.#to = null;
    if (was) this.draw();
    return was;
  };

  /** What says how much is picked, while something is. */
  bar() {
    if (this.range === null) return null;
    return h(
      "div",
      { class: "find-bar picked-bar", role: "status" },
      h("span", null, `${counted(this.items.length, "entry", "entries")} picked`),
      h("button", { class: "button", type: "button", onClick: () => this.#copy() }, "Copy as Markdown"),
      h("button", { class: "button quiet", type: "button", onClick: this.clear }, "Clear"),
    );
  }
}
