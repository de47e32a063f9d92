/** What every page and part may ask the shell for: the server, addresses, the clock, words for the person. */

import { createContext, useContext, useEffect, useState } from "../vendor/preact.js";
import { Directory } from "./directory.js";
import { match } from "./paths.js";

const LOST_AFTER_MS = 3000;
const SAID_EVERY_MS = 7000;
const ROLES = ["read", "write", "admin"];

/** The viewer as its pages see it; see the fields and methods. */
export class App {
  /** @param {ReturnType<import("../client.js").connect>} server */
  constructor(server) {
    this.server = server;
    /** @type {object | null} The reply of `GET /v1`, once it came. */
    this.me = null;
    /** What all sessions do, followed as long as the tab is open. */
    this.directory = new Directory(this);
    this.base = new URL(document.baseURI);
    this.connection = "connecting";
    this.connectionSince = Date.now();
    this.toasts = [];
    this.said = "";
    this.needs = 0;
    /** @type {Error | null} Why the server answers nothing to this person. */
    this.refused = null;
    /** @type {number | undefined} How far the window was scrolled in the step that Back came to. */
    this.restoring = undefined;
    this._name = "";
    this._listeners = new Set();
    this._memories = new Map();
    this._toastIds = 0;
    this._saidAt = 0;
    this._sayLater = 0;
    this._lostTimer = 0;
    server.onState(() => this._connectionChanged());
  }

  /** The server's clock, in milliseconds. */
  now() {
    return this.server.now();
  }

  /** When something last came from the server, in milliseconds of its clock. */
  get lastUpdate() {
    return this.server.lastHeard + this.server.offset;
  }

  /** Whether nothing may be written here, whoever asks. */
  get readOnly() {
    return this.me?.read_only ?? true;
  }

  /** Whether the sessions are those of other programs on the server's machine. */
  get showsPrograms() {
    return this.me?.features?.includes("programs") ?? false;
  }

  /** What the search field finds. */
  get searching() {
    return this.showsPrograms ? "Search names, first and last words" : "Search all sessions";
  }

  /** Whether the person may do what needs a right: draw no acting at all if not. */
  can(right) {
    if (right !== "read" && this.readOnly) return false;
    return ROLES.indexOf(this.me?.role) >= ROLES.indexOf(right);
  }

  // -- addresses

  /** The present page and what its address says. */
  get route() {
    const path = this.path;
    return { ...(match(path) ?? { name: null, params: {} }), path, query: new URLSearchParams(location.search) };
  }

  /** The path below the base, with "/" before it. */
  get path() {
    const { pathname } = location;
    return pathname.startsWith(this.base.pathname) ? `/${pathname.slice(this.base.pathname.length)}` : pathname;
  }

  /** A link's address for a path that begins with "/". */
  href(path) {
    return path === "/" ? "./" : path.replace(/^\//, "");
  }

  /** The path of a link that leads to one of the pages; null if it leads elsewhere. */
  inside(link) {
    if (!link.pathname.startsWith(this.base.pathname)) return null;
    const path = `/${link.pathname.slice(this.base.pathname.length)}`;
    return match(path) ? `${path}${link.search}` : null;
  }

  /** Goes to a path: a step that Back undoes, unless it replaces the present one. */
  navigate(path, { replace = false } = {}) {
    const to = new URL(this.href(path), this.base);
    if (to.href === location.href) return;
    const state = { place: replace ? this._place() : crypto.getRandomValues(new Uint32Array(2)).join("-") };
    const before = this.route;
    if (!replace) this.memory.set("window", scrollY);
    history[replace ? "replaceState" : "pushState"](state, "", to);
    const after = this.route;
    if (before.name !== after.name || before.params.session !== after.params.session) scrollTo(0, 0);
    this.changed();
  }

  /** Changes the present address's query; null removes a name. */
  setQuery(changes, { replace = true } = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    this.navigate(text ? `${this.path}?${text}` : this.path, { replace });
  }

  /** What a page remembers for this step of the history, such as how far it was scrolled. */
  get memory() {
    const place = this._place();
    if (!this._memories.has(place)) this._memories.set(place, new Map());
    return this._memories.get(place);
  }

  _place() {
    return history.state?.place ?? "first";
  }

  // -- words for the person

  /** Names the tab. */
  title(name) {
    this._name = name;
    this._titled();
  }

  /** Says in the tab's title how many agents need somebody. */
  need(number) {
    this.needs = number;
    this._titled();
  }

  _titled() {
    document.title = `${this.needs ? `(${this.needs}) ` : ""}${this._name ? `${this._name} · ` : ""}treering`;
  }

  /** Shows a short word at the bottom, for a while, or until it is closed if something failed. */
  toast(text, { kind = "info", action = null } = {}) {
    const toast = { id: (this._toastIds += 1), text, kind, action };
    this.toasts = [...this.toasts.slice(-2), toast];
    this.changed();
    if (kind !== "bad") setTimeout(() => this.closeToast(toast.id), action ? 10000 : 4000);
  }

  closeToast(id) {
    this.toasts = this.toasts.filter((each) => each.id !== id);
    this.changed();
  }

  /** Tells screen readers something, at most every 7 seconds; the latest counts. */
  say(text) {
    clearTimeout(this._sayLater);
    const wait = Math.max(0, this._saidAt + SAID_EVERY_MS - Date.now());
    this._sayLater = setTimeout(() => {
      this._saidAt = Date.now();
      this.said = text;
      this.changed();
    }, wait);
  }

  // -- changes

  /** Draws the shell again. */
  changed() {
    for (const listener of this._listeners) listener();
  }

  /** Calls a listener after each change; returns what stops it. */
  onChange(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  _connectionChanged() {
    const { state } = this.server.state;
    if (state === "open") {
      clearTimeout(this._lostTimer);
      this._lostTimer = 0;
      const back = this.connection === "lost";
      this._connected("live");
      if (back) this.say("reconnected");
    } else if (!this._lostTimer && this.connection !== "lost") {
      // attempts to connect come and go meanwhile
      this._lostTimer = setTimeout(() => {
        this._connected("lost");
        this.say("connection lost");
      }, LOST_AFTER_MS);
    }
  }

  _connected(connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    this.connectionSince = Date.now();
    this.changed();
  }
}

/** The app, for components below the shell. */
export const AppContext = createContext(null);

/** @returns {App} */
export function useApp() {
  return useContext(AppContext);
}

/** The connection: "live", "connecting" or "lost", and since when; draws again when it changes. */
export function useConnection() {
  const app = useApp();
  const [, update] = useState(0);
  useEffect(() => app.onChange(() => update((beat) => beat + 1)), [app]);
  return { state: app.connection, since: app.connectionSince, live: app.connection === "live" };
}

/** Names the tab as long as the component is drawn. */
export function useTitle(name) {
  const app = useApp();
  useEffect(() => app.title(name), [name]);
}
