// How entries begin, for the rows that are in view: asked for together, kept, and bounded.

import { useEffect, useMemo, useReducer } from "../vendor/preact.js";
import { visible } from "./signs.js";

const AT_ONCE = 200;
const KEPT_MAX = 5000;

const MARKS = /\*\*|`+|^#{1,6} |!?\[([^\]]*)\]\([^)\s]*\)/g;

/** How an entry begins, on one line, without the marks of Markdown. */
export const beginning = (text) => visible(text).replace(MARKS, "$1");

/** The words of the entries of one session, by seq. */
export class Words {
  /**
   * @param {object} server the client
   * @param {string} session its id
   * @param {() => void} changed called when words came
   */
  constructor(server, session, changed) {
    this._server = server;
    this._session = session;
    this._changed = changed;
    this._known = new Map();
    this._wanted = new Set();
    this._asked = new Set();
    this._timer = 0;
    this._ending = new AbortController();
  }

  /** @returns {{text: string, error: boolean, timestamp: string}|undefined} */
  get(seq) {
    return this._known.get(seq);
  }

  /** Asks for the words of these entries, unless they are known or on their way. */
  want(seqs) {
    for (const seq of seqs) if (!this._known.has(seq) && !this._asked.has(seq)) this._wanted.add(seq);
    if (this._wanted.size && !this._timer) this._timer = setTimeout(() => this._ask(), 30);
  }

  /** Stops asking. */
  close() {
    clearTimeout(this._timer);
    this._ending.abort();
  }

  async _ask() {
    // The latest wishes are those in view.
    const seqs = [...this._wanted].slice(-AT_ONCE);
    this._wanted.clear();
    for (const seq of seqs) this._asked.add(seq);
    try {
      const path = `sessions/${encodeURIComponent(this._session)}/tree/words`;
      const page = await this._server.get(path, { query: { seqs }, signal: this._ending.signal });
      if (this._known.size > KEPT_MAX) this._known.clear();
      for (const item of page.items) this._known.set(item.seq, item);
      this._changed();
    } catch (error) {
      if (this._ending.signal.aborted) return;
      // Rows without words are still a tree; the next rows that come into view ask again.
      console.warn("the words of the tree did not come", error.message);
    } finally {
      for (const seq of seqs) this._asked.delete(seq);
      this._timer = 0;
      if (this._wanted.size && !this._ending.signal.aborted) this.want([]);
    }
  }
}

/** The words of a session, redrawing the component when some came. */
export function useWords(app, session) {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const words = useMemo(() => new Words(app.server, session, redraw), [app.server, session]);
  useEffect(() => () => words.close(), [words]);
  return words;
}
