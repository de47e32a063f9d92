/** A session: its path as it grows, an outline beside it, and a field to write in at its end. */

import { Component, h } from "../vendor/preact.js";
import { Composer } from "../parts/composer.js";
import { Row } from "../parts/entry.js";
import { FindBar, markWords } from "../parts/find.js";
import { Failure, Skeleton } from "../parts/notices.js";
import { entries as entryCount } from "../parts/numbers.js";
import { Outline, placesOf } from "../parts/outline.js";
import { Path } from "../parts/path.js";
import { path } from "../parts/paths.js";
import { nameOf } from "../parts/session-bar.js";
import { EntryMenu, Frame, Pill, Printed, Tools } from "../parts/session-frame.js";
import { SessionModel } from "../parts/session-model.js";
import { keepSeen, readSeen } from "../parts/seen.js";
import { SessionView } from "../parts/session-view.js";

const CAUGHT_UP_MS = 1000;

/** The page of a session; another session is another page. */
export default function Page({ params, query, app }) {
  return h(SessionPage, {
    key: params.session,
    session: params.session,
    entry: params.entry,
    leaf: query.get("leaf") ?? undefined,
    app,
  });
}

class SessionPage extends Component {
  #path = null;
  find = null;
  composer = null;
  #places = { items: null, prompts: null, places: [] };
  newSince = 0;
  #holdPath = (path) => {
    this.#path = path;
  };
  #holdFind = (find) => {
    this.find = find;
  };
  #holdComposer = (composer) => {
    this.composer = composer;
  };
  #marking = 0;
  state = {
    row: null,
    rowError: null,
    active: null,
    target: null,
    pinned: true,
    follows: true,
    finding: null,
    outline: false,
    reading: null,
    deleted: false,
  };

  constructor(props) {
    super(props);
    const { app, session } = props;
    this.model = new SessionModel(app, session, { seen: readSeen(session) });
    this.view = new SessionView({
      app,
      session,
      model: this.model,
      EntryMenu: (fields) => h(EntryMenu, { ...fields, page: this }),
    });
  }

  componentDidMount() {
    const { app, session, entry, leaf } = this.props;
    this.stop = this.model.onChange(() => this.#changed());
    this.stopApp = app.onChange(() => app.connection !== this.connection && this.#connected());
    this.stopRows = app.directory.onChange(() => this.#takeRow());
    this.#readRow();
    this.#open(leaf, entry);
    app.title(session);
    this.onHide = () => document.hidden && this.#keepSeen();
    this.onSelect = () => this.#selected();
    document.addEventListener("visibilitychange", this.onHide);
    document.addEventListener("selectionchange", this.onSelect);
  }

  componentDidUpdate(before) {
    const { entry, leaf } = this.props;
    if (entry !== before.entry || leaf !== before.leaf) this.#open(leaf, entry);
    this.#mark();
  }

  componentWillUnmount() {
    this.#keepSeen();
    this.stop();
    this.stopApp();
    clearTimeout(this.counting);
    this.stopRows();
    this.view.close();
    this.model.close();
    markWords(null, "");
    document.removeEventListener("visibilitychange", this.onHide);
    document.removeEventListener("selectionchange", this.onSelect);
  }

  /** Remember how far a person has read: to the end of what was in view. */
  #keepSeen() {
    const atEnd = this.state.pinned && !this.model.isPinnedBranch;
    const last = atEnd ? this.model.items.findLast((item) => !item.live) : this.model.rows[this.view.last]?.item;
    if (!last) return;
    // whoever is at the end has seen all of the session, also what is on no path
    const latest = [last.timestamp, atEnd ? this.state.row?.last_entry : undefined].filter(Boolean).map(Date.parse);
    keepSeen(this.props.session, last.seq, new Date(Math.max(...latest)).toISOString());
  }

  async #readRow() {
    const { app } = this.props;
    try {
      const row = await this.model.get("", { with: "state" });
      this.model.state ??= row.state;
      app.title(nameOf(row));
      this.setState({ row, rowError: null });
    } catch (error) {
      if (error.name !== "AbortError") this.setState({ rowError: error });
    }
  }

  /** The listing tells what the session is doing, and when it is renamed or archived. */
  #takeRow() {
    const row = this.props.app.directory.rows.get(this.props.session);
    if (row?.state && row !== this.taken) this.model.takeState(row.state);
    if (row && row !== this.taken && this.state.row) this.setState({ row: { ...this.state.row, ...row } });
    this.taken = row;
  }

  /** Say after an interruption how much came in during it. */
  #connected() {
    const { app } = this.props;
    if (app.connection === "lost") this.arrivedBefore = this.model.arrived;
    if (app.connection === "live" && this.arrivedBefore !== undefined) {
      clearTimeout(this.counting);
      this.counting = setTimeout(() => {
        const added = this.model.arrived - this.arrivedBefore;
        this.arrivedBefore = undefined;
        if (added > 0) app.toast(`Reconnected, ${entryCount(added)} added`);
      }, CAUGHT_UP_MS);
    }
    this.setState({});
  }

  // -- where the reader is

  async #open(leaf, entry) {
    const known = entry !== undefined && leaf === undefined && this.model.rowOf.has(entry);
    const wasBranch = this.model.isPinnedBranch;
    if (known) this.model.stay();
    if (
      !known &&
      (!this.model.isLoaded || entry !== undefined || leaf !== undefined || wasBranch || this.model.hasLater)
    ) {
      await this.model.open({ leaf, entry });
      if (entry !== this.props.entry || leaf !== this.props.leaf) return; // a later step counts
    }
    if (entry !== undefined && this.model.rowOf.has(entry)) this.#goTo(entry, { isTarget: true });
    else if (this.model.isLoaded) this.#whenDrawn(() => this.#path?.toEnd());
  }

  #whenDrawn(act) {
    this.setState({}, act);
  }

  /** Bring the row of an entry into view, with its folds open. */
  #goTo(id, { isTarget = false } = {}) {
    const place = this.model.rowOf.get(id);
    const row = this.model.rows[place];
    if (!row) return;
    const call = [...row.results].find(([, result]) => result.item.id === id);
    if (call) this.model.setOpen(`call:${row.item.id}:${call[0]}`, true, row.key);
    this.setState({ active: row.key, target: isTarget ? row.key : null, pinned: false }, () =>
      this.#path?.toRow(this.model.rowOf.get(id) ?? place),
    );
  }

  #activePlace() {
    const { active } = this.state;
    const place = active === null ? -1 : this.model.rows.findIndex((row) => row.key === active);
    return place >= 0 ? place : (this.view.first ?? 0) - 1;
  }

  step(by, isWanted = (row) => row.kind === "entry") {
    const { rows } = this.model;
    for (let place = this.#activePlace() + by; place >= 0 && place < rows.length; place += by) {
      if (!isWanted(rows[place])) continue;
      this.setState({ active: rows[place].key, target: null, pinned: false }, () => this.#path?.toRow(place));
      return undefined;
    }
    if (by < 0 && this.model.hasEarlier) this.model.loadMore("earlier").then(() => this.step(by, isWanted));
    else if (by > 0 && this.model.hasLater) this.model.loadMore("later").then(() => this.step(by, isWanted));
    else this.props.app.say("there are no more");
    return undefined;
  }

  /** Go to the beginning of the path. */
  async toBeginning() {
    const { model } = this;
    if (model.hasEarlier && model.prompts?.length)
      await model.open({ leaf: model.isPinnedBranch ? model.leaf : undefined, entry: model.prompts[0].id });
    for (let start = Infinity; model.hasEarlier && model.start < start;) {
      start = model.start;
      await model.loadMore("earlier");
    }
    this.setState({ active: null, target: null, pinned: false }, () => this.#path?.toRow(0));
  }

  get activeRow() {
    return this.model.rows.find((row) => row.key === this.state.active);
  }

  escape() {
    if (this.state.finding !== null) this.#closeFind();
    else if (this.state.outline) this.setState({ outline: false });
    else if (this.state.active !== null) this.setState({ active: null, target: null });
    else return false;
    return undefined;
  }

  #setFollows(follows) {
    this.setState({ follows }, () => (follows ? this.toEnd() : this.#path?.unpin()));
  }

  async toEnd() {
    this.newSince = this.model.arrived;
    if (this.model.isPinnedBranch || this.model.hasLater) {
      const { app, session, entry, leaf } = this.props;
      if (entry !== undefined || leaf !== undefined) app.navigate(path.session(session));
      else await this.#open(undefined, undefined);
    }
    this.#whenDrawn(() => this.#path?.toEnd());
  }

  // -- finding

  openFind() {
    if (this.view.isWhole && this.model.total <= this.model.items.length) return false;
    if (this.state.finding !== null && document.activeElement?.closest?.(".find-bar")) return false;
    this.#path?.unpin();
    this.setState({ finding: this.state.finding ?? "" }, () => this.find?.focus());
    return undefined;
  }

  #closeFind() {
    this.setState({ finding: null });
    markWords(null, "");
    this.#path?.element.focus();
  }

  #toHit = async (hit) => {
    if (!this.model.rowOf.has(hit.entry_id)) await this.model.open({ leaf: hit.branch?.leaf, entry: hit.entry_id });
    const row = this.model.rows[this.model.rowOf.get(hit.entry_id)];
    if (!row) return;
    for (const call of row.item.tools ?? []) {
      if (row.item.id === hit.entry_id || row.results.get(call.id)?.item.id === hit.entry_id)
        this.model.setOpen(`call:${row.item.id}:${call.id}`, true, row.key);
    }
    for (const name of ["0", "1", "summary", "system", "data"])
      this.model.setOpen(`${row.item.id}:${name}`, true, row.key);
    this.#goTo(hit.entry_id, { isTarget: true });
  };

  #mark() {
    if (this.state.finding === null || this.#marking) return;
    this.#marking = requestAnimationFrame(() => {
      this.#marking = 0;
      if (this.state.finding !== null) markWords(this.#path?.element, this.state.finding);
    });
  }

  // -- what changes

  #changed() {
    const { model } = this;
    if (model.state?.state !== this.spoken) {
      if (this.spoken !== undefined) this.props.app.say(`${model.state.state}`);
      this.spoken = model.state?.state;
    }
    if (this.state.pinned && !model.isPinnedBranch) this.newSince = model.arrived;
    if (this.#path && !document.hidden) this.#wantBodies();
    this.setState({});
  }

  #onPinned = (pinned) => {
    this.model.isReading = !pinned;
    this.setState({ pinned });
  };

  #onRange = (first, last) => {
    if (first === this.view.first && last === this.view.last) return;
    this.view.first = first;
    this.view.last = last;
    this.#wantBodies();
    const reading = this.#placeBefore(this.#path?.pinned ? last : Math.floor(first + (last - first) / 3));
    if (reading !== this.state.reading) this.setState({ reading });
  };

  #wantBodies() {
    this.model.bodies.want(this.view.wanted());
  }

  #outline() {
    const { items, prompts } = this.model;
    if (this.#places.items !== items || this.#places.prompts !== prompts)
      this.#places = { items, prompts, places: placesOf(this.model) };
    return this.#places.places;
  }

  /** The outline's place that the row at the top belongs to. */
  #placeBefore(first) {
    const { rows } = this.model;
    const seq = rows[first]?.item.seq ?? 0;
    let found = null;
    for (const place of this.#outline()) {
      if (place.seq > seq) break;
      if (place.kind === "prompt" || place.kind === "summary") found = place.key;
    }
    return found;
  }

  #selected() {
    const selection = document.getSelection();
    if (this.state.pinned && selection && !selection.isCollapsed && this.#path?.element?.contains(selection.anchorNode))
      this.#path.unpin();
  }

  // -- drawing

  render({ app, session }, { row, rowError, pinned, follows, finding, outline, reading, deleted, active, target }) {
    const { model, view } = this;
    this.connection = app.connection;
    if (deleted)
      return h("div", { class: "page-session fills" }, h("p", { class: "notice" }, "The session was deleted."));
    if (rowError && !row)
      return h("div", { class: "page-session fills" }, h(Failure, { error: rowError, retry: () => this.#readRow() }));
    view.isWhole = model.rows.length <= 300;
    const shown = { app, session, row, state: model.state ?? undefined };
    return h(
      "div",
      { class: "page-session fills" },
      h(Frame, { page: this, shown }),
      h(
        "div",
        { class: outline ? "session-body is-outlined" : "session-body" },
        h(Outline, {
          places: this.#outline(),
          current: reading,
          app,
          session,
          onGo: () => this.setState({ outline: false }),
        }),
        h(
          "section",
          { class: "session-main", "aria-label": "Conversation" },
          h(Tools, { page: this, model, follows: follows && pinned }),
          finding === null
            ? null
            : h(FindBar, {
                hold: this.#holdFind,
                model,
                onGo: this.#toHit,
                onQuery: (query) => this.setState({ finding: query }),
                onClose: () => this.#closeFind(),
              }),
          model.notice
            ? h(
                "p",
                { class: "notice session-notice", role: "status" },
                model.notice.text,
                " ",
                h("button", { class: "button quiet", type: "button", onClick: () => model.dismiss() }, "Dismiss"),
              )
            : null,
          model.error
            ? h(Failure, { error: model.error, retry: () => this.#open(this.props.leaf, this.props.entry) })
            : model.isLoaded
              ? this.#drawPath(active, target)
              : h(Skeleton, { rows: 8, height: 90 }),
          h(Pill, { page: this }),
          h(Printed, { model, view }),
          app.can("write") && model.isLoaded
            ? h(Composer, {
                hold: this.#holdComposer,
                app,
                session,
                model,
                reason: this.#reason(),
                onSent: () => this.toEnd(),
              })
            : null,
        ),
      ),
    );
  }

  #reason() {
    if (this.state.row?.archived) return "This session is archived: bring it back to write.";
    if (this.model.notice?.kind === "deleted") return "This session was deleted.";
    return this.props.app.connection === "lost" ? "There is no connection to the server." : null;
  }

  #drawPath(active, target) {
    const { model, view } = this;
    const { rows, total } = model;
    if (!rows.length) {
      const words =
        model.isConversation && model.items.length ? "Nothing was said here yet." : "Nothing in this session yet.";
      return h("p", { class: "soft session-empty" }, words);
    }
    const draw = (row, place) =>
      h(Row, {
        key: row.key,
        row,
        version: model.version(row.key),
        page: view,
        place: model.start + place,
        total,
        mode: `${view.isWhole}${model.state?.state}${model.state?.tool?.id}`,
        isActive: row.key === active,
        isTarget: row.key === target,
      });
    return h(Path, {
      hold: this.#holdPath,
      rows,
      draw,
      label: "Entries",
      start: model.start,
      total,
      follows: this.state.follows,
      placeOf: (key) => rows.findIndex((row) => row.key === key),
      hasEarlier: model.hasEarlier,
      hasLater: model.hasLater,
      onRange: this.#onRange,
      onEdge: (side) => model.loadMore(side),
      onPinned: this.#onPinned,
      before: model.hasEarlier ? h("p", { class: "path-edge soft" }, `${entryCount(model.start)} before these`) : null,
      after: model.hasLater
        ? h("p", { class: "path-edge soft" }, `${entryCount(total - model.start - model.items.length)} after these`)
        : null,
    });
  }

  onBranch = (item) => {
    this.composer?.branchFrom(item);
  };

  onDeleted = () => {
    this.setState({ deleted: true });
    this.props.app.toast("Deleted");
    this.props.app.navigate(path.sessions());
  };

  onChanged = () => this.#readRow();

  set(change) {
    this.setState(change);
  }

  follow(follows) {
    this.#setFollows(follows);
  }
}
