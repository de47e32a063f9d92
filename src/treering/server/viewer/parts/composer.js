/** The field at the end of a session: what is typed is appended at the leaf, or as a branch of an entry. */

import { Component, createRef, h } from "../vendor/preact.js";
import { keepDraft, readDraft } from "./drafts.js";
import { Icon } from "./icons.js";
import { entries as entryCount } from "./numbers.js";
import { path } from "./paths.js";
import { firstWords, speaker } from "./session-rows.js";

const SHOWN_BETWEEN = 5;

/**
 * @param {{ hold: (composer: Composer|null) => void, app: object, session: string, model: object,
 *   reason: string|null, onSent: () => void }} props `reason` says why
 *   nothing can be sent now
 */
export class Composer extends Component {
  #field = createRef();
  #key = null;

  constructor(props) {
    super(props);
    this.state = { ...readDraft(props.session), isSending: false, error: null, conflict: null };
  }

  componentDidMount() {
    this.props.hold(this);
    this.#grow();
  }

  componentWillUnmount() {
    this.props.hold(null);
  }

  /** Write a branch from an entry: what is sent goes below it. */
  branchFrom(item) {
    this.#set({
      below: { id: item.id, words: `${speaker(item)} #${item.seq}: ${firstWords(item).slice(0, 80)}` },
      conflict: null,
    });
    this.#field.current.focus();
  }

  #set(change) {
    this.#key = null;
    const { text, below } = { ...this.state, ...change };
    keepDraft(this.props.session, { text, below }); // also where the page was left while something was sent
    this.setState(change);
  }

  #grow() {
    const field = this.#field.current;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 320)}px`;
  }

  #onInput = (event) => {
    this.#set({ text: event.currentTarget.value, error: null });
    this.#grow();
  };

  #onKey = (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      this.#send({});
    }
  };

  #onSubmit = (event) => {
    event.preventDefault();
    this.#send({});
  };

  /**
   * Send what was typed. The text goes only when the server has taken it, and what was typed meanwhile stays; a
   * repetition after a lost reply carries the same key, so that nothing is written twice.
   */
  async #send({ below = this.state.below?.id, leaf = this.props.model.liveLeaf }) {
    const { text, isSending } = this.state;
    if (isSending || !text.trim() || this.props.reason) return;
    this.#key ??= crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const payload = { type: "message", message: { role: "user", content: text } };
    const { server } = this.props.app;
    this.setState({ isSending: true, error: null });
    try {
      const options =
        below === undefined || below === null
          ? { body: payload, ifMatch: `leaf:${encodeURIComponent(leaf ?? "")}`, key: this.#key }
          : { body: { entries: [payload], below }, key: this.#key };
      await server.post(`${this.props.model.path}/entries`, options);
      const now = this.state.text;
      const rest = now.startsWith(text) ? now.slice(text.length).trimStart() : now;
      this.#set({ text: rest, below: null, conflict: null, isSending: false });
      if (!this.#field.current) return;
      this.#grow();
      this.props.onSent();
    } catch (error) {
      if (error.status === 412) await this.#conflicted(error, leaf);
      else this.setState({ isSending: false, error });
    }
  }

  /** Somebody was faster: find out what came in between. */
  async #conflicted(error, leaf) {
    this.#key = null;
    const conflict = { leaf, now: error.current?.leaf ?? null, items: [], total: null };
    try {
      const page =
        leaf === null
          ? await this.props.model.get("outline", { limit: SHOWN_BETWEEN })
          : await this.props.model.get("outline", { after: leaf, limit: SHOWN_BETWEEN });
      conflict.items = page.items;
      conflict.now = page.leaf;
      conflict.total = page.total - page.start;
    } catch {
      conflict.total = null; // the leaf that was known is on another branch now; the words below say so
    }
    this.setState({ isSending: false, conflict });
  }

  #conflict() {
    const { conflict } = this.state;
    const { app, session } = this.props;
    const words =
      conflict.total === null
        ? "The session moved to another branch while you wrote."
        : `${entryCount(conflict.total)} came in between; yours was not sent.`;
    return h(
      "div",
      { class: "conflict notice", role: "alert" },
      h("p", null, h("b", null, words)),
      h(
        "ul",
        null,
        conflict.items.map((item) =>
          h(
            "li",
            { key: item.id },
            h("a", { href: app.href(path.entry(session, item.id)) }, speaker(item)),
            " ",
            h("bdi", null, firstWords(item)),
          ),
        ),
      ),
      conflict.total > conflict.items.length
        ? h("p", { class: "soft" }, `and ${entryCount(conflict.total - conflict.items.length)} more`)
        : null,
      h(
        "p",
        { class: "toolbar" },
        h(
          "button",
          { class: "button", type: "button", onClick: () => this.#send({ leaf: conflict.now }) },
          "Append anyway",
        ),
        conflict.leaf === null
          ? null
          : h(
              "button",
              { class: "button", type: "button", onClick: () => this.#send({ below: conflict.leaf }) },
              "Branch here",
            ),
        h(
          "button",
          { class: "button quiet", type: "button", onClick: () => this.setState({ conflict: null }) },
          "Keep writing",
        ),
      ),
    );
  }

  render({ reason }, { text, below, isSending, error, conflict }) {
    return h(
      "form",
      { class: "composer", onSubmit: this.#onSubmit },
      conflict ? this.#conflict() : null,
      error
        ? h(
            "p",
            { class: "failure-line", role: "alert" },
            h(Icon, { name: "error" }),
            h("b", null, "not sent"),
            ` ${error.message}`,
          )
        : null,
      below
        ? h(
            "p",
            { class: "branch-from" },
            h(Icon, { name: "branch" }),
            " A branch from ",
            h("bdi", null, below.words),
            " ",
            h(
              "button",
              { class: "button quiet", type: "button", onClick: () => this.#set({ below: null }) },
              "Append at the end instead",
            ),
          )
        : null,
      h(
        "div",
        { class: "composer-line" },
        h("textarea", {
          ref: this.#field,
          class: "field",
          rows: 1,
          value: text,
          onInput: this.#onInput,
          onKeyDown: this.#onKey,
          dir: "auto",
          "aria-label": "Message to append",
          placeholder: below ? "Write the first message of the branch" : "Write a message",
        }),
        h(
          "button",
          { class: "button main", type: "submit", disabled: Boolean(reason) || isSending || !text.trim() },
          isSending ? "Sending" : below ? "Branch" : "Append",
        ),
      ),
      h(
        "p",
        { class: "composer-note soft" },
        reason ?? (text ? "Kept in this browser until it is sent. Ctrl+Enter sends." : ""),
      ),
    );
  }
}
