/**
 * What all sessions do, followed over one stream as long as the tab is open: the pages of lists draw from it, and it is
 * what makes the connection chip true on every page.
 */

import { useEffect, useState } from "../vendor/preact.js";
import { feedOf } from "./feed.js";

const JOIN_MS = 80;
const RETRY_MS = 3000;

/** The rows of the listing as they change. */
export class Directory {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {Map<string, object>} Rows by id: those that were asked for, and those that changed. */
    this.rows = new Map();
    /** How often anything changed: pages compare it. */
    this.version = 0;
    /** How often the stream began anew, so that what was read before may be old. */
    this.epoch = 0;
    this._listeners = new Set();
    this._goneListeners = new Set();
    /** @type {Set<string> | null} The rows that came since the stream began anew, until it has sent all. */
    this._fresh = null;
    this._timer = 0;
    this._told = 0;
  }

  /** Begins to follow: from now on, since pages read what was before. */
  async open() {
    const { server } = this.app;
    let page;
    try {
      page = await server.get("sessions", { query: { limit: 1 }, tries: 1 });
    } catch (error) {
      // the shell says why nothing comes; it may be there later
      if (error.status !== 401) setTimeout(() => this.open(), RETRY_MS);
      return;
    }
    const query = page.events ? { kinds: ["session", "state"] } : {};
    let begun = Boolean(page.events);
    feedOf(server).list({ since: page.events, query }, ({ event, data }) => {
      if (event === "session") this._session(data);
      else if (event === "state") this._state(data);
      else if (event === "reset") {
        this._fresh = new Set();
        if (begun) this._begin();
        begun = true;
      } else if (event === "ready") this._forget();
    });
  }

  _begin() {
    this.epoch += 1;
    this._changed();
  }

  /** What did not come after a new beginning is gone: nobody told of it meanwhile. */
  _forget() {
    const fresh = this._fresh;
    this._fresh = null;
    if (fresh) for (const id of [...this.rows.keys()]) if (!fresh.has(id)) this._drop(id);
  }

  _session({ op, id, row }) {
    if (op === "deleted" || !row) this._drop(id);
    else {
      this._keep({ ...row, state: row.state ?? this.rows.get(id)?.state ?? null });
      this._changed();
    }
  }

  _keep(row) {
    this.rows.set(row.id, row);
    this._fresh?.add(row.id);
  }

  _drop(id) {
    this.rows.delete(id);
    for (const listener of this._goneListeners) listener(id);
    this._changed();
  }

  _state(state) {
    const row = this.rows.get(state.session);
    if (row) this.rows.set(state.session, { ...row, state });
    this._changed();
  }

  /** Takes rows that a page has read. */
  put(rows) {
    for (const row of rows) this._keep(row);
  }

  /** Calls a listener with the id of each session that leaves the listing, being archived or deleted. */
  onGone(listener) {
    this._goneListeners.add(listener);
    return () => this._goneListeners.delete(listener);
  }

  /** Calls a listener soon after each change, changes joined; a hidden tab draws nothing. */
  onChange(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  _changed() {
    this.version += 1;
    if (this._timer) return;
    this._timer = setTimeout(() => this._tell(), Math.max(0, this._told + JOIN_MS - performance.now()));
  }

  _tell() {
    this._timer = 0;
    if (document.hidden) {
      document.addEventListener("visibilitychange", () => this._changed(), { once: true });
      return;
    }
    this._told = performance.now();
    for (const listener of this._listeners) listener();
  }
}

/** Draws the component again when a session changed; returns the version. */
export function useDirectory(directory) {
  const [version, setVersion] = useState(directory.version);
  useEffect(() => directory.onChange(() => setVersion(directory.version)), [directory]);
  return version;
}

/** Whether the pointer or the focus is in an element, whose rows should then not change places. */
export function useHeld(ref) {
  const [held, setHeld] = useState(false);
  useEffect(() => {
    const element = ref.current;
    let pointer = false;
    const update = () => setHeld(pointer || (element.contains(document.activeElement) && document.hasFocus()));
    const listen = {
      pointerenter: (event) => ((pointer = event.pointerType === "mouse"), update()),
      pointerleave: () => ((pointer = false), update()),
      focusin: update,
      focusout: () => setTimeout(update),
    };
    for (const [name, listener] of Object.entries(listen)) element.addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(listen)) element.removeEventListener(name, listener);
    };
  }, []);
  return held;
}
