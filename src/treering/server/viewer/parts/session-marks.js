/** The places of a whole path worth jumping to, whether they are loaded or not: where prompts, failures, labels are. */

import { isPrompt } from "./session-rows.js";

const PAGE = 1000;
const MARKS_MAX = 50_000;

/** Whether an item says that something went wrong. */
export function isFailed(item) {
  return item.type !== "tool_execution" && Boolean(item.error || item.results?.some((each) => each.error));
}

function isMark(item) {
  return (
    isPrompt(item) ||
    isFailed(item) ||
    item.type === "compaction" ||
    item.type === "branch_summary" ||
    Boolean(item.label) ||
    item.branches > 1
  );
}

/** The marks of one path: items of the outline, in its order. */
export class Marks {
  items = [];
  /** The end of the path that they are known of; undefined as long as they are not. */
  #leaf = undefined;
  #isStale = false;
  /** Whether they are known of the whole path. */
  isWhole = false;

  /** Forget them: the path is loaded as a whole. */
  clear() {
    this.items = [];
    this.#leaf = undefined;
    this.isWhole = false;
  }

  /**
   * Read them from the end of a path on, unless they are known.
   *
   * @param {string|null} leaf the end of the path
   * @param {(query: object) => Promise<{ items: object[], before: string|null }>} read reads its outline
   * @param {() => boolean} isWanted whether it is still the path that is shown
   * @returns {Promise<boolean>} whether there are others now
   */
  async read(leaf, read, isWanted) {
    if (this.#leaf === leaf && !this.#isStale) return false;
    if (this.#leaf !== leaf) this.clear();
    let found = [];
    let before;
    while (before !== null && found.length < MARKS_MAX) {
      const page = await read({ leaf: leaf ?? undefined, places: true, limit: PAGE, before });
      if (!isWanted()) return false;
      found = [...page.items, ...found];
      before = page.before;
    }
    this.items = found;
    this.#leaf = leaf;
    this.#isStale = false;
    this.isWhole = before === null;
    return true;
  }

  /** An entry was appended to the path. */
  add(item) {
    if (this.#leaf !== item.parent_id) return;
    this.#leaf = item.id;
    if (isMark(item)) this.items = [...this.items, item];
  }

  /** The label of an entry has changed; an `item` of the outline has the new one. */
  relabel(item) {
    if (this.#leaf === undefined) return;
    const others = this.items.filter((each) => each.id !== item.id);
    this.items = (isMark(item) ? [...others, item] : others).toSorted((a, b) => a.place - b.place);
  }

  /** Something of an entry has changed that is not known here: read them again. */
  outdate() {
    this.#isStale = true;
  }

  /** How many prompts come before a place; null as long as that is not known. */
  promptsBefore(place) {
    if (place === 0) return 0;
    return this.isWhole ? this.items.filter((each) => each.place < place && isPrompt(each)).length : null;
  }
}
