/** What rows ask beyond their entry: bodies, sub-agents, the other branches, what a compaction summed up. */

const SPAWNS = /task|agent|delegate|spawn|subagent/i;

/** Answers the questions of rows about one session; what is not known yet is fetched, and the row drawn again. */
export class SessionView {
  #siblings = new Map();
  #children = null;

  /**
   * @param {{ app: object, session: string, model: object, EntryMenu: Function }} fields `EntryMenu` draws the menu of
   *   an entry
   */
  constructor({ app, session, model, EntryMenu }) {
    Object.assign(this, { app, session, model, EntryMenu });
    this.isWhole = true;
  }

  bodyOf(item) {
    return item.live ? this.model.live.body : this.model.bodies.get(item.id);
  }

  /** Whether a row is the last answer of the path that goes on, so that its open calls may be running. */
  isTip(row) {
    const { model } = this;
    if (model.isPinnedBranch || model.hasLater || !["working", "waits"].includes(model.state?.state)) return false;
    const last = model.items.findLast((item) => item.type === "message" && item.role === "assistant");
    return last === row.item && !model.items.slice(-50).some((item) => item.seq > last.seq && item.role === "user" && !item.results?.length);
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
    if (this.#children === null) {
      this.#readChildren();
      return undefined;
    }
    const children = this.#children.get(item.id);
    if (children === undefined) return undefined;
    const calls = item.tools.filter((each) => SPAWNS.test(each.name));
    return children[calls.findIndex((each) => each.id === call.id)];
  }

  /** Read the sub-agents of this session again, because their states may have changed. */
  async #readChildren() {
    this.#children = new Map();
    try {
      const { items } = await this.app.server.get("sessions", { query: { parent: this.session, with: "state", limit: 500 } });
      const byAge = items.toSorted((a, b) => a.created.localeCompare(b.created));
      for (const child of byAge) {
        const at = child.state?.parent?.entry;
        if (at) this.#children.set(at, [...(this.#children.get(at) ?? []), child]);
      }
      for (const id of this.#children.keys()) this.model.touch(id);
    } catch (error) {
      this.app.toast(`The sub-agents of this session could not be read: ${error.message}`, { kind: "bad" });
    }
  }

  /** A new call may have started a sub-agent: ask again when it is next drawn. */
  forgetChildren() {
    this.#children = null;
  }

  /** The branches at the place of an entry, itself among them. */
  siblingsOf(item) {
    const known = this.#siblings.get(item.id);
    if (known !== undefined && known.count === item.branches) return known.items;
    this.#siblings.set(item.id, { count: item.branches, items: known?.items });
    this.model.get(`branches/${encodeURIComponent(item.id)}`).then(({ items }) => {
      this.#siblings.set(item.id, { count: item.branches, items });
      this.model.touch(`branch:${item.id}`);
    }, (error) => {
      if (error.name !== "AbortError") this.app.toast(`The other branches could not be read: ${error.message}`, { kind: "bad" });
    });
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
