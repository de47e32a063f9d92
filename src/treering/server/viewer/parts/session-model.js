/** What a session's page knows: the skeleton of one path, bodies that are wanted, text that is being written. */

import { BodyCache } from "./session-bodies.js";
import { itemOf } from "./session-items.js";
import { LiveText } from "./session-live.js";
import { Marks } from "./session-marks.js";
import { rowsOf } from "./session-rows.js";
import { feedOf } from "./feed.js";
import { day } from "./time.js";

const PAGE = 500;
const SEGMENT_MAX = 20_000;
const KINDS = ["entry", "leaf", "transient", "state"];

/** One session, one path of it, followed. Listeners are told of every change, at most once a frame. */
export class SessionModel {
  items = [];
  rows = [];
  rowOf = new Map();
  start = 0;
  total = 0;
  leaf = null;
  liveLeaf = null;
  state = null;
  error = null;
  notice = null;
  isLoaded = false;
  isReading = false;
  isPinnedBranch = false;
  isConversation = false;
  marks = new Marks();
  arrived = 0;

  #keys = new Map();
  #versions = new Map();
  #folds = new Map();
  #allOpen = null;
  #listeners = new Set();
  #frame = 0;
  #places = new Map();
  #stop = null;
  #abort = new AbortController();
  #cursor = null;
  #isFresh = true;
  #opening = 0;

