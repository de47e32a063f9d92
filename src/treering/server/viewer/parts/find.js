/** Finding in a session too long for the browser's own search: the server searches all of it, on every branch. */

import { Component, createRef, h } from "../vendor/preact.js";
import { count } from "./numbers.js";
import { visible } from "./signs.js";

const HITS_MAX = 500;
const PAUSE_MS = 150;

/** Mark the words of a query in the rows that are drawn, without touching their elements. */
export function markWords(root, query) {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("found");
  const words = wordsOf(query);
  if (!root || !words.length) return;
  const ranges = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, Math.min(node.length, at + word.length));
        ranges.push(range);
      }
    }
  }
  if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
}

/** The words and phrases of a query, in lower case. */
function wordsOf(query) {
  return [...query.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)]
    .map((each) => (each[1] ?? each[2]).replaceAll('"', ""))
    .filter(Boolean);
}

/**
 * @param {{ hold: (bar: FindBar|null) => void, model: object, onGo: (hit: object) => void,
 *   onQuery: (query: string) => void, onHits: (hits: object[]) => void, onClose: () => void }} props
 */
export class FindBar extends Component {
  state = { query: "", hits: null, more: false, place: -1, error: null };
  #field = createRef();
  #timer = 0;
  #asked = 0;

  componentDidMount() {
    this.props.hold(this);
    this.#field.current.focus();
  }

  componentWillUnmount() {
    this.props.hold(null);
    clearTimeout(this.#timer);
  }

  /** Put the cursor into the field, with what is in it selected. */
  focus() {
    this.#field.current.focus();
    this.#field.current.select();
  }

  #onInput = (event) => {
    const query = event.currentTarget.value;
    this.setState({ query });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#search(query), PAUSE_MS);
  };

  async #search(query) {
    const asked = ++this.#asked;
    this.props.onQuery(query);
    if (!/[^\s"]/.test(query)) {
      this.setState({ hits: null, place: -1, error: null });
      this.props.onHits([]);
      return;
    }
    try {
      const page = await this.props.model.get("search", {
        q: query,
        limit: HITS_MAX,
        leaf: this.props.model.leaf ?? undefined,
      });
      if (asked !== this.#asked) return;
      const hits = page.items.toSorted((a, b) => (a.place ?? Infinity) - (b.place ?? Infinity));
      this.props.onHits(hits);
      this.setState({ hits, more: page.next !== null, place: hits.length ? 0 : -1, error: null });
      if (hits.length) this.props.onGo(hits[0]);
    } catch (error) {
      if (asked === this.#asked && error.name !== "AbortError") this.setState({ error, hits: null, place: -1 });
    }
  }

  #step(by) {
    const { hits, place } = this.state;
    if (!hits?.length) return;
    const next = (place + by + hits.length) % hits.length;
    this.setState({ place: next });
    this.props.onGo(hits[next]);
  }

  #onKey = (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      this.#step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.props.onClose();
    }
  };

  render(_, { query, hits, more, place, error }) {
    const hit = hits?.[place];
    const words = error
      ? error.message
      : hits === null
        ? "searches the whole session, also what is not drawn"
        : hits.length
          ? `${count(place + 1)} of ${count(hits.length)}${more ? " or more" : ""}`
          : "nothing found";
    return h(
      "div",
      { class: "find-bar", role: "search" },
      h("input", {
        class: "field",
        type: "search",
        ref: this.#field,
        value: query,
        onInput: this.#onInput,
        onKeyDown: this.#onKey,
        "aria-label": "Find in this session",
        placeholder: "Find in this session",
      }),
      h(
        "button",
        {
          class: "button quiet",
          type: "button",
          disabled: !hit,
          onClick: () => this.#step(-1),
          "aria-label": "previous hit",
        },
        "‹",
      ),
      h(
        "button",
        {
          class: "button quiet",
          type: "button",
          disabled: !hit,
          onClick: () => this.#step(1),
          "aria-label": "next hit",
        },
        "›",
      ),
      h("span", { class: error ? "find-words is-bad" : "find-words soft", role: "status" }, words),
      hit?.branch ? h("span", { class: "soft" }, "on another branch") : null,
      hit ? h("bdi", { class: "find-snippet soft clip" }, visible(hit.snippet)) : null,
      h("button", { class: "button quiet", type: "button", onClick: this.props.onClose }, "Close"),
    );
  }
}

/** The finding of a session's page: its bar, the way to a hit, the marks on what is drawn. */
export class Finder {
  #bar = null;
  #query = null;
  #marking = 0;
  /** What was found, for the map. */
  hits = [];
  #hold = (bar) => {
    this.#bar = bar;
  };

  /** @param {{ model: object, view: object, reader: object, draw: (then?: () => void) => void }} page */
  constructor({ model, view, reader, draw }) {
    Object.assign(this, { model, view, reader, draw });
  }

  /** Open the bar, or leave it to the browser: of a short path all is drawn, and a second time asks for its own. */
  open() {
    if (this.view.isWhole && this.model.total <= this.model.items.length) return false;
    if (this.#query !== null && document.activeElement?.closest?.(".find-bar")) return false;
    this.reader.scroller?.unpin();
    this.#query ??= "";
    this.draw(() => this.#bar?.focus());
    return undefined;
  }

  /** Close the bar; returns whether it was open. */
  close() {
    if (this.#query === null) return false;
    this.unmark();
    this.draw();
    this.reader.scroller?.element.focus();
    return true;
  }

  /** Mark the words in what is drawn, once a frame. */
  mark() {
    if (this.#query === null || this.#marking) return;
    this.#marking = requestAnimationFrame(() => {
      this.#marking = 0;
      if (this.#query !== null) markWords(this.reader.scroller?.element, this.#query);
    });
  }

  unmark() {
    this.#query = null;
    this.hits = [];
    markWords(null, "");
  }

  #goTo = async (hit) => {
    const { model } = this;
    if (!model.rowOf.has(hit.entry_id)) await model.open({ leaf: hit.branch?.leaf, entry: hit.entry_id });
    const row = model.rows[model.rowOf.get(hit.entry_id)];
    if (!row) return;
    for (const call of row.item.tools ?? []) {
      if (row.item.id === hit.entry_id || row.results.get(call.id)?.item.id === hit.entry_id)
        model.setOpen(`call:${row.item.id}:${call.id}`, true, row.key);
    }
    for (const name of ["0", "1", "summary", "system", "data"]) model.setOpen(`${row.item.id}:${name}`, true, row.key);
    this.reader.goTo(hit.entry_id, { isTarget: true });
  };

  /** The bar, while it is open. */
  bar() {
    if (this.#query === null) return null;
    return h(FindBar, {
      hold: this.#hold,
      model: this.model,
      onGo: this.#goTo,
      onQuery: (query) => {
        this.#query = query;
        this.draw();
      },
      onHits: (hits) => {
        this.hits = hits;
        this.draw();
      },
      onClose: () => this.close(),
    });
  }
}
