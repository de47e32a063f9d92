/** Where a person reads a session: the row that is active, the end that is followed, the steps from place to place. */

import { path as pathTo } from "./paths.js";
import { keepSeen } from "./seen.js";

/** The place of the reader of one session's page; `draw` shows what changed. */
export class Reader {
  /** The key of the row that keys act on, and of the one that a link led to. */
  active = null;
  target = null;
  /** Whether the end is in view and stays there, and whether a person wants that. */
  pinned = true;
  follows = true;
  /** The scroller, while it is drawn. */
  scroller = null;
  #newSince = 0;

  /**
   * @param {{ app: object, session: string, model: object, view: object, draw: (then?: () => void) => void,
   *   address: () => { entry?: string, leaf?: string }, lastEntry: () => string|undefined,
   *   places: () => object[] }} page `places` are those of the outline
   */
  constructor({ app, session, model, view, draw, address, lastEntry, places }) {
    Object.assign(this, { app, session, model, view, draw, address, lastEntry, places });
  }

  hold = (scroller) => {
    this.scroller = scroller;
  };

  /** How many entries came since the end was last in view. */
  get fresh() {
    return this.model.arrived - this.#newSince;
  }

  get activeRow() {
    return this.model.rows.find((row) => row.key === this.active);
  }

  /** Entries came, or others are shown: at the end, all of them are seen. */
  noteChange() {
    if (this.pinned && !this.model.isPinnedBranch) this.#newSince = this.model.arrived;
  }

  /** The scroller has reached the end, or left it. */
  onPinned = (pinned) => {
    this.model.isReading = !pinned;
    this.pinned = pinned;
    this.draw();
  };

  /** Show what the address says: an entry, another branch, or the end. */
  async open() {
    const { model } = this;
    const { leaf, entry } = this.address();
    const known = entry !== undefined && leaf === undefined && model.rowOf.has(entry);
    if (known) model.stay();
    else if (!model.isLoaded || entry !== undefined || leaf !== undefined || model.isPinnedBranch || model.hasLater) {
      await model.open({ leaf, entry });
      const now = this.address();
      if (entry !== now.entry || leaf !== now.leaf) return; // a later step counts
    }
    if (entry !== undefined && model.rowOf.has(entry)) this.goTo(entry, { isTarget: true });
    else if (model.isLoaded) this.draw(() => this.scroller?.toEnd());
  }

  /** Bring the row of an entry into view, with its folds open. */
  goTo(id, { isTarget = false } = {}) {
    const place = this.model.rowOf.get(id);
    const row = this.model.rows[place];
    if (!row) return;
    const call = [...row.results].find(([, result]) => result.item.id === id);
    if (call) this.model.setOpen(`call:${row.item.id}:${call[0]}`, true, row.key);
    this.#stand(row.key, () => this.model.rowOf.get(id) ?? place, isTarget);
  }

  #stand(key, placeNow, isTarget = false) {
    this.active = key;
    this.target = isTarget ? key : null;
    this.pinned = false;
    this.draw(() => this.scroller?.toRow(placeNow()));
  }

  #activePlace() {
    const place = this.active === null ? -1 : this.model.rows.findIndex((row) => row.key === this.active);
    return place >= 0 ? place : (this.view.first ?? 0) - 1;
  }

  /**
   * Go to the next row of a kind, or by -1 to the one before. Where it is not loaded the path is opened at it, if the
   * outline has `mark`, the kind of its places; otherwise more of the path is loaded.
   */
  step(by, isWanted = (row) => row.kind === "entry", mark = null) {
    const { model } = this;
    for (let place = this.#activePlace() + by; place >= 0 && place < model.rows.length; place += by) {
      if (!isWanted(model.rows[place])) continue;
      this.#stand(model.rows[place].key, () => place);
      return;
    }
    const side = by < 0 ? "earlier" : "later";
    if (!(by < 0 ? model.hasEarlier : model.hasLater)) this.app.say("there are no more");
    else if (mark === null || !model.marks.isWhole) model.loadMore(side).then(() => this.step(by, isWanted, mark));
    else this.#leap(by, mark);
  }

  /** Open the path at the nearest place of a kind that is not loaded. */
  async #leap(by, kind) {
    const { model } = this;
    const end = model.start + model.items.length;
    const places = this.places().filter((each) => each.kind === kind);
    const next =
      by < 0
        ? places.findLast((each) => each.place < model.start)
        : places.find((each) => each.place >= end);
    if (next === undefined) {
      this.app.say("there are no more");
      return;
    }
    await model.open({ leaf: model.isPinnedBranch ? model.leaf : undefined, entry: next.id });
    this.goTo(next.id);
  }

  /** Go to the beginning of the path. */
  async toBeginning() {
    const { model } = this;
    if (model.hasEarlier && model.marks.items.length)
      await model.open({ leaf: model.isPinnedBranch ? model.leaf : undefined, entry: model.marks.items[0].id });
    for (let start = Infinity; model.hasEarlier && model.start < start;) {
      start = model.start;
      await model.loadMore("earlier");
    }
    this.leave();
    this.pinned = false;
    this.draw(() => this.scroller?.toRow(0));
  }

  /** Go to the end of the session's own path. */
  async toEnd() {
    const { model } = this;
    this.#newSince = model.arrived;
    if (model.isPinnedBranch || model.hasLater) {
      const { entry, leaf } = this.address();
      if (entry !== undefined || leaf !== undefined) this.app.navigate(pathTo.session(this.session));
      else await this.open();
    }
    this.draw(() => this.scroller?.toEnd());
  }

  /** Follow the end, or stay where the reader is. */
  follow(follows) {
    this.follows = follows;
    this.draw(() => (follows ? this.toEnd() : this.scroller?.unpin()));
  }

  /** Go to a place of the path, whether it is loaded or not: then to the last mark before it. */
  async toPlace(place) {
    const { model } = this;
    const item = model.items[place - model.start];
    if (item) {
      const at = model.rowOf.get(item.id);
      this.#stand(model.rows[at].key, () => at);
      return;
    }
    const { items: marks } = model.marks;
    const mark = marks.findLast((each) => each.place <= place) ?? marks[0];
    if (!mark) return;
    await model.open({ leaf: model.isPinnedBranch ? model.leaf : undefined, entry: mark.id });
    if (model.rowOf.has(mark.id)) this.toPlace(model.items[place - model.start] ? place : mark.place);
  }

  /** Stand on no row; returns whether there was one. */
  leave() {
    const stood = this.active !== null;
    this.active = null;
    this.target = null;
    return stood;
  }

  /** Remember how far a person has read: to the end of what was in view. */
  keepSeen() {
    const { model, view } = this;
    const atEnd = this.pinned && !model.isPinnedBranch;
    const last = atEnd ? model.items.findLast((item) => !item.live) : model.rows[view.last]?.item;
    if (!last) return;
    // whoever is at the end has seen all of the session, also what is on no path
    const latest = [last.timestamp, atEnd ? this.lastEntry() : undefined].filter(Boolean).map(Date.parse);
    keepSeen(this.session, last.seq, new Date(Math.max(...latest)).toISOString());
  }
}
