/**
 * What a page hears of sessions as they grow, by as few connections as the browser allows.
 *
 * A browser opens six connections to a server, for all tabs together. So the streams are held once: by a shared worker;
 * where there is none, by the one tab that has a lock, which tells the others; where there is no lock either (a plain
 * http page from another machine), by each tab for itself, as long as it is shown.
 */

import { connect } from "../client.js";
import { Hub, Port } from "./hub.js";

const ALIVE_MS = 20_000;

/** @type {WeakMap<object, Feed>} */
const feeds = new WeakMap();

/**
 * Return the one feed of a page.
 * @param {import("../client.js").Server} server
 * @returns {Feed}
 */
export function feedOf(server) {
  const known = feeds.get(server) ?? new Feed(server, wayOf(server));
  feeds.set(server, known);
  return known;
}

/** Follows sessions and listings for a page; see {@link feedOf}. */
export class Feed {
  /**
   * @param {import("../client.js").Server} server
   * @param {(take: (message: any) => void) => {send(message: object): void, show(isShown: boolean): void}} way
   */
  constructor(server, way) {
    this._server = server;
    /** @type {Map<number, {what: any, listener: (event: any) => void}>} */
    this._followed = new Map();
    this._tokens = 0;
    this._way = way((message) => this._take(message));
    document.addEventListener("visibilitychange", () => this._way.show(!document.hidden));
    addEventListener("online", () => this._way.send({ check: true }));
    addEventListener("pagehide", () => this._way.send({ leave: true }));
    addEventListener("pageshow", (event) => event.persisted && this._return());
    setInterval(() => this._way.send({ alive: true }), ALIVE_MS);
  }

  /**
   * Follow a session: each entry once and in order, and what else the kinds name.
   * @param {string} id
   * @param {{since?: string, kinds?: string[]}} options From where, by default from its first entry.
   * @param {(event: {event: string, id: string|null, data: any}) => void} listener Gets `problem` if it cannot be
   *   followed, and `reset` if its log was replaced.
   * @returns {() => void} What stops that.
   */
  session(id, { since = "start", kinds = ["entry"] }, listener) {
    return this._join({ kind: "session", id, since, kinds }, listener);
  }

  /**
   * Follow a listing.
   * @param {{since?: string, query?: object}} options From where: the `events` of a page of the listing.
   * @param {(event: {event: string, id: string|null, data: any}) => void} listener
   * @returns {() => void} What stops that.
   */
  list({ since, query = {} }, listener) {
    return this._join({ kind: "list", id: "", since, query }, listener);
  }

  _join(what, listener) {
    const token = ++this._tokens;
    this._followed.set(token, { what, listener });
    this._way.send({ join: token, what });
    return () => {
      if (this._followed.delete(token)) this._way.send({ part: token });
    };
  }

  /** Come back from where the browser keeps pages that were left. */
  _return() {
    this._way.show(true);
    this._again();
  }

  /** Join all again, each from where this page is. */
  _again() {
    for (const [token, { what }] of this._followed) this._way.send({ join: token, what });
  }

  _take(message) {
    if (message.state) this._server.assume(message.state);
    if (message.again) this._again();
    if (!message.events) return;
    for (const [token, event] of message.events) {
      const followed = this._followed.get(token);
      if (!followed) continue;
      if (event.id !== null) followed.what.since = event.id;
      followed.listener(event);
    }
    this._way.send({ taken: true });
  }
}

function wayOf(server) {
  if (typeof SharedWorker !== "undefined") return (take) => byWorker(server, take);
  if (navigator.locks && typeof BroadcastChannel !== "undefined") return (take) => byLeader(server, take);
  return (take) => byItself(server, take);
}

function byWorker(server, take) {
  const address = new URL("../stream-worker.js", import.meta.url);
  let port = null;
  const open = () => {
    const worker = new SharedWorker(address, { type: "module", name: `treering ${server.base}` });
    worker.onerror = () =>
      take({ state: failed("the worker that holds the streams does not run: load the page again") });
    port = worker.port;
    port.onmessage = ({ data }) => take(data);
    port.postMessage({ hello: { base: String(server.base), timing: server.timing } });
  };
  open();
  addEventListener("pageshow", (event) => event.persisted && open()); // the worker may have ended meanwhile
  return {
    send: (message) => port.postMessage(message),
    show: (isShown) => isShown && port.postMessage({ check: true }),
  };
}

/** The tab that has the lock holds the streams, and all tabs, itself too, talk to it over a channel. */
function byLeader(server, take) {
  const name = `treering ${server.base}`;
  const me = Array.from(crypto.getRandomValues(new Uint32Array(2))).join("-");
  const channel = new BroadcastChannel(name);
  let lead = null; // what takes messages, in the tab that leads
  const deliver = ({ from, to, message }) => {
    if (from !== undefined) lead?.(from, message);
    else if (to === me || to === "all") take(message);
  };
  const post = (data) => {
    channel.postMessage(data);
    deliver(data);
  };
  channel.onmessage = ({ data }) => deliver(data);
  navigator.locks.request(name, () => {
    lead = leading(server, (to, message) => post({ to, message }));
    post({ to: "all", message: { again: true } });
    return new Promise(() => {}); // until this tab is closed
  });
  return {
    send: (message) => post({ from: me, message }),
    show: (isShown) => isShown && post({ from: me, message: { check: true } }),
  };
}

/** Return what takes the messages of tabs, for a hub in this one. */
function leading(server, post) {
  const hub = new Hub(ownOf(server));
  const ports = new Map();
  return (from, message) => {
    if (!ports.has(from)) ports.set(from, new Port(hub, (answer) => post(from, answer)));
    ports.get(from).take(message);
    if (message.leave) ports.delete(from);
  };
}

/** This tab's own streams, which end while it is hidden. */
function byItself(server, take) {
  let hub = null;
  let port = null;
  const show = (isShown) => {
    if (!isShown) {
      hub?.close();
      hub = port = null;
    } else if (hub) port.take({ check: true });
    else {
      hub = new Hub(ownOf(server));
      port = new Port(hub, take);
      take({ again: true });
    }
  };
  queueMicrotask(() => show(!document.hidden)); // once the feed is there to be told
  return { send: (message) => port?.take(message), show };
}

/** A client for a hub in this tab: the state of the page's own one is what the hub tells. */
function ownOf({ base, timing, token }) {
  return connect(base, { timing, token });
}

function failed(message) {
  return { state: "closed", since: Date.now(), heard: 0, error: { name: "Error", message } };
}
