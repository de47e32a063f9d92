/**
 * The streams of all pages of one browser: one for all sessions that any page follows, and one for each listing.
 *
 * A page joins with its own position. If the stream is further, it begins again there, and whoever was further gets
 * nothing twice. A page that does not take what it is sent is told to join again from where it is.
 */

/** Batches that a page may have before it says that it took them. */
const BEHIND_MAX = 64;

/** A page that says nothing for so long is gone: a hidden one may say something once a minute only. */
const GONE_AFTER_MS = 150_000;

/**
 * What a page follows, and where it is.
 * @typedef {object} Member
 * @property {Port} port
 * @property {number} token What the page calls it.
 * @property {"session"|"list"} kind
 * @property {string} id
 * @property {string[]} [kinds]
 * @property {string} [since]
 * @property {object} [query]
 * @property {number} seq
 */

/** Joins pages, by their ports, to streams. */
export class Hub {
  /** @param {import("../client.js").Server} server */
  constructor(server) {
    this._server = server;
    /** @type {Set<Port>} */
    this._ports = new Set();
    /** @type {Map<string, Set<Member>>} The pages that follow a session. */
    this._sessions = new Map();
    /** @type {Map<string, {members: Set<Member>, stop: AbortController, last: string|undefined}>} */
    this._lists = new Map();
    this._gathering = null;
    server.onState(() => this._tellState());
    this._sweeping = setInterval(() => this._sweep(), GONE_AFTER_MS / 5);
  }

  /** Count a page as one that is there; return whether it was. @param {Port} port */
  enter(port) {
    const isKnown = this._ports.has(port);
    this._ports.add(port);
    return isKnown;
  }

  /** @param {Port} port */
  leave(port) {
    for (const token of [...port.members.keys()]) this.part(port, token);
    this._ports.delete(port);
  }

  /** End all streams. */
  close() {
    clearInterval(this._sweeping);
    for (const port of [...this._ports]) this.leave(port);
    this._gathering?.close();
    this._gathering = null;
  }

  /** Doubt what has been silent, and try what waits. */
  check() {
    this._server.check();
    this._tellState();
    if (!this._gathering && this._sessions.size) this._follow();
    for (const [key, list] of this._lists) if (list.stop.signal.aborted) this._begin(key, list.last);
  }

  /** @param {Port} port @param {number} token @param {any} what */
  join(port, token, { kind, id, kinds, since, query }) {
    const seq = kind === "session" ? seqOf(since) : placeOf(since).n;
    const member = { port, token, kind, id, kinds, since, query, seq };
    this.part(port, token);
    port.members.set(token, member);
    if (kind === "session") this._joinSession(member);
    else this._joinList(member);
  }

  /** @param {Port} port @param {number} token */
  part(port, token) {
    const member = port.members.get(token);
    if (!member) return;
    port.members.delete(token);
    if (member.kind === "session") {
      const members = this._sessions.get(member.id);
      members?.delete(member);
      if (members?.size) return;
      this._sessions.delete(member.id);
      this._gathering?.remove([member.id]);
    } else {
      const list = this._lists.get(listKey(member));
      list?.members.delete(member);
      if (!list || list.members.size) return;
      list.stop.abort();
      this._lists.delete(listKey(member));
    }
  }

  /** @param {Member} member */
  _joinSession(member) {
    const members = this._sessions.get(member.id) ?? new Set();
    this._sessions.set(member.id, members.add(member));
    const here = this._gathering?.cursor(member.id);
    if (member.since === "end" && here !== undefined) member.seq = seqOf(here);
    if (this._gathering) this._gathering.add({ [member.id]: this._following(member.id, here) });
    else this._follow();
  }

  /**
   * What the stream shall send of a session: from the position of the page that has least of it.
   * @param {string} id @param {string} [here] Where the stream is.
   */
  _following(id, here) {
    const members = [...(this._sessions.get(id) ?? [])];
    const places = members.map((each) => each.since ?? "start").filter((each) => each !== "end");
    if (here !== undefined && here !== "end") places.push(here);
    const since = places.reduce((one, other) => (one === "end" || seqOf(other) < seqOf(one) ? other : one), "end");
    const kinds = [...new Set(members.flatMap((each) => each.kinds ?? ["entry"]))];
    return kinds.length === 1 && kinds[0] === "entry" ? { since } : { since, kinds };
  }

  async _follow() {
    const ids = [...this._sessions.keys()];
    const gathering = this._server.followMany(Object.fromEntries(ids.map((id) => [id, this._following(id)])));
    this._gathering = gathering;
    try {
      for await (const event of gathering) this._sent(event);
    } catch (error) {
      this._failed(error);
    } finally {
      if (this._gathering === gathering) this._gathering = null;
    }
  }

