/**
 * The client of a treering server for JavaScript: requests, streams that go on after every cut, and replicas of views.
 * One file without dependencies, for browsers, their workers, and Node.
 *
 *     import { connect } from "./client.js";
 *     const server = connect("http://127.0.0.1:8765/");
 *     for await (const { data: entry } of server.session("notes").follow()) console.log(entry.seq, entry.type);
 *
 * @module
 */

/**
 * One event of a stream.
 * @typedef {object} StreamEvent
 * @property {string} event Its kind, such as "entry"; readers ignore kinds that they do not know.
 * @property {string|null} id Where the reader is after it, if the event says so.
 * @property {any} data Its value.
 * @property {string} text Its value as it came: numbers above 2^53 are exact here alone.
 */

/**
 * How a stream does.
 * @typedef {object} StreamState
 * @property {"connecting"|"open"|"waiting"|"closed"} state "waiting" until the next attempt.
 * @property {number} since When this state began, in ms since 1970 by this machine's clock.
 * @property {number} heard When the server last sent anything; 0 for never.
 * @property {Error|null} error Why it waits, or was closed.
 */

/**
 * How long streams wait, in milliseconds. A server breaks its silence each 15 s. Where something hands replies on only
 * when they are whole, streams are asked for that end after `whole`, which are full seconds.
 */
const TIMING = {
  opening: 10_000,
  silence: 45_000,
  suspect: 20_000,
  first: 1_000,
  most: 30_000,
  steady: 10_000,
  whole: 2_000,
};

const TRIES = 5;
const REQUEST_MS = 60_000;
const MOMENTARY = new Set([408, 429, 502, 503, 504]);
const OPENED_AGAIN = new Set([408, 425, 429, 500, 502, 503, 504, 507]);