  /**
   * @param {object} app the shell's
   * @param {string} session its id
   * @param {{ seen: number|null }} options the seq up to which the session was seen before
   */
  constructor(app, session, { seen = null } = {}) {
    this.app = app;
    this.session = session;
    this.seen = seen;
    this.path = `sessions/${encodeURIComponent(session)}`;
    this.bodies = new BodyCache(
      (query) => this.get("entries", query),
      (id) => this.touch(id),
    );
    this.live = new LiveText((grown) => (grown ? this.touch(this.live.key) : this.#rebuild()));
  }

  /** Read something of the session. */
  get(name, query) {
    return this.app.server.get(name ? `${this.path}/${name}` : this.path, { query, signal: this.#abort.signal });
  }

  /** Be told of changes; returns how to stop. */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      for (const listener of this.#listeners) listener();
    });
  }

  /** Draw one row again. */
  touch(id) {
    const key = this.#keys.get(id) ?? id;
    this.#versions.set(key, (this.#versions.get(key) ?? 0) + 1);
    const row = this.rows[this.rowOf.get(id)];
    if (row && row.key !== key) this.#versions.set(row.key, (this.#versions.get(row.key) ?? 0) + 1);
    this.#changed();
  }

  version(key) {
    return this.#versions.get(key) ?? 0;
  }

  // -- opening

  /**
   * Open the path to a leaf (by default the session's own), or that on which an entry lies, with the entry in view.
   * One opening counts at a time: an earlier one that is still under way is dropped.
   */
  async open({ leaf = undefined, entry = undefined } = {}) {
    const opening = ++this.#opening;
    this.error = null;
    try {
      const page = await this.#pageAround(leaf, entry);
      if (opening !== this.#opening) return;
      this.leaf = page.leaf;
      this.isPinnedBranch = leaf !== undefined || page.isOther === true;
      if (!this.isPinnedBranch) this.liveLeaf = page.leaf;
      this.#take(page);
      this.isLoaded = true;
      this.#isFresh = true;
      this.#follow(page.cursor);
      if (this.hasEarlier || this.hasLater) this.#readMarks(opening);
      else this.marks.clear();
    } catch (error) {
      if (opening !== this.#opening || error.name === "AbortError") return;
      this.error = error;
    }
    this.#changed();
  }

  /** Drop an opening that is under way: what is loaded is what is wanted. */
  stay() {
    this.#opening += 1;
  }

  async #pageAround(leaf, entry) {
    if (entry === undefined) return this.get("outline", { leaf, limit: PAGE });
    if (leaf !== undefined) return this.get("outline", { leaf, around: entry, limit: PAGE });
    try {
      const { items } = await this.get(`branches/${encodeURIComponent(entry)}`);
      const own = items.find((each) => each.item.id === entry);
      const page = await this.get("outline", { leaf: own.on_path ? undefined : own.leaf, around: entry, limit: PAGE });
      return { ...page, isOther: !own.on_path };
    } catch (error) {
      if (error.status !== 404) throw error;
      this.notice = {
        kind: "unknown",
        text: `There is no entry ${entry} in this session; this is the end of its path.`,
      };
      return this.get("outline", { limit: PAGE });
    }
  }

  /** Read the marks of the whole path, which the outline and the map show, and turns are counted by. */
  async #readMarks(opening) {
    const read = (query) => this.get("outline", query);
    try {
      if (await this.marks.read(this.leaf, read, () => opening === this.#opening)) this.#rebuild();
    } catch (error) {
      if (error.name !== "AbortError") this.app.toast(error.message, { kind: "bad" });
    }
  }

  #take(page) {
    this.items = page.items;
    this.start = page.start;
    this.total = page.total;
    this.#rebuild();
  }

  #rebuild() {
    const before = new Map(this.rows.map((row) => [row.key, row]));
    const items = this.live.item && !this.isPinnedBranch ? [...this.items, this.live.item] : this.items;
    const options = {
      before,
      keys: this.#keys,
      conversation: this.isConversation,
      seen: this.seen,
      turn: this.marks.promptsBefore(this.start),
      dayOf: (at) => day(Date.parse(at)),
    };
    ({ rows: this.rows, rowOf: this.rowOf } = rowsOf(items, options));
    this.#places = new Map(this.items.map((item, place) => [item.id, place]));
    this.#changed();
  }

  /** The item of an entry that is loaded. */
  item(id) {
    return this.items[this.#places.get(id)];
  }

  get hasEarlier() {
    return this.start > 0;
  }

  get hasLater() {
    return this.start + this.items.length < this.total;
  }

  /** Load the page of items before those that are loaded, or after them; drop what is too far at the other end. */
  async loadMore(side, limit = PAGE) {
    const edge = side === "earlier" ? this.items[0] : this.items.at(-1);
    if (!edge || this.loading === side || !(side === "earlier" ? this.hasEarlier : this.hasLater)) return;
    this.loading = side;
    const opening = this.#opening;
    try {
      const query = side === "earlier" ? { before: edge.id } : { after: edge.id };
      const page = await this.get("outline", { leaf: this.leaf ?? undefined, limit, ...query });
      if (opening !== this.#opening) return;
      if (side === "earlier" && this.items[0] === edge) {
        this.items = [...page.items, ...this.items].slice(0, SEGMENT_MAX);
        this.start = page.start;
      } else if (side === "later" && this.items.at(-1) === edge) {
        const all = [...this.items, ...page.items];
        this.start += Math.max(0, all.length - SEGMENT_MAX);
        this.items = all.slice(-SEGMENT_MAX);
      }
      this.#rebuild();
    } catch (error) {
      if (error.name !== "AbortError") this.app.toast(error.message, { kind: "bad" });
    } finally {
      this.loading = null;
    }
  }

  // -- folding

  isOpen(key, fallback) {
    return this.#folds.get(key) ?? (this.#allOpen === null ? fallback : this.#allOpen);
  }

  setOpen(key, isOpen, id) {
    this.#folds.set(key, isOpen);
    this.touch(id);
  }

  get allOpen() {
    return this.#allOpen === true;
  }

  /** Open or fold all; errors, too, where a person folds all. */
  setAll(isOpen) {
    this.#allOpen = isOpen;
    this.#folds.clear();
    for (const row of this.rows) this.#versions.set(row.key, (this.#versions.get(row.key) ?? 0) + 1);
    this.#changed();
  }

  setConversation(isConversation) {
    this.isConversation = isConversation;
    for (const row of this.rows) this.#versions.set(row.key, (this.#versions.get(row.key) ?? 0) + 1);
    this.#rebuild();
  }

  // -- following

  #follow(cursor) {
    if (this.#stop !== null) return;
    this.#cursor = cursor;
    this.#stop = feedOf(this.app.server).session(this.session, { kinds: KINDS, since: cursor }, (event) =>
      this.#receive(event),
    );
  }

  #receive({ event, id, data }) {
    if (id) this.#cursor = id;
    if (event === "entry") this.#entry(data);
    else if (event === "leaf") this.#moved(data.leaf);
    else if (event === "state") this.takeState(data);
    else if (event === "transient") this.live.receive(data, this.app.now());
    else if (event === "reset") this.#replaced();
    else if (event === "problem") this.#stopped(data);
  }

  /** Take what the session is doing. */
  takeState(state) {
    this.state = state;
    this.#changed();
  }

  /** The session cannot be followed any more: it was deleted, or its log cannot be read. */
  #stopped({ status, detail, title }) {
    this.notice =
      status === 404
        ? { kind: "deleted", text: "This session was deleted. What is shown is what this page had read." }
        : { kind: "problem", text: `Nothing new is shown: ${detail ?? title}` };
    this.live.clear();
    this.#changed();
  }

  async #replaced() {
    this.live.clear();
    this.bodies.clear();
    this.#stop?.();
    this.#stop = null;
    this.notice = { kind: "replaced", text: "History was replaced; this is the new one." };
    await this.open({});
  }