  /** @param {any} event */
  _sent({ session, event, id, data }) {
    for (const member of this._sessions.get(session) ?? []) {
      if (event === "reset") member.seq = 0;
      if (event === "entry") {
        if (data.seq <= member.seq) continue;
        member.seq = data.seq;
      }
      if (id !== null) member.since = id;
      if (isKind(member, event)) member.port.give(member, { event, id, data });
    }
  }

  /** @param {Member} member */
  _joinList(member) {
    const key = listKey(member);
    const list = this._lists.get(key);
    if (!list) {
      this._lists.set(key, { members: new Set([member]), stop: new AbortController(), last: undefined });
      this._begin(key, member.since);
      return;
    }
    list.members.add(member);
    if (member.since !== undefined && member.since === list.last) return;
    const [mine, its] = [placeOf(member.since), placeOf(list.last)];
    this._begin(key, mine.epoch === its.epoch && its.n < mine.n ? list.last : member.since);
  }

  /** @param {string} key @param {string} [since] */
  async _begin(key, since) {
    const list = this._lists.get(key);
    if (!list) return;
    list.stop.abort();
    const stop = (list.stop = new AbortController());
    list.last = since;
    const query = JSON.parse(key);
    try {
      for await (const { event, id, data } of this._server.follow("events", { since, query, signal: stop.signal })) {
        if (id !== null) list.last = id;
        const { n } = placeOf(id ?? undefined);
        for (const member of list.members) {
          if (event === "reset") member.seq = 0;
          else if (n && n < member.seq) continue; // several events have one position: those after a reset, for example
          if (n) member.seq = n;
          if (id !== null) member.since = id;
          member.port.give(member, { event, id, data });
        }
      }
    } catch (error) {
      stop.abort();
      this._failed(error);
    }
  }

  _sweep() {
    for (const port of this._ports) if (Date.now() - port.heard > GONE_AFTER_MS) this.leave(port);
  }

  /** @param {any} error */
  _failed(error) {
    this._server.assume({ state: "closed", since: Date.now(), heard: this._server.state.heard, error });
  }

  _tellState() {
    const { state, since, heard, error } = this._server.state;
    const told = error && { name: error.name, message: error.message, status: /** @type {any} */ (error).status };
    for (const port of this._ports) port.send({ state: { state, since, heard, error: told } });
  }
}

/** A page that follows something. */
export class Port {
  /** @param {Hub} hub @param {(message: object) => void} send Sends the page a message. */
  constructor(hub, send) {
    this.send = send;
    /** @type {Map<number, Member>} */
    this.members = new Map();
    this.heard = Date.now();
    this._hub = hub;
    this._batch = [];
    this._behind = 0;
    this._isLost = false;
  }

  /** Take a message of the page. @param {any} message */
  take(message) {
    this.heard = Date.now();
    const isKnown = message.leave || this._hub.enter(this);
    if (message.join !== undefined) this._hub.join(this, message.join, message.what);
    else if (message.part !== undefined) this._hub.part(this, message.part);
    else if (message.taken) this._taken();
    else if (message.check) this._hub.check();
    else if (message.leave) this._hub.leave(this);
    else if (!isKnown) this.send({ again: true }); // it was taken for gone
  }

  /** @param {Member} member @param {object} event */
  give(member, event) {
    if (this._isLost) return;
    if (this._behind >= BEHIND_MAX) {
      this._isLost = true;
      this._batch = [];
      return;
    }
    if (!this._batch.length) setTimeout(() => this._flush(), 0);
    this._batch.push([member.token, event]);
  }

  _flush() {
    if (!this._batch.length) return;
    this._behind += 1;
    this.send({ events: this._batch });
    this._batch = [];
  }

  _taken() {
    this._behind -= 1;
    if (this._behind || !this._isLost) return;
    this._isLost = false;
    this.send({ again: true });
  }
}

/** @param {Member} member @param {string} event */
function isKind({ kinds = ["entry"] }, event) {
  return kinds.includes(event) || ["reset", "problem", "bye"].includes(event);
}

/** @param {Member} member */
function listKey({ query }) {
  return JSON.stringify(query ?? {});
}

/** The seq in the text of a cursor. @param {string} [since] */
function seqOf(since) {
  return Number.parseInt(since ?? "", 10) || 0;
}

/** The parts of a position in a listing. @param {string} [since] */
function placeOf(since = "") {
  const cut = since.lastIndexOf("-");
  return { epoch: since.slice(0, cut), n: Number(since.slice(cut + 1)) || 0 };
}