/** What a server refused, as its problem document (RFC 9457) says it. */
export class Problem extends Error {
  /**
   * @param {number} status The HTTP status.
   * @param {Record<string, any>} document The document; empty if a proxy answered in its place.
   * @param {Headers} headers The headers of the reply.
   */
  constructor(status, document, headers) {
    super(document.detail ?? document.title ?? `the server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    /** @type {string} A stable name of the kind of problem. */
    this.type = document.type ?? "about:blank";
    /** @type {string} */
    this.title = document.title ?? "";
    /** @type {string} What happened, and what to do. */
    this.detail = document.detail ?? this.message;
    /** @type {string|null} The class of the library's error, such as "LeafMoved". */
    this.error = document.error ?? null;
    this.where = document.where ?? null;
    /** @type {string|null} The field of the request that is wrong. */
    this.field = document.field ?? null;
    this.index = document.index ?? document.attributes?.index ?? null;
    /** Whether the same request is safe to repeat, and may succeed. */
    this.retry = document.type === undefined ? MOMENTARY.has(status) : document.retry === true;
    /** @type {{leaf: string|null, cursor: string}|null} The state that a precondition did not meet. */
    this.current = document.current ?? null;
    this.attributes = document.attributes ?? {};
    /** @type {string|null} */
    this.requestId = headers.get("x-request-id") ?? document.instance ?? null;
    const seconds = Number(headers.get("retry-after") ?? NaN);
    /** @type {number|null} */
    this.retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null;
  }
}

/** No reply: the server cannot be reached, or the connection was cut. */
export class Offline extends Error {
  /** @param {string} message @param {unknown} [cause] */
  constructor(message, cause) {
    super(message, { cause });
    this.name = "Offline";
  }
}

/**
 * Return a path whose values are encoded: at`sessions/${id}/entries`.
 * @param {TemplateStringsArray} strings
 * @param {...string} values
 * @returns {string}
 */
export function at(strings, ...values) {
  return String.raw({ raw: strings }, ...values.map(segment));
}

/** @param {string} value */
function segment(value) {
  if (value === "." || value === ".." || value === "") throw new TypeError(`${JSON.stringify(value)} is no id`);
  return encodeURIComponent(value);
}

/**
 * Return a client of the server at an address.
 * @param {string|URL} base The address, such as `document.baseURI`.
 * @param {object} [options]
 * @param {string|((renew: boolean) => string|Promise<string>)} [options.token] A token, or what returns one; it is
 *   called with true after a 401, once. Without it the browser's cookie counts.
 * @param {Partial<typeof TIMING>} [options.timing] Waits that differ from the usual ones.
 * @returns {Server}
 */
export function connect(base, options = {}) {
  return new Server(base, options);
}

/** A server: see {@link connect}. */
export class Server {
  /** @param {string|URL} base @param {{token?: any, timing?: Partial<typeof TIMING>}} options */
  constructor(base, { token, timing } = {}) {
    this.base = new URL("./", base);
    this.timing = { ...TIMING, ...timing };
    /** What the server's clock is ahead of this machine's, in ms. */
    this.offset = 0;
    this.token = token;
    this._isExact = false;
    /** Whether something between here and the server hands replies on only when they are whole. */
    this._isHeldBack = false;
    /** @type {Set<Line>} */
    this._lines = new Set();
    /** @type {Set<(state: StreamState) => void>} */
    this._listeners = new Set();
    /** @type {StreamState} How the streams do: as the one that does worst. */
    this.state = { state: "closed", since: Date.now(), heard: 0, error: null };
    if (typeof document !== "undefined") {
      document.addEventListener("visibilitychange", () => document.hidden || this.check());
      addEventListener("online", () => this.check());
    }
  }

  /** When the server last sent something over a stream, in ms since 1970 by this machine's clock; 0 for never. */
  get lastHeard() {
    return [...this._lines].reduce((latest, line) => Math.max(latest, line.state.heard), this.state.heard);
  }

  /** The time by the server's clock, in ms since 1970. */
  now() {
    return Date.now() + this.offset;
  }

  /**
   * Call a listener now and whenever the state of the streams changes.
   * @param {(state: StreamState) => void} listener
   * @returns {() => void} What stops that.
   */
  onState(listener) {
    this._listeners.add(listener);
    listener(this.state);
    return () => this._listeners.delete(listener);
  }

  /** Try now what waits, and doubt what has been silent: the machine was asleep, the page is shown again. */
  check() {
    for (const line of this._lines) line.check();
  }

  /**
   * Return the reply to a request, repeated as long as that is safe and may help.
   * @param {string} verb
   * @param {string} path Relative to /v1/; with a leading "/", to the server's address.
   * @param {object} [options]
   * @param {Record<string, any>} [options.query] Undefined values are left out, lists are joined by commas.
   * @param {unknown} [options.body] A JSON value.
   * @param {string|null} [options.key] The Idempotency-Key; by default all but GET and DELETE have a random one,
   *   null for none: such a request is not repeated.
   * @param {string} [options.ifMatch] A precondition, such as `"leaf:ENTRY"`, with its quotes.
   * @param {string} [options.etag] The tag of what the caller has: an unchanged reply has the status 304.
   * @param {AbortSignal} [options.signal]
   * @param {number} [options.tries]
   * @returns {Promise<{status: number, body: any, text: string, etag: string|null, headers: Headers}>}
   * @throws {Problem} The server refused it.
   * @throws {Offline} There was no reply.
   */
  async request(verb, path, { query, body, key, ifMatch, etag, signal, tries = TRIES } = {}) {
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json" };
    const isKeyed = verb === "POST" || verb === "PATCH" || verb === "PUT";
    if (isKeyed && key !== null) headers["idempotency-key"] = key ?? randomKey();
    if (ifMatch !== undefined) headers["if-match"] = ifMatch;
    if (etag) headers["if-none-match"] = etag;
    if (body !== undefined) headers["content-type"] = "application/json";
    const options = { method: verb, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const last = isKeyed && key === null ? 1 : tries;
    for (let attempt = 1; ; attempt++) {
      try {
        const limit = AbortSignal.timeout(REQUEST_MS);
        const reply = await this._ask(path, query, options, signal ? AbortSignal.any([signal, limit]) : limit);
        const text = await reply.text().catch((error) => {
          throw signal?.aborted ? error : new Offline("the reply was cut off", error);
        });
        if (!reply.ok && reply.status !== 304) throw new Problem(reply.status, documentOf(reply, text), reply.headers);
        const isJson = text !== "" && (reply.headers.get("content-type") ?? "").includes("json");
        const value = isJson ? JSON.parse(text) : undefined;
        if (value?.server_time) this._setClock(Date.parse(value.server_time), true);
        return { status: reply.status, body: value, text, etag: reply.headers.get("etag"), headers: reply.headers };
      } catch (error) {
        if (verb === "DELETE" && attempt > 1 && /** @type {Problem} */ (error).status === 404) {
          return { status: 404, body: undefined, text: "", etag: null, headers: new Headers() }; // a try deleted it
        }
        const isMomentary = error instanceof Offline || (error instanceof Problem && error.retry);
        if (!isMomentary || attempt >= last || signal?.aborted) throw error;
        const wait = Math.random() * Math.min(250 * 2 ** attempt, 4_000);
        await sleep(Math.max(wait, /** @type {Problem} */ (error).retryAfterMs ?? 0), signal);
      }
    }
  }

  /** Return what stands at a path. @param {string} path @param {object} [options] See {@link Server#request}. */
  async get(path, options) {
    return (await this.request("GET", path, options)).body;
  }

  /** Send a value to a path. @param {string} path @param {object} [options] See {@link Server#request}. */
  async post(path, options) {
    return (await this.request("POST", path, options)).body;
  }

  /** Change what stands at a path. @param {string} path @param {object} [options] See {@link Server#request}. */
  async patch(path, options) {
    return (await this.request("PATCH", path, options)).body;
  }

  /** Set what stands at a path. @param {string} path @param {object} [options] See {@link Server#request}. */
  async put(path, options) {
    return (await this.request("PUT", path, options)).body;
  }

  /** Delete what stands at a path. @param {string} path @param {object} [options] See {@link Server#request}. */
  async delete(path, options) {
    return (await this.request("DELETE", path, options)).body;
  }

  /** Return the session with an id. @param {string} id @returns {Session} */
  session(id) {
    return new Session(this, id);
  }

  /**
   * Follow a stream: each event once and in order, whatever happens to connections.
   * @param {string} path Such as "events" or "sessions/ID/events".
   * @param {object} [options]
   * @param {string} [options.since] "start", "end", or the id of the last event that the caller has.
   * @param {string[]} [options.kinds]
   * @param {string} [options.view]
   * @param {boolean} [options.live] False: end after catching up.
   * @param {Record<string, any>} [options.query] What else the path takes.
   * @param {AbortSignal} [options.signal]
   * @param {(state: StreamState) => void} [options.onState]
   * @returns {AsyncGenerator<StreamEvent, void, void>} It ends after `bye` without a reconnection (which it yields), by
   *   the signal, and after catching up if not live.
   * @throws {Problem} The stream cannot be opened, and repeating does not help.
   */
  async *follow(path, { since, kinds, view, live, query, signal, onState } = {}) {
    const word = since === "start" || since === "end" ? since : undefined;
    let last = word === undefined ? since : undefined;
    let seq = 0;
    // "ready" says where "end" was, and that whoever ends there has caught up; a listing always says it
    const isTold = (since === "end" || live === false) && !view && path !== "events";
    const asked = isTold ? [...new Set([...(kinds ?? ["entry"]), "ready"])] : kinds;
    const every = { ...query, since: word, kinds: asked, view, live };
    const describe = () => ({ verb: "GET", path, query: every, lastId: last });
    const line = new Line(this, describe, { signal, onState, ends: live === false });
    for await (const event of line.events()) {
      if (event.id !== null) last = event.id;
      if (event.event === "reset") seq = 0;
      else if (event.event === "entry") {
        if (event.data.seq <= seq) continue;
        seq = event.data.seq;
      }
      if (event.event === "ready" && asked !== kinds && !kinds?.includes("ready")) continue;
      yield event;
    }
  }

  /**
   * Follow many sessions over one connection.
   * @param {Record<string, Following>} sessions Where to begin, by the ids of sessions; see {@link Gathering#add}.
   * @param {{signal?: AbortSignal, onState?: (state: StreamState) => void}} [options]
   * @returns {Gathering}
   */
  followMany(sessions, options) {
    return new Gathering(this, sessions, options);
  }

  /**
   * @param {string} path @param {Record<string, any>|undefined} query @param {RequestInit} options
   * @param {AbortSignal} signal @returns {Promise<Response>}
   */
  async _ask(path, query, options, signal) {
    const url = new URL(path.startsWith("/") ? `.${path}` : `v1/${path}`, this.base);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
    }
    for (let renew = false; ; renew = true) {
      const headers = new Headers(options.headers);
      const token = typeof this.token === "function" ? await this.token(renew) : this.token;
      if (token) headers.set("authorization", `Bearer ${token}`);
      const begun = Date.now();
      let reply;
      try {
        reply = await fetch(url, { ...options, headers, signal, cache: "no-store" });
      } catch (error) {
        if (signal.aborted && signal.reason?.name !== "TimeoutError") throw error;
        throw new Offline(`the server at ${this.base} cannot be reached`, error);
      }
      const date = Date.parse(reply.headers.get("date") ?? "");
      if (!Number.isNaN(date)) this._setClock(date + 500 + (Date.now() - begun) / 2, false);
      if (reply.status !== 401 || renew || typeof this.token !== "function") return reply;
      await reply.body?.cancel();
    }
  }

  /** @param {number} time @param {boolean} isExact Whether it is to the millisecond, not to the second. */
  _setClock(time, isExact) {
    const offset = time - Date.now();
    if (isExact || !this._isExact || Math.abs(offset - this.offset) > 2_000) this.offset = offset;
    this._isExact ||= isExact;
  }

  /** Tell the listeners of streams that another holds for this page, such as a worker. @param {StreamState} state */
  assume(state) {
    this.state = state;
    for (const listener of this._listeners) listener(this.state);
  }

  /** Take the states of the streams together. */
  _tell() {
    const order = ["closed", "open", "connecting", "waiting"];
    const states = [...this._lines].map((line) => line.state);
    const worst = states.reduce(
      (one, other) => (order.indexOf(other.state) > order.indexOf(one.state) ? other : one),
      { state: /** @type {StreamState["state"]} */ ("closed"), since: Date.now(), heard: 0, error: null },
    );
    const heard = Math.max(this.state.heard, ...states.map((each) => each.heard));
    const since = worst.state === this.state.state ? Math.min(this.state.since, worst.since) : worst.since;
    this.assume({ ...worst, since, heard });
  }
}

/**
 * One stream over as many connections as it takes.
 * @typedef {{verb: string, path: string, query?: Record<string, any>, body?: unknown, lastId?: string}} Description
 */
class Line {
  /**
   * @param {Server} server
   * @param {() => Description} describe Says how to open the next connection.
   * @param {{signal?: AbortSignal, onState?: (state: StreamState) => void, ends?: boolean}} options
   */
  constructor(server, describe, { signal, onState, ends = false }) {
    this._server = server;
    this._describe = describe;
    this._signal = signal;
    this._onState = onState;
    this._ends = ends;
    /** @type {AbortController|null} */
    this._connection = null;
    this._isGivenUp = false;
    this._silent = 0; // how often in a row nothing came of a stream
    this._askedAt = 0;
    this._wake = () => {};
    /** @type {StreamState} */
    this.state = { state: "connecting", since: Date.now(), heard: 0, error: null };
  }

  /** End a wait; give up a connection that has been silent for a while. */
  check() {
    this._wake();
    if (this.state.state === "open" && Date.now() - this.state.heard > this._server.timing.suspect) this.reopen();
  }

  /** Give up this connection and open another one now. */
  reopen() {
    this._isGivenUp = true;
    this._connection?.abort(new Offline("the connection is given up"));
  }

  /** @returns {AsyncGenerator<StreamEvent, void, void>} */
  async *events() {
    const { timing, _lines: lines } = this._server;
    let failures = 0;
    let hasAll = false;
    lines.add(this);
    try {
      while (!this._signal?.aborted) {
        this._set("connecting", this.state.error);
        this._isGivenUp = false;
        let wait = null;
        let openedAt = 0;
        try {
          const reply = await this._open();
          openedAt = Date.now();
          this._set("open", null);
          for await (const event of this._read(reply)) {
            if (event.event !== "bye") {
              hasAll ||= event.event === "ready" || event.event === "view";
              yield event;
              continue;
            }
            if (!event.data.reconnect) {
              yield event;
              return;
            }
            wait = event.data.retry_ms * (0.5 + Math.random());
          }
          if (wait === null && this._ends && hasAll) return;
          if (wait === null) throw new Offline("the stream ended without a word");
        } catch (raised) {
          const error = /** @type {Error} */ (raised);
          if (this._signal?.aborted) return;
          if (error instanceof Problem ? !OPENED_AGAIN.has(error.status) : !(error instanceof Offline)) {
            this._set("closed", error);
            throw error;
          }
          if (openedAt && Date.now() - openedAt >= timing.steady) failures = 0;
          if (this._isGivenUp) continue;
          const backoff = Math.random() * Math.min(timing.first * 2 ** failures, timing.most);
          failures += 1;
          wait = Math.max(backoff, /** @type {Problem} */ (error).retryAfterMs ?? 0);
          this._set("waiting", error);
        } finally {
          this._connection?.abort();
        }
        if (wait) await this._pause(wait);
      }
    } finally {
      lines.delete(this);
      if (this.state.state !== "closed") this._set("closed", null);
      else this._server._tell();
    }
  }

  /** @returns {Promise<Response>} */
  async _open() {
    const { verb, path, query, body, lastId } = this._describe();
    const connection = (this._connection = new AbortController());
    const signal = this._signal ? AbortSignal.any([connection.signal, this._signal]) : connection.signal;
    /** @type {Record<string, string>} */
    const headers = { accept: "text/event-stream" };
    if (lastId !== undefined) headers["last-event-id"] = lastId;
    if (this._silent > 1) this._server._isHeldBack = true;
    if (this._server._isHeldBack) headers.prefer = `wait=${this._server.timing.whole / 1000}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const options = { method: verb, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    this._askedAt = Date.now();
    const reply = await this._bounded(this._server._ask(path, query, options, signal), "opening");
    if (!reply.ok) throw new Problem(reply.status, documentOf(reply, await reply.text()), reply.headers);
    const type = reply.headers.get("content-type") ?? "nothing";
    if (!type.startsWith("text/event-stream")) {
      throw new Offline(`the answer is ${type}, not a stream: something stands between this page and the server`);
    }
    return reply;
  }

  /** @param {Response} reply @returns {AsyncGenerator<StreamEvent, void, void>} */
  async *_read(reply) {
    const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (let wait = /** @type {"opening"|"silence"} */ ("opening"); ; wait = "silence") {
      const { done, value } = await this._bounded(reader.read(), wait);
      if (done) return; // a block without its empty line is not an event
      this.state.heard = Date.now();
      if (wait === "opening") this._begun();
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = /** @type {string} */ (blocks.pop());
      for (const block of blocks) {
        const event = eventOf(block);
        if (event !== null) yield event;
      }
    }
  }

  /** Note that the first bytes came; if they came before the reply was whole, nothing holds replies back. */
  _begun() {
    this._silent = 0;
    if (!this._ends && Date.now() - this._askedAt < this._server.timing.whole / 2) this._server._isHeldBack = false;
  }

  /**
   * Wait for something no longer than the bound of that name allows; then give up the connection.
   * @template T @param {Promise<T>} promise @param {"opening"|"silence"} bound @returns {Promise<T>}
   */
  async _bounded(promise, bound) {
    const { timing, _isHeldBack } = this._server;
    const ms = timing[bound] + (_isHeldBack ? timing.whole : 0);
    const late = new Offline(`nothing came for ${ms / 1000} s`);
    const connection = /** @type {AbortController} */ (this._connection);
    const timer = setTimeout(() => {
      if (bound === "opening") this._silent += 1;
      connection.abort(late);
    }, ms);
    try {
      return await promise;
    } catch (error) {
      if (error instanceof Offline || error instanceof Problem || this._signal?.aborted) throw error;
      throw connection.signal.reason instanceof Offline
        ? connection.signal.reason
        : new Offline("the connection was cut", error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {number} ms */
  async _pause(ms) {
    const woken = new Promise((resolve) => (this._wake = () => resolve(undefined)));
    await Promise.race([woken, sleep(ms, this._signal).catch(() => {})]);
    this._wake = () => {};
  }

  /** @param {StreamState["state"]} state @param {Error|null} error */
  _set(state, error) {
    this.state = { state, since: Date.now(), heard: this.state.heard, error };
    if (state === "open") this.state.heard = Date.now();
    this._onState?.(this.state);
    this._server._tell();
  }
}

/**
 * Where to follow a session from, and what of it.
 * @typedef {{since?: string, kinds?: string[]}} Following
 */

/** Many sessions over one connection. Iterate over it once: each event has the id of its `session`. */
export class Gathering {
  /** @param {Server} server @param {Record<string, Following>} sessions @param {any} [options] */
  constructor(server, sessions, { signal, onState } = {}) {
    this._server = server;
    this._closing = new AbortController();
    this._signal = signal ? AbortSignal.any([signal, this._closing.signal]) : this._closing.signal;
    /** @type {Map<string, {since: string, kinds?: string[], seq: number}>} What the caller wants, and where it is. */
    this._wanted = new Map();
    /** @type {Map<string, object>} Which of that the stream sends. */
    this._held = new Map();
    /** @type {Map<string, object>} What is on its way to become that. */
    this._sent = new Map();
    /** @type {{stream: string, revision: number}|null} */
    this._set = null;
    this._isChanging = false;
    this._line = new Line(server, () => this._describe(), { signal: this._signal, onState });
    this.add(sessions);
  }

  /** The place up to which each session was followed, to begin there another time. */
  get cursors() {
    return Object.fromEntries([...this._wanted].map(([id, each]) => [id, each.since]));
  }

  /** Where a session is, or undefined if it is not followed. @param {string} id @returns {string|undefined} */
  cursor(id) {
    return this._wanted.get(id)?.since;
  }

  /** Follow more sessions; one that is followed begins again there. @param {Record<string, Following>} sessions */
  add(sessions) {
    for (const [id, { since = "start", kinds }] of Object.entries(sessions)) {
      this._wanted.set(id, { since, kinds, seq: 0 });
    }
    this._change();
  }

  /** Follow sessions no longer: nothing of them comes after this call. @param {string[]} ids */
  remove(ids) {
    for (const id of ids) this._wanted.delete(id);
    this._change();
  }

  /** End the stream. */
  close() {
    this._closing.abort();
  }

  /** @returns {AsyncGenerator<StreamEvent & {session: string}, void, void>} The `id` is the session's cursor. */
  async *[Symbol.asyncIterator]() {
    for await (const event of this._line.events()) {
      if (event.event === "set") {
        for (const [id, problem] of this._entered(event.data)) {
          yield { event: "problem", id: null, data: problem, text: JSON.stringify(problem), session: id };
        }
        this._change();
        continue;
      }
      const cut = event.id === null ? -1 : event.id.indexOf("/");
      const id = cut < 0 ? event.data.session : /** @type {string} */ (event.id).slice(0, cut);
      const wanted = this._wanted.get(id);
      if (event.event !== "bye" && (wanted === undefined || this._held.get(id) !== wanted)) continue;
      if (event.event === "problem") {
        this._held.delete(id);
        this._wanted.delete(id);
      } else if (wanted !== undefined && event.event === "reset") wanted.seq = 0;
      else if (wanted !== undefined && event.event === "entry") {
        if (event.data.seq <= wanted.seq) continue;
        wanted.seq = event.data.seq;
      }
      const cursor = cut < 0 ? null : /** @type {string} */ (event.id).slice(cut + 1);
      if (cursor !== null && wanted !== undefined) wanted.since = cursor;
      const { problem, reset } = event.data;
      yield { ...event, id: cursor, data: { problem, reset }[event.event] ?? event.data, session: id };
    }
  }

  /** @returns {Description} */
  _describe() {
    this._held.clear();
    this._set = null;
    this._sent = new Map(this._wanted);
    return { verb: "POST", path: "events", body: { sessions: this._followings(this._wanted.keys()) } };
  }

  /** @param {Iterable<string>} ids */
  _followings(ids) {
    /** @type {Record<string, Following>} */
    const found = {};
    for (const id of ids) {
      const { since, kinds } = /** @type {{since: string, kinds?: string[]}} */ (this._wanted.get(id));
      found[id] = kinds === undefined ? { since } : { since, kinds };
    }
    return found;
  }

  /**
   * Note what the stream sends from here on; return what it refused.
   * @param {{stream: string, revision: number, added: string[], removed: string[], refused: Record<string, any>}} set
   * @returns {[string, any][]}
   */
  _entered({ stream, revision, added, removed, refused }) {
    this._set = { stream, revision };
    for (const id of removed) this._held.delete(id);
    for (const id of added) this._held.set(id, /** @type {object} */ (this._sent.get(id)));
    const told = Object.entries(refused).filter(([id]) => this._sent.get(id) === this._wanted.get(id));
    for (const [id] of told) this._wanted.delete(id);
    return told;
  }

  /** Bring the stream's set to what is wanted, one change at a time. */
  async _change() {
    if (this._isChanging || this._set === null || this._signal.aborted) return;
    const { stream, revision } = this._set;
    const add = [...this._wanted.keys()].filter((id) => this._held.get(id) !== this._wanted.get(id));
    const remove = [...this._held.keys()].filter((id) => this._held.get(id) !== this._wanted.get(id));
    if (!add.length && !remove.length) return;
    this._isChanging = true;
    this._set = null; // until the stream says that it has changed
    for (const id of add) this._sent.set(id, /** @type {object} */ (this._wanted.get(id)));
    try {
      const body = { revision, add: this._followings(add), remove };
      await this._server.patch(at`events/${stream}`, { body, key: null, signal: this._signal });
    } catch {
      if (!this._signal.aborted && this._set === null) this._line.reopen(); // the new connection has all of it
    } finally {
      this._isChanging = false;
      this._change();
    }
  }
}

/** One session of a server. */
export class Session {
  /** @param {Server} server @param {string} id */
  constructor(server, id) {
    this.server = server;
    this.id = id;
    this.path = at`sessions/${id}`;
  }

  /** Return its row. @param {object} [options] */
  get(options) {
    return this.server.get(this.path, options);
  }

  /** Return a page of entries. @param {Record<string, any>} [query] @param {object} [options] */
  entries(query, options) {
    return this.server.get(`${this.path}/entries`, { query, ...options });
  }

  /** Return one entry. @param {string} entry @param {object} [options] */
  entry(entry, options) {
    return this.server.get(this.path + at`/entries/${entry}`, options);
  }

  /**
   * Append one payload, or several at once: all or none.
   * @param {any} payload A payload, a list of them, or `{entries, below, aside, expected_leaf, expected_seq}`.
   * @param {object} [options] See {@link Server#request}.
   */
  append(payload, options) {
    const body = Array.isArray(payload) ? { entries: payload } : payload;
    return this.server.post(`${this.path}/entries`, { body, ...options });
  }

  /** Return its leaf and its cursor. @param {object} [options] */
  leaf(options) {
    return this.server.get(`${this.path}/leaf`, options);
  }

  /** Move the leaf to an entry; null for before the first. @param {string|null} entry @param {object} [options] */
  move(entry, options) {
    return this.server.put(`${this.path}/leaf`, { body: { entry_id: entry }, ...options });
  }

  /**
   * Branch from an entry.
   * @param {string} entry @param {string} [summary] Of what is left. @param {object} [options]
   */
  branch(entry, summary, options) {
    const body = summary === undefined ? { entry_id: entry } : { entry_id: entry, summary };
    return this.server.post(`${this.path}/branch`, { body, ...options });
  }

  /**
   * Label an entry.
   * @param {string} entry @param {string|null} label Null removes it. @param {object} [options]
   */
  label(entry, label, options) {
    const path = this.path + at`/labels/${entry}`;
    return label === null ? this.server.delete(path, options) : this.server.put(path, { body: { label }, ...options });
  }

  /** Return a view as it is. @param {"context"|"tree"|"labels"|"usage"} name @param {object} [options] */
  view(name, options) {
    return this.server.get(`${this.path}/${name === "usage" ? "views/usage" : name}`, options);
  }

  /** Follow its entries. @param {object} [options] See {@link Server#follow}. */
  follow(options) {
    return this.server.follow(`${this.path}/events`, options);
  }

  /**
   * Keep a view current.
   * @param {string} view "context", "tree", "labels", "usage", or one of the program's own.
   * @param {{signal?: AbortSignal, apply?: (value: any, change: any) => any}} [options] `apply` returns the value of a
   *   view of the program's own after a change.
   */
  replica(view, options) {
    return new Replica(this, view, options);
  }
}

/** The usage of no entry. */
const NO_USAGE = {
  input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, total_tokens: 0, cost: 0,
};

/**
 * What each view begins with, how a change of it is applied, and how it is shown.
 * @type {Record<string, {begin(value: any): any, apply(held: any, change: any): any, show(held: any): any}>}
 */
const VIEWS = {
  context: {
    begin: (value) => value,
    apply: (context, { start, delete: count, insert, leaf, leaf_id, model, thinking_level, warnings = [] }) => {
      const messages = context.messages.slice();
      for (let place = 0; place < insert.length; place += 1_000) {
        messages.splice(start + place, place ? 0 : count, ...insert.slice(place, place + 1_000));
      }
      if (!insert.length) messages.splice(start, count);
      return { ...context, leaf, leaf_id, model, thinking_level, messages, warnings };
    },
    show: (context) => context,
  },
  tree: {
    begin: (tree) => {
      const held = { nodes: new Map(), children: new Map([[0, []]]), labels: new Map(), leaf: 0 };
      for (const node of [...tree.nodes].sort((one, other) => one.seq - other.seq)) addNode(held, node);
      held.leaf = tree.leaf;
      return held;
    },
    apply: (held, change) => {
      if (change.change === "node_added") addNode(held, change);
      else if (change.change === "label_changed") setLabel(held.labels, change.id, change.label);
      else if (change.change === "leaf_changed") held.leaf = change.leaf;
      return held;
    },
    show: treeOf,
  },
  labels: {
    begin: (pairs) => new Map(pairs),
    apply: (labels, { entry_id: id, label }) => setLabel(labels, id, label),
    show: (labels) => new Map(labels),
  },
  usage: {
    begin: (totals) => ({
      total: { ...NO_USAGE, ...totals.total },
      by_model: (totals.by_model ?? []).map(fullUsage),
    }),
    apply: (totals, change) => {
      const added = fullUsage(change);
      /** @type {any[]} */
      const by_model = totals.by_model.slice();
      const place = by_model.findIndex((each) => each.provider === added.provider && each.model === added.model);
      if (place < 0) by_model.push(added);
      else by_model[place] = { ...added, usage: sum(by_model[place].usage, added.usage) };
      return { total: sum(totals.total, added.usage), by_model };
    },
    show: (totals) => totals,
  },
};

/** A view of a session that is kept current by its changes. */
export class Replica {
  /** @param {Session} session @param {string} view @param {any} [options] See {@link Session#replica}. */
  constructor(session, view, { signal, apply } = {}) {
    this._view = apply ? { begin: same, apply, show: same } : VIEWS[view];
    if (!this._view) throw new TypeError(`the view ${JSON.stringify(view)} needs \`apply\``);
    this._closing = new AbortController();
    this._listeners = new Set();
    this._held = undefined;
    this._shown = undefined;
    /** @type {string} Where the log was. */
    this.cursor = "";
    const every = signal ? AbortSignal.any([signal, this._closing.signal]) : this._closing.signal;
    /** Resolves when there is a value; rejects if the view cannot be followed. @type {Promise<Replica>} */
    this.ready = new Promise((resolve, reject) => {
      this._run(session, view, every, () => resolve(this)).catch((error) => {
        this.error = error;
        reject(error);
        this._tell();
      });
    });
    this.ready.catch(() => {}); // whoever waits for it is told
    /** @type {Error|null} Why it is no longer current. */
    this.error = null;
  }

  /** The view, not to be changed; undefined before the first one came. */
  get value() {
    if (this._shown === undefined && this._held !== undefined) this._shown = this._view.show(this._held);
    return this._shown;
  }

  /** Call a listener after each change. @param {(replica: Replica) => void} listener @returns {() => void} */
  on(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  /** Stop. */
  close() {
    this._closing.abort();
  }

  /** @param {Session} session @param {string} view @param {AbortSignal} signal @param {() => void} begun */
  async _run(session, view, signal, begun) {
    const path = `${session.path}/events`;
    const line = new Line(session.server, () => ({ verb: "GET", path, query: { view } }), { signal });
    for await (const { event, data } of line.events()) {
      if (event === "view") this._held = this._view.begin(data.value);
      else if (event === "change" && data.base === this.cursor) this._held = this._view.apply(this._held, data.change);
      else if (event === "change") {
        line.reopen(); // a change was lost: begin with a new value
        continue;
      } else if (event === "problem") throw new Problem(data.status, data, new Headers());
      else continue;
      this.cursor = data.cursor;
      this._shown = undefined;
      begun();
      this._tell();
    }
  }

  _tell() {
    for (const listener of this._listeners) listener(this);
  }
}

/**
 * Sign this browser in: it gets a cookie that no script can read.
 * @param {Server} server
 * @param {string} [token] By default the one-time token in the page's address, which is spent.
 * @returns {Promise<boolean>} Whether there was one.
 * @throws {Problem} It was used, was revoked or has expired.
 */
export async function signIn(server, token) {
  const once = new URLSearchParams(location.hash.slice(1)).get("once");
  if (once !== null) history.replaceState(history.state, "", location.pathname + location.search); // it leaves no trace
  const given = token ?? once;
  if (given === null) return false;
  await server.post("/login", { body: { token: given }, key: null });
  return true;
}

/** Sign this browser out. @param {Server} server */
export async function signOut(server) {
  await server.post("/logout", { key: null });
}

/** @param {string} block @returns {StreamEvent|null} */
function eventOf(block) {
  let event = "message";
  let id = null;
  let text = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) text = line.slice(6);
    else if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  return text === null ? null : { event, id, data: JSON.parse(text), text };
}

/** @param {Response} reply @param {string} text @returns {Record<string, any>} */
function documentOf(reply, text) {
  return reply.headers.get("content-type")?.startsWith("application/problem+json") ? JSON.parse(text) : {};
}

/** @param {any} held @param {any} node */
function addNode({ nodes, children, labels }, { id, seq, parent_seq, type, label, role }) {
  nodes.set(seq, { id, seq, parent_seq, type, role });
  if (!children.has(parent_seq)) children.set(parent_seq, []);
  children.get(parent_seq).push(seq);
  setLabel(labels, id, label);
}

/** @param {Map<string, string>} labels @param {string} id @param {string|null} label */
function setLabel(labels, id, label) {
  if (label) labels.set(id, label);
  else labels.delete(id);
  return labels;
}

/** Return all nodes, depth first, as `GET …/tree` does. @param {any} held */
function treeOf({ nodes, children, labels, leaf }) {
  const path = new Set();
  for (let seq = leaf; seq; seq = nodes.get(seq).parent_seq) path.add(seq);
  const found = [];
  const stack = [...children.get(0)].reverse().map((seq) => ({ seq, depth: 0 }));
  for (let here = stack.pop(); here; here = stack.pop()) {
    const { seq, depth } = here;
    const node = nodes.get(seq);
    /** @type {number[]} */
    const below = children.get(seq) ?? [];
    const parent_id = nodes.get(node.parent_seq)?.id ?? null;
    const ids = below.map((each) => nodes.get(each).id);
    const label = labels.get(node.id) ?? null;
    found.push({ ...node, parent_id, depth, label, children: ids, on_path: path.has(seq) });
    for (let place = below.length - 1; place >= 0; place--) stack.push({ seq: below[place], depth: depth + 1 });
  }
  return { nodes: found, leaf };
}

/** @param {any} value */
function same(value) {
  return value;
}

/** @param {any} each */
function fullUsage({ provider = null, model = null, usage }) {
  return { provider, model, usage: { ...NO_USAGE, ...usage } };
}

/** @param {Record<string, number>} one @param {Record<string, number>} other */
function sum(one, other) {
  return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, value + other[name]]));
}

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
