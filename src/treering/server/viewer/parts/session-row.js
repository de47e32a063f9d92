/** The row of one session: read once, and kept as the listing tells of it. */

import { useEffect, useState } from "../vendor/preact.js";

/** What a session is called, does and costs, and whether it is archived or gone, as long as a page shows it. */
export class SessionRow {
  /** @type {object | null} The row, once it was read. */
  row = null;
  /** @type {Error | null} Why there is none. */
  error = null;
  /** Whether it was there and was deleted. */
  isDeleted = false;

  #app;
  #session;
  #changed;
  #stops;
  #listed;
  #epoch;
  #abort = new AbortController();

  /**
   * @param {import("./app.js").App} app
   * @param {string} session
   * @param {() => void} changed Is called after each change.
   */
  constructor(app, session, changed) {
    const { directory } = app;
    this.#app = app;
    this.#session = session;
    this.#changed = changed;
    this.#listed = directory.rows.get(session);
    this.#epoch = directory.epoch;
    this.#stops = [directory.onChange(() => this.#take()), directory.onGone((id) => this.#left(id))];
    this.read();
  }

  /** Read the row again. */
  async read() {
    const address = `sessions/${encodeURIComponent(this.#session)}`;
    const options = { query: { with: "state" }, signal: this.#abort.signal };
    try {
      this.row = await this.#app.server.get(address, options);
      this.error = null;
      this.isDeleted = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 404 && this.row) this.isDeleted = true;
      else this.error = error;
    }
    this.#changed();
  }

  /** The listing has only what is neither archived nor deleted: ask which of the two it is now. */
  #left(id) {
    if (id === this.#session && !this.isDeleted) this.read();
  }

  /** Take what the listing says; after a new beginning it may have missed something. */
  #take() {
    const { directory } = this.#app;
    if (directory.epoch !== this.#epoch) {
      this.#epoch = directory.epoch;
      this.read();
    }
    const listed = directory.rows.get(this.#session);
    if (listed === this.#listed) return;
    this.#listed = listed;
    if (!listed) return;
    if (this.row) this.row = { ...this.row, ...listed };
    this.isDeleted = false;
    this.#changed();
  }

  close() {
    this.#abort.abort();
    for (const stop of this.#stops) stop();
  }
}

/** The row of a session as long as the component is drawn; null for none. */
export function useSessionRow(app, session) {
  const [known, setKnown] = useState({ row: null, error: null, isDeleted: false });
  useEffect(() => {
    if (session === null) return undefined;
    const kept = new SessionRow(app, session, () => {
      const { row, error, isDeleted } = kept;
      setKnown({ row, error, isDeleted });
    });
    return () => kept.close();
  }, [session]);
  return known;
}
