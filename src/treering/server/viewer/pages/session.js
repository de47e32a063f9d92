/** A session: its path as it grows, an outline beside it, and a field to write in at its end. */

import { Component, h } from "../vendor/preact.js";
import { Composer } from "../parts/composer.js";
import { Row } from "../parts/entry.js";
import { Finder } from "../parts/find.js";
import { Failure, Skeleton } from "../parts/notices.js";
import { entries as entryCount } from "../parts/numbers.js";
import { Outline, placesOf } from "../parts/outline.js";
import { Path } from "../parts/path.js";
import { PathMap, isMapped } from "../parts/path-map.js";
import { path } from "../parts/paths.js";
import { EntryMenu, Frame, Pill, Printed, Tools } from "../parts/session-frame.js";
import { Picked } from "../parts/picked.js";
import { SessionModel } from "../parts/session-model.js";
import { SessionRow } from "../parts/session-row.js";
import { Reader } from "../parts/session-reader.js";
import { readSeen } from "../parts/seen.js";
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
  #places = { items: null, marks: null, places: [] };
  #map = null;
  #holdMap = (map) => {
    this.#map = map;
    this.#showRange();
  };
  #holdComposer = (composer) => {
    this.composer = composer;
  };
  state = { row: null, rowError: null, isGone: false, outline: false, reading: null, deleted: false };

  constructor(props) {
    super(props);
    const { app, session } = props;
    const draw = (then) => this.setState({}, then);
    this.model = new SessionModel(app, session, { seen: readSeen(session) });
    this.view = new SessionView({
      app,
      session,
      model: this.model,
      EntryMenu: (fields) => h(EntryMenu, { ...fields, page: this }),
    });
    this.reader = new Reader({
      app,
      session,
      draw,
      model: this.model,
      view: this.view,
      address: () => this.props,
      lastEntry: () => this.state.row?.last_entry,
      places: () => this.#outline(),
    });
    this.picked = new Picked({ app, model: this.model, reader: this.reader, draw });
    this.finder = new Finder({ model: this.model, view: this.view, reader: this.reader, draw });
  }

  componentDidMount() {
    const { app, session } = this.props;
    this.stop = this.model.onChange(() => this.#changed());
    this.stopApp = app.onChange(() => app.connection !== this.connection && this.#connected());
    this.kept = new SessionRow(app, session, () => this.#takeRow());
    this.reader.open();
    app.title(session);
    this.onHide = () => document.hidden && this.reader.keepSeen();
    this.onSelect = () => this.#selected();
    document.addEventListener("visibilitychange", this.onHide);
    document.addEventListener("selectionchange", this.onSelect);
  }

  componentDidUpdate(before) {
    const { entry, leaf } = this.props;
    if (entry !== before.entry || leaf !== before.leaf) this.reader.open();
    this.finder.mark();
  }

  componentWillUnmount() {
    this.reader.keepSeen();
    this.stop();
    this.stopApp();
    clearTimeout(this.counting);
    this.kept.close();
    this.view.close();
    this.model.close();
    this.finder.unmark();
    document.removeEventListener("visibilitychange", this.onHide);
    document.removeEventListener("selectionchange", this.onSelect);
  }

  /** The listing tells what the session is doing, and when it is renamed, archived or deleted. */
  #takeRow() {
    const { row, error, isDeleted } = this.kept;
    const listed = this.props.app.directory.rows.get(this.props.session);
    if (listed?.state && listed !== this.listed) this.model.takeState(listed.state);
    else if (row) this.model.state ??= row.state;
    this.listed = listed;
    this.setState({ row, rowError: error, isGone: isDeleted });
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

  // -- what changes

  #changed() {
    const { model } = this;
    if (model.state?.state !== this.spoken) {
      if (this.spoken !== undefined) this.props.app.say(`${model.state.state}`);
      this.spoken = model.state?.state;
    }
    this.reader.noteChange();
    if (this.reader.scroller && !document.hidden) this.#wantBodies();
    this.setState({});
  }

  #showRange() {
    const [first, last] = [this.view.first, this.view.last].map((place) => this.model.rows[place]?.item.place ?? 0);
    this.#map?.show(first, Math.max(first, last));
  }

  #onRange = (first, last) => {
    if (first === this.view.first && last === this.view.last) return;
    this.view.first = first;
    this.view.last = last;
    this.#wantBodies();
    this.#showRange();
    const reading = this.#placeBefore(this.reader.pinned ? last : Math.floor(first + (last - first) / 3));
    if (reading !== this.state.reading) this.setState({ reading });
  };

  #wantBodies() {
    this.model.bodies.want(this.view.wanted());
  }

  #outline() {
    const { items, marks } = this.model;
    if (this.#places.items !== items || this.#places.marks !== marks.items)
      this.#places = { items, marks: marks.items, places: placesOf(this.model) };
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
    const { pinned, scroller } = this.reader;
    if (pinned && selection && !selection.isCollapsed && scroller?.element?.contains(selection.anchorNode))
      scroller.unpin();
  }

  // -- drawing

  render({ app, session }, { row, rowError, isGone, outline, reading, deleted }) {
    const { model, view, reader } = this;
    this.connection = app.connection;
    if (deleted)
      return h("div", { class: "page-session fills" }, h("p", { class: "notice" }, "The session was deleted."));
    if (rowError && !row)
      return h("div", { class: "page-session fills" }, h(Failure, { error: rowError, retry: () => this.kept.read() }));
    view.isWhole = model.rows.length <= 300;
    const shown = { app, session, row, state: model.state ?? undefined, isDeleted: isGone };
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
          h(Tools, { page: this, model, follows: reader.follows && reader.pinned }),
          this.finder.bar(),
          this.picked.bar(),
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
            ? h(Failure, { error: model.error, retry: () => reader.open() })
            : model.isLoaded
              ? this.#drawPath()
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
                onSent: () => reader.toEnd(),
              })
            : null,
        ),
      ),
    );
  }

  #reason() {
    if (this.state.isGone || this.model.notice?.kind === "deleted") return "This session was deleted.";
    if (this.state.row?.archived) return "This session is archived: bring it back to write.";
    return this.props.app.connection === "lost" ? "There is no connection to the server." : null;
  }

  #drawPath() {
    const { model, view, reader } = this;
    const { rows, total } = model;
    if (!rows.length) {
      const words =
        model.isConversation && model.items.length ? "Nothing was said here yet." : "Nothing in this session yet.";
      return h("p", { class: "soft session-empty" }, words);
    }
    const [from, to] = this.picked.range ?? [Infinity, -1];
    const draw = (row, place) =>
      h(Row, {
        key: row.key,
        row,
        version: model.version(row.key),
        page: view,
        place: model.start + place,
        total,
        mode: `${view.isWhole}${model.state?.state}${model.state?.tool?.id}`,
        isActive: row.key === reader.active,
        isTarget: row.key === reader.target,
        isPicked: place >= from && place <= to,
      });
    const path = h(Path, {
      hold: reader.hold,
      rows,
      draw,
      label: "Entries",
      start: model.start,
      total,
      follows: reader.follows,
      placeOf: (key) => rows.findIndex((row) => row.key === key),
      hasEarlier: model.hasEarlier,
      hasLater: model.hasLater,
      onRange: this.#onRange,
      onEdge: (side) => model.loadMore(side),
      onPinned: reader.onPinned,
      before: model.hasEarlier ? h("p", { class: "path-edge soft" }, `${entryCount(model.start)} before these`) : null,
      after: model.hasLater
        ? h("p", { class: "path-edge soft" }, `${entryCount(total - model.start - model.items.length)} after these`)
        : null,
    });
    const { onMouseDown, onClick, onClickCapture } = this.picked;
    const box = h("div", { class: "path-box", onMouseDown, onClick, onClickCapture }, path);
    return h("div", { class: "path-frame" }, box, isMapped(total) ? this.#drawMap() : null);
  }

  #drawMap() {
    return h(PathMap, {
      hold: this.#holdMap,
      places: this.#outline(),
      hits: this.finder.hits,
      total: this.model.total,
      onGo: (place) => this.reader.toPlace(place),
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

  onChanged = () => this.kept.read();

  set(change) {
    this.setState(change);
  }

  /** Close what is open, one layer at a time; returns false if nothing is. */
  escape() {
    if (this.picked.clear() || this.finder.close()) return undefined;
    if (this.state.outline) this.setState({ outline: false });
    else if (this.reader.leave()) this.setState({});
    else return false;
    return undefined;
  }
}