  #entry(entry) {
    if (this.#places.has(entry.id)) return;
    if (entry.type === "label") this.#label(entry.label ?? {});
    this.arrived += 1;
    if (entry.aside) return;
    const liveBefore = this.liveLeaf;
    this.liveLeaf = entry.id;
    const tip = this.items.at(-1)?.id ?? null;
    const isAnswer = entry.type === "message" && entry.message?.role === "assistant";
    if (this.isPinnedBranch || this.hasLater || entry.parent_id !== tip) {
      if (!this.isPinnedBranch && !this.hasLater) this.#left();
      else if (this.hasLater && !this.isPinnedBranch && entry.parent_id === liveBefore) {
        this.marks.add({ ...itemOf(entry), place: this.total });
        this.total += 1;
        this.leaf = entry.id;
      }
      if (isAnswer) this.live.clear();
      this.#changed();
      return;
    }
    const item = { ...itemOf(entry), place: this.start + this.items.length };
    if (this.live.item && isAnswer) {
      this.#keys.set(entry.id, this.live.key);
      this.live.clear();
    }
    this.bodies.put(entry);
    this.marks.add(item);
    this.items = [...this.items, item];
    this.total += 1;
    this.leaf = entry.id;
    this.#rebuild();
    this.touch(entry.id);
    if (this.#isFresh || entry.type === "compaction") this.#correct(entry.type === "compaction" ? PAGE : 1);
    this.#isFresh = false;
  }

  /** Ask for the latest items again: what the stream does not tell of them (branches, what is out of the context). */
  async #correct(limit) {
    const opening = this.#opening;
    const page = await this.get("outline", { limit }).catch((error) => {
      if (error.name !== "AbortError") this.app.toast(error.message, { kind: "bad" });
      return null;
    });
    if (page === null || opening !== this.#opening || this.isPinnedBranch) return;
    const found = new Map(page.items.map((item) => [item.id, item]));
    this.items = this.items.map((item) => found.get(item.id) ?? item);
    this.#rebuild();
    for (const id of found.keys()) this.touch(id);
  }

  #label({ target_id: target, label }) {
    const place = this.#places.get(target);
    const known = this.items[place] ?? this.marks.items.find((each) => each.id === target);
    if (known === undefined) {
      if (!this.marks.isWhole) return;
      this.marks.outdate();
      this.#readMarks(this.#opening);
      return;
    }
    const item = { ...known, label: label || null };
    this.marks.relabel(item);
    if (place !== undefined) this.items = this.items.with(place, item);
    this.#rebuild();
    this.touch(target);
  }

  /** The session went on elsewhere: whoever is at the end goes with it, whoever reads stays on what is now a branch. */
  #left() {
    if (this.isReading) {
      this.isPinnedBranch = true;
      this.#changed();
    } else {
      this.open({});
    }
  }

  #moved(entry) {
    if (entry === this.liveLeaf) return;
    this.liveLeaf = entry;
    if (this.isPinnedBranch || entry === this.leaf) this.#changed();
    else this.#left();
  }

  /** Forget the notice that stands above the path. */
  dismiss() {
    this.notice = null;
    this.#changed();
  }

  close() {
    this.#abort.abort();
    this.#stop?.();
    if (this.#frame) cancelAnimationFrame(this.#frame);
    this.#listeners.clear();
  }
}
