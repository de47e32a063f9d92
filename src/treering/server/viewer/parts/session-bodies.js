/** Bodies of entries: fetched together, one request at a time, for what is in view; dropped when they are many. */

const ASKED_MAX = 100;
const KEPT_MAX = 600;

/** Bodies by entry id. */
export class BodyCache {
  #bodies = new Map();
  #wanted = new Set();
  #failed = new Map();
  #isAsking = false;
  #generation = 0;

  /**
   * @param {(query: object) => Promise<{ items: object[] }>} read reads `entries`
   * @param {(id: string) => void} arrived is told of each body, or of its failure
   */
  constructor(read, arrived) {
    this.read = read;
    this.arrived = arrived;
  }

  get(id) {
    return this.#bodies.get(id);
  }

  failure(id) {
    return this.#failed.get(id);
  }

  put(entry) {
    this.#bodies.delete(entry.id);
    this.#bodies.set(entry.id, entry);
  }

  /** How many bodies are kept. */
  get size() {
    return this.#bodies.size;
  }

  /** Want exactly these bodies, besides those that are on their way; the last ones wanted are asked for first. */
  want(ids) {
    this.#wanted = new Set(ids.filter((id) => !this.#bodies.has(id) && !this.#failed.has(id)));
    for (const id of ids) {
      const body = this.#bodies.get(id);
      if (body !== undefined) this.put(body);
    }
    if (this.#bodies.size > Math.max(KEPT_MAX, ids.length)) {
      const spare = this.#bodies.size - Math.max(KEPT_MAX, ids.length);
      for (const id of [...this.#bodies.keys()].slice(0, spare)) this.#bodies.delete(id);
    }
    if (this.#wanted.size && !this.#isAsking) this.#ask();
  }

  /** Ask again for a body that could not be read. */
  retry(id) {
    this.#failed.delete(id);
    this.#wanted.add(id);
    if (!this.#isAsking) this.#ask();
  }

  clear() {
    this.#generation += 1;
    this.#bodies.clear();
    this.#failed.clear();
    this.#wanted.clear();
  }

  async #ask() {
    this.#isAsking = true;
    const generation = this.#generation;
    while (this.#wanted.size) {
      const ids = [...this.#wanted].slice(0, ASKED_MAX);
      try {
        const { items } = await this.read({ ids });
        if (generation !== this.#generation) break;
        for (const entry of items) this.#arrive(entry.id, entry);
        if (!items.length) this.#fail(ids, new Error("the server sent nothing of these entries"));
      } catch (error) {
        if (error.name === "AbortError") break;
        if (generation === this.#generation) this.#fail(ids, error);
      }
    }
    this.#isAsking = false;
    if (generation !== this.#generation && this.#wanted.size) this.#ask();
  }

  #arrive(id, entry) {
    this.#wanted.delete(id);
    this.put(entry);
    this.arrived(id);
  }

  #fail(ids, error) {
    for (const id of ids) {
      this.#wanted.delete(id);
      this.#failed.set(id, error);
      this.arrived(id);
    }
  }
}
