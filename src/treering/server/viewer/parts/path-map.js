/** A slim map of a whole path beside its scroll bar: where prompts, branches, errors, summaries and hits are. */

import { Component, createRef, h } from "../vendor/preact.js";
import { count } from "./numbers.js";

const WIDTH = 14;
const STEP = 3;
const SHORT_MAX = 12;

/** The kinds of marks, the most telling first; each has its own length and place, so that colour is not needed. */
const KINDS = {
  error: { x: 2, width: 10, height: 3, word: "errors" },
  hit: { x: 0, width: 14, height: 2, word: "hits" },
  summary: { x: 0, width: 14, height: 1, word: "summaries" },
  branch: { x: 7, width: 5, height: 2, word: "branch points" },
  label: { x: 7, width: 3, height: 3, word: "labels" },
  prompt: { x: 2, width: 4, height: 2, word: "prompts" },
};

/** One mark of a kind for each few pixels, as `{ kind, top }`; many in one place are one. */
function marksOf(places, hits, total, height) {
  const steps = Math.max(1, Math.floor(height / STEP));
  const found = new Map();
  const add = (kind, place) => {
    if (place === null || place === undefined) return;
    const step = Math.min(steps - 1, Math.floor((place / total) * steps));
    found.set(`${kind}${step}`, { kind, top: step * STEP });
  };
  for (const each of places) if (each.kind in KINDS) add(each.kind, each.place);
  for (const hit of hits) add("hit", hit.place);
  const order = Object.keys(KINDS).reverse();
  return [...found.values()].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}

/**
 * @param {{ hold: (map: PathMap|null) => void, places: object[], hits: object[], total: number,
 *   onGo: (place: number) => void }} props `places` are those of the outline
 */
export class PathMap extends Component {
  state = { height: 0, first: 0, last: 0 };
  #box = createRef();
  #drawn = { marks: [] };

  componentDidMount() {
    this.props.hold(this);
    this.watch = new ResizeObserver(([entry]) => this.setState({ height: Math.floor(entry.contentRect.height) }));
    this.watch.observe(this.#box.current);
  }

  componentWillUnmount() {
    this.props.hold(null);
    this.watch.disconnect();
  }

  /** Show which entries are in view. */
  show(first, last) {
    if (first !== this.state.first || last !== this.state.last) this.setState({ first, last });
  }

  #marks() {
    const { places, hits, total } = this.props;
    const { height } = this.state;
    const drawn = this.#drawn;
    if (drawn.places !== places || drawn.hits !== hits || drawn.total !== total || drawn.height !== height)
      this.#drawn = { places, hits, total, height, marks: height ? marksOf(places, hits, total, height) : [] };
    return this.#drawn.marks;
  }

  #press = (event) => {
    const { places, hits, total, onGo } = this.props;
    if (event.button !== 0) return;
    event.preventDefault();
    const { top, height } = this.#box.current.getBoundingClientRect();
    const place = Math.max(0, Math.min(total - 1, Math.floor(((event.clientY - top) / height) * total)));
    // a mark that is nearly met is meant
    const slack = (2 * STEP * total) / height;
    const away = (each) => Math.abs((each.place ?? Infinity) - place);
    const near = [...places, ...hits].filter((each) => away(each) <= slack);
    onGo(near.length ? near.reduce((one, other) => (away(other) < away(one) ? other : one)).place : place);
  };

  /** How many there are of each kind, in words. */
  #words() {
    const { places, hits } = this.props;
    const counted = Map.groupBy(places, (each) => each.kind);
    return Object.entries(KINDS)
      .map(([kind, { word }]) => [kind === "hit" ? hits.length : (counted.get(kind)?.length ?? 0), word])
      .filter(([number]) => number)
      .map(([number, word]) => `${count(number)} ${word}`)
      .join(", ");
  }

  render({ total }, { height, first, last }) {
    const scale = height / total;
    const view = { y: first * scale, height: Math.max(6, (last - first + 1) * scale) };
    return h(
      "div",
      { class: "path-map", ref: this.#box, "aria-hidden": "true", title: this.#words(), onPointerDown: this.#press },
      h(
        "svg",
        { width: WIDTH, height },
        h("rect", { class: "map-view", x: 0, width: WIDTH, ...view }),
        this.#marks().map(({ kind, top }) => {
          const { x, width, height: tall } = KINDS[kind];
          return h("rect", { key: kind + top, class: `map-${kind}`, x, y: top, width, height: tall });
        }),
      ),
    );
  }
}

/** Whether a path is long enough for a map. */
export function isMapped(total) {
  return total > SHORT_MAX;
}
