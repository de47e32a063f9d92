/** The answer that is being written: its thinking and text so far, joined by message and offset. */

/** Joins the pieces of an answer into something that looks like an entry. */
export class LiveText {
  item = null;
  key = null;
  body = null;
  #texts = new Map();
  #message = null;
  #count = 0;

  /** @param {(grown: boolean) => void} changed is told whether what is shown only grew, or began or ended */
  constructor(changed) {
    this.changed = changed;
  }

  /** Take a transient event. */
  receive({ name, data }, now) {
    if (name !== "agent.text" && name !== "agent.thinking") return;
    const { message, offset, text } = data;
    if (message !== this.#message) this.#begin(message, now);
    const have = this.#texts.get(name) ?? { text: "", length: 0 };
    const piece = [...text];
    const end = offset + piece.length;
    if (offset === 0 && end >= have.length) this.#texts.set(name, { text, length: end });
    else if (offset <= have.length && end > have.length) {
      this.#texts.set(name, { text: have.text + piece.slice(have.length - offset).join(""), length: end });
    } else return;
    const began = this.item === null;
    this.#draw();
    this.changed(!began);
  }

  #begin(message, now) {
    this.#message = message;
    this.#texts = new Map();
    this.item = null;
    this.key = `live:${this.#count++}`;
    this.since = now;
  }

  #draw() {
    const joined = (name) => this.#texts.get(name)?.text ?? "";
    const [thinking, text] = [joined("agent.thinking"), joined("agent.text")];
    const content = [];
    if (thinking) content.push({ type: "thinking", thinking: { content: thinking } });
    if (text) content.push({ type: "text", text: { content: text } });
    this.body = { id: this.key, type: "message", message: { role: "assistant", content } };
    this.item ??= {
      id: this.key,
      seq: Infinity,
      parent_id: null,
      type: "message",
      role: "assistant",
      text: "",
      tools: [],
      results: [],
      bytes: 0,
      timestamp: new Date(this.since).toISOString(),
      branches: 1,
      branch: 1,
      label: null,
      error: null,
      tokens: null,
      duration_ms: null,
      in_context: true,
      model: null,
      live: true,
    };
  }

  /** The answer arrived, or will not. */
  clear() {
    const had = this.item !== null;
    this.#message = null;
    this.#texts = new Map();
    this.item = null;
    this.body = null;
    if (had) this.changed(false);
  }
}
