/** What rows ask beyond their entry: bodies, sub-agents, the other branches, what a compaction summed up. */

import { isSaid } from "./session-rows.js";
import { sortable } from "./time.js";

/** Results up to this size are there while they are folded, so that the browser's search finds them. */
export const FOUND_BYTES_MAX = 8_000;

const BODIES_AROUND = 40;
const NEAR = 4;
const SPAWNS = /task|agent|delegate|spawn|subagent/i;

/** Answers the questions of rows about one session; what is not known yet is fetched, and the row drawn again. */
export class SessionView {
  #siblings = new Map();
  #children = new Map();
  #isAsked = false;
  #stop;

  /**
   * @param {{ app: object, session: string, model: object, EntryMenu: Function }} fields `EntryMenu` draws the menu of
   *   an entry
   */
  constructor({ app, session, model, EntryMenu }) {
    Object.assign(this, { app, session, model, EntryMenu });
    this.isWhole = true;
    this.#stop = app.directory.onChange(() => this.#takeChildren());
  }

  bodyOf(item) {
    return item.live ? this.model.live.body : this.model.bodies.get(item.id);
  }

  /** The ids of the entries whose bodies are to be there: those in view first, then those around it. */
  wanted() {
    const { model, isWhole } = this;
    const { rows } = model;
    const [first, last] = [this.first ?? 0, this.last ?? rows.length - 1];
    const from = isWhole ? 0 : Math.max(0, first - BODIES_AROUND);
    const to = isWhole ? rows.length - 1 : Math.min(rows.length - 1, last + BODIES_AROUND);
    const near = [];
    const far = [];
    for (let place = from; place <= to; place += 1) {
      if (rows[place].kind !== "entry" || rows[place].item.live) continue;
      const ids = place >= first - NEAR && place <= last + NEAR ? near : far;
      ids.push(...this.#bodiesOf(rows[place]));
    }
    return [...near, ...far];
  }

  /** The entries that a row shows: its own, unless it is a folded note, and the results that are unfolded. */
  #bodiesOf({ item, results }) {
    if (!isSaid(item) && !this.model.isOpen(`${item.id}:data`, false)) return [];
    const ids = [item.id];
    for (const [call, result] of results) {
      const isOpen = this.model.isOpen(`call:${item.id}:${call}`, result.error);
      if (isOpen || (this.isWhole && result.bytes <= FOUND_BYTES_MAX)) ids.push(result.item.id);
    }
    return ids;
  }

  /** Whether a row is the last answer of the path that goes on, so that its open calls may be running. */
  isTip(row) {
    const { model } = this;
    if (model.isPinnedBranch || model.hasLater || !["working", "waits"].includes(model.state?.state)) return false;
    const last = model.items.findLast((item) => item.type === "message" && item.role === "assistant");
    return (
      last === row.item &&
      !model.items.slice(-50).some((item) => item.seq > last.seq && item.role === "user" && !item.results?.length)
    );
  }

  /** Whether an open call waits for a person. */
  waits() {
    return this.model.state?.state === "waits";
  }

  /** Since when a call runs. */
  since(row, call) {
    const { state } = this.model;
    return state?.tool?.id === call.id ? state.since : row.item.timestamp;
  }

  /** The session that a call of an entry started, if any. */
  childOf(item, call) {
    if (!item.tools?.some((each) => SPAWNS.test(each.name))) return undefined;
    if (!this.#isAsked) this.#readChildren();
    const calls = item.tools.filter((each) => SPAWNS.test(each.name));
    return this.#children.get(item.id)?.[calls.findIndex((each) => each.id === call.id)];
  }

  /** Read the sub-agents of this session once; from then on the listing tells of them. */
  async #readChildren() {
    this.#isAsked = true;
    try {
      const query = { parent: this.session, with: "state", limit: 500 };
      const { items } = await this.app.server.get("sessions", { query });
      this.app.directory.put(items);
      this.#takeChildren();
    } catch (error) {
      this.app.toast(`The sub-agents of this session could not be read: ${error.message}`, { kind: "bad" });
    }
  }

  /** Take the sub-agents from the listing's rows, and draw those again that changed. */
  #takeChildren() {
    if (!this.#isAsked) return;
    const before = this.#children;
    const rows = [...this.app.directory.rows.values()].filter((row) => row.parent_session === this.session);
    this.#children = Map.groupBy(
      rows.toSorted((a, b) => (sortable(a.created) < sortable(b.created) ? -1 : 1)),
      (row) => row.parent_entry,
    );
    for (const [entry, children] of this.#children) {
      const known = before.get(entry) ?? [];
      if (children.length !== known.length || children.some((row, place) => row !== known[place]))
        this.model.touch(entry);
    }
  }

  /** Stop listening to the listing. */
  close() {
    this.#stop();
  }

  /** The branches at the place of an entry, itself among them. */
  siblingsOf(item) {
    const known = this.#siblings.get(item.id);
    if (known !== undefined && known.count === item.branches) return known.items;
    this.#siblings.set(item.id, { count: item.branches, items: known?.items });
    this.model.get(`branches/${encodeURIComponent(item.id)}`).then(
      ({ items }) => {
        this.#siblings.set(item.id, { count: item.branches, items });
        this.model.touch(`branch:${item.id}`);
      },
      (error) => {
        if (error.name !== "AbortError")
          this.app.toast(`The other branches could not be read: ${error.message}`, { kind: "bad" });
      },
    );
    return known?.items;
  }

  /** How many entries before a compaction it left out of the context, if they are loaded. */
  summarizedBy(item, entry) {
    const { model } = this;
    if (entry === undefined) return null;
    const own = model.items.indexOf(item);
    const kept = entry.compaction?.first_kept_entry_id;
    const end = kept ? model.items.findIndex((each) => each.id === kept) : own;
    return end < 0 || own < 0 ? null : model.start + end;
  }

  /** The tokens of the first answer after a compaction, as its provider counted them. */
  tokensAfter(item) {
    const { items } = this.model;
    const own = items.indexOf(item);
    const next = items.slice(own + 1, own + 40).find((each) => each.role === "assistant" && each.tokens);
    return next?.tokens ?? null;
  }
}
