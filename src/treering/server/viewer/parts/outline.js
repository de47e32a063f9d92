/** The places of a path worth jumping to: prompts, labels, errors, summaries, branch points. */

import { Component, createRef, h } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { path } from "./paths.js";
import { isFailed } from "./session-marks.js";
import { firstWords, isPrompt } from "./session-rows.js";
import { visible } from "./signs.js";

const PHONE = matchMedia("(max-width: 56rem)");
const AROUND = 10;

/** The height of a row, as the style sheet has it. */
const rowPx = () => (PHONE.matches ? 44 : 32);

/**
 * The outline's places in a model: `{ id, key, kind, words, turn, seq, place }`. Those of what is not loaded are the
 * marks of the path; without them turns are not counted.
 */
export function placesOf({ items, marks }) {
  const [first, last] = [items[0]?.place ?? 0, items.at(-1)?.place ?? 0];
  const all = [
    ...marks.items.filter((each) => each.place < first),
    ...items,
    ...marks.items.filter((each) => each.place > last),
  ];
  return placesIn(all, marks.promptsBefore(first) === null ? NaN : 0);
}

function placesIn(items, turn) {
  const places = [];
  const calls = new Map();
  const known = new Map(items.map((each) => [each.id, each]));
  for (const item of items) {
    for (const call of item.tools ?? []) calls.set(call.id, call.name);
    if (item.branches > 1)
      places.push({ id: item.id, key: `b${item.id}`, kind: "branch", words: `${item.branches} branches` });
    if (isPrompt(item))
      places.push({ id: item.id, key: item.id, kind: "prompt", turn: (turn += 1), words: firstWords(item) });
    if (item.label) places.push({ id: item.id, key: `l${item.id}`, kind: "label", words: visible(item.label) });
    if (item.type === "compaction") places.push({ id: item.id, key: `c${item.id}`, kind: "summary", words: "summary" });
    if (item.type === "branch_summary")
      places.push({ id: item.id, key: `c${item.id}`, kind: "summary", words: "summary of another branch" });
    if (isFailed(item)) {
      const failed = item.results?.find((each) => each.error);
      const name = failed ? (calls.get(failed.call_id) ?? (item.text || null)) : null;
      places.push({ id: item.id, key: `e${item.id}`, kind: "error", words: visible(name ?? item.error ?? "failed") });
    }
  }
  return places.map((each) => {
    const { seq, place } = known.get(each.id);
    return { ...each, seq, place };
  });
}

const ICONS = { branch: "branch", error: "error" };

/**
 * @param {{ places: object[], current: string|null, app: object, session: string, onGo: () => void }} props
 *   `current` is the key of the place that is being read
 */
export class Outline extends Component {
  state = { top: 0, height: 800 };
  #list = createRef();

  shouldComponentUpdate(next, state) {
    return next.places !== this.props.places || next.current !== this.props.current || state !== this.state;
  }

  componentDidMount() {
    this.#show();
  }

  componentDidUpdate(before) {
    // what is known of the path may come after what is in view; a list that is being read stays
    const isGrown = before.places !== this.props.places && !this.#list.current.matches(":hover, :focus-within");
    if (before.current !== this.props.current || isGrown) this.#show();
  }

  /** Keep the current place in view. */
  #show() {
    const list = this.#list.current;
    const place = this.props.places.findIndex((each) => each.key === this.props.current);
    if (place < 0 || !list.clientHeight) return;
    const top = place * rowPx();
    if (top < list.scrollTop + rowPx() || top > list.scrollTop + list.clientHeight - 2 * rowPx())
      list.scrollTop = Math.max(0, top - list.clientHeight / 2);
  }

  #onScroll = () => {
    const list = this.#list.current; // null at a last event, after the page was left
    if (list) this.setState({ top: list.scrollTop, height: list.clientHeight });
  };

  render({ places, current, app, session, onGo }, { top, height }) {
    const first = Math.max(0, Math.floor(top / rowPx()) - AROUND);
    const last = Math.min(places.length, Math.ceil((top + height) / rowPx()) + AROUND);
    const space = {
      paddingTop: `${first * rowPx()}px`,
      paddingBottom: `${Math.max(0, places.length - last) * rowPx()}px`,
    };
    return h(
      "nav",
      { class: "outline", "aria-label": "Outline" },
      h(
        "div",
        { class: "outline-list", ref: this.#list, onScroll: this.#onScroll },
        h(
          "ol",
          { style: space },
          places.slice(first, last).map((place) =>
            h(
              "li",
              { key: place.key, class: `outline-${place.kind}` },
              h(
                "a",
                {
                  href: app.href(path.entry(session, place.id)),
                  onClick: onGo,
                  title: place.words,
                  "aria-current": place.key === current ? "true" : undefined,
                },
                place.turn
                  ? h("span", { class: "turn num" }, place.turn)
                  : ICONS[place.kind]
                    ? h(Icon, { name: ICONS[place.kind] })
                    : null,
                h("bdi", { class: place.kind === "label" ? "pill" : "clip" }, place.words),
              ),
            ),
          ),
        ),
      ),
      places.length ? null : h("p", { class: "soft" }, "Nothing to jump to yet."),
    );
  }
}
