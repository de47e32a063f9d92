/**
 * Rows of unknown height in a scroller of their own.
 *
 * Up to 300 rows all are in the document, so that the browser's own search finds them. Above that only those in and
 * near the view are. Heights are kept by row; what changes above the view never moves what is read; following is a
 * matter of position alone: at the end it holds, anywhere else it does not.
 */

import { Component, createRef, h } from "../vendor/preact.js";

/** With more rows than these only a part is in the document. */
export const WHOLE_MAX = 300;

const AROUND_ROWS = 12;
const SELECTED_ROWS_MAX = 400;
const END_SLACK_PX = 24;
const IDLE_MS = 160;
const EDGE_PX = 1500;

/**
 * @param {{ hold: (path: Path|null) => void, rows: {key: string, estimate: number}[], draw: (row, place) => unknown,
 *   label: string, start: number, total: number, onRange: (first: number, last: number) => void,
 *   onEdge: (side: "earlier"|"later") => void,
 *   onPinned: (pinned: boolean) => void, follows: boolean, before?: unknown, after?: unknown }} props
 */
export class Path extends Component {
  #scroller = createRef();
  #inner = createRef();
  #heights = new Map();
  #tops = new Float64Array(1);
  #rows = [];
  #range = { first: 0, last: -1 };
  #debt = 0;
  #lastTop = 0;
  #isUpward = false;
  #idle = 0;
  #frame = 0;
  #pinned = true;
  #goal = null;
  #anchor = null;
  #observer = null;
  #observed = new Map();

  get pinned() {
    return this.#pinned;
  }

  get element() {
    return this.#scroller.current;
  }

  get isWhole() {
    return this.props.rows.length <= WHOLE_MAX;
  }

  #height(row) {
    return this.#heights.get(row.key) ?? row.estimate;
  }

  #measureTops() {
    const rows = this.#rows;
    if (this.#tops.length !== rows.length + 1) this.#tops = new Float64Array(rows.length + 1);
    for (let place = 0; place < rows.length; place += 1)
      this.#tops[place + 1] = this.#tops[place] + this.#height(rows[place]);
  }

  /** The place of the row at a height, from the top of the rows. */
  #placeAt(top) {
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return Math.min(low, Math.max(0, this.#rows.length - 1));
  }

  componentWillUpdate() {
    this.#anchor = this.#pinned ? null : this.#findAnchor();
  }

  componentDidMount() {
    this.props.hold(this);
    this.#observer = new ResizeObserver((entries) => this.#resized(entries));
    this.#observer.observe(this.element);
    this.#after();
  }

  componentDidUpdate() {
    this.#after();
  }

  componentWillUnmount() {
    this.props.hold(null);
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#idle);
  }

  /**
   * The row that stays where it is: the first one that begins in the view. While a person scrolls upward it is one in
   * the middle, so that a row that comes in above and grows moves nothing below it.
   */
  #findAnchor() {
    const scroller = this.element;
    if (!scroller) return null;
    const edge = scroller.getBoundingClientRect().top;
    let last = null;
    for (const element of this.#inner.current.children) {
      const top = element.getBoundingClientRect().top - edge;
      if (element.dataset.key === undefined) continue;
      if (top > scroller.clientHeight) break;
      last = { key: element.dataset.key, top };
      if (top >= (this.#isUpward ? scroller.clientHeight / 2 : 0)) break;
    }
    return last;
  }

  /** Observe and measure what is drawn now, and put the view where it belongs. */
  #after() {
    const drawn = new Map();
    for (const element of this.#inner.current.children) {
      if (element.dataset.key !== undefined) drawn.set(element.dataset.key, element);
    }
    for (const [key, element] of this.#observed) {
      if (drawn.get(key) !== element) this.#observer.unobserve(element);
    }
    for (const [key, element] of drawn) {
      if (this.#observed.get(key) !== element) this.#observer.observe(element);
      this.#heights.set(key, element.getBoundingClientRect().height);
    }
    this.#observed = drawn;
    this.#measureTops();
    this.#place();
    this.#look();
  }

  /** Scroll so that the goal, the end or the anchor is where it belongs. */
  #place() {
    const scroller = this.element;
    const held = this.#goal ?? this.#anchor;
    if (this.#goal === null && this.#pinned) {
      if (scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight > 1) this.#scrollTo(scroller.scrollHeight);
    } else if (held !== null) {
      const element = this.#observed.get(held.key);
      const delta = element ? element.getBoundingClientRect().top - scroller.getBoundingClientRect().top - held.top : 0;
      if (Math.abs(delta) > 1) this.#shift(delta);
    }
    this.#anchor = null;
  }

  /**
   * Undo a movement of what is read. While a person scrolls upward the position is left alone: the space before the
   * rows takes the difference, until the scrolling ends.
   */
  #shift(delta) {
    const space = this.isWhole ? null : this.#inner.current.firstElementChild;
    const left = this.#tops[this.#range.first] - this.#debt - delta;
    if (this.#isUpward && this.#goal === null && space !== null && left >= 0) {
      this.#debt += delta;
      space.style.height = `${Math.round(left)}px`;
    } else {
      this.#scrollTo(this.element.scrollTop + delta);
    }
  }

  #scrollTo(top) {
    this.element.scrollTop = top;
    this.#lastTop = this.element.scrollTop;
  }

  /** Rows have got other heights: one pass for all of a frame. Only those wholly above the view move it. */
  #resized(entries) {
    const edge = this.element.getBoundingClientRect().top;
    let isChanged = false;
    let above = 0;
    for (const { target, borderBoxSize } of entries) {
      const key = target.dataset.key;
      if (key === undefined || !target.isConnected) continue;
      const height = borderBoxSize[0].blockSize;
      const known = this.#heights.get(key);
      if (Math.abs(known - height) < 0.5) continue;
      if (target.getBoundingClientRect().bottom - (height - known) <= edge) above += height - known;
      this.#heights.set(key, height);
      isChanged = true;
    }
    if (isChanged) this.#measureTops();
    if (this.#goal !== null || this.#pinned) this.#place();
    else if (above !== 0) this.#shift(above);
    this.#schedule();
  }

  #schedule() {
    if (!this.#frame) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#look();
        if (!this.isWhole) this.forceUpdate();
      });
    }
  }

  #onScroll = () => {
    const scroller = this.element;
    if (!scroller) return; // a last event, after the page was left
    const top = scroller.scrollTop;
    const moved = top - this.#lastTop;
    if (moved !== 0) this.#isUpward = moved < 0;
    this.#lastTop = top;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(this.#settle, IDLE_MS);
    const atEnd = scroller.scrollHeight - top - scroller.clientHeight <= END_SLACK_PX;
    // What grows at the end moves nothing, so only a movement upward leaves the end.
    if (this.#goal === null && atEnd) this.#setPinned(!this.props.hasLater && this.props.follows);
    else if (this.#goal === null && moved < -1) this.#setPinned(false);
    this.#schedule();
  };

  #settle = () => {
    this.#isUpward = false;
    if (this.#debt !== 0) {
      this.#debt = 0;
      this.forceUpdate();
    }
    this.#schedule();
  };

  /** A person took the position into their own hands. */
  #onHand = (event) => {
    if (
      event.type === "keydown" &&
      !["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "].includes(event.key)
    )
      return;
    this.#goal = null;
    if (event.type === "wheel" && event.deltaY < 0 && this.element.scrollTop > 0) this.#setPinned(false);
  };

  /** Leave the end, because a person selects or looks for something. */
  unpin() {
    this.#goal = null;
    this.#setPinned(false);
  }

  #setPinned(pinned) {
    if (pinned === this.#pinned) return;
    this.#pinned = pinned;
    this.props.onPinned(pinned);
  }

  /** What is in view now, for those who need its bodies; what is near an edge, for those who have more rows. */
  #look() {
    const scroller = this.element;
    if (!scroller || !this.#rows.length) return;
    const top = scroller.scrollTop - this.#headHeight();
    const first = this.#placeAt(Math.max(0, top));
    const last = this.#placeAt(Math.max(0, top + scroller.clientHeight));
    this.props.onRange(first, last);
    if (this.props.hasEarlier && scroller.scrollTop < EDGE_PX) this.props.onEdge("earlier");
    if (this.props.hasLater && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < EDGE_PX)
      this.props.onEdge("later");
  }

  #headHeight() {
    return this.#inner.current?.offsetTop ?? 0;
  }

  /** Go to the end and stay there. */
  toEnd() {
    this.#goal = null;
    this.#anchor = null;
    this.#setPinned(true);
    this.#scrollTo(this.element.scrollHeight);
    this.forceUpdate(() => this.#scrollTo(this.element.scrollHeight));
  }

  /** Bring a row into view, `top` pixels below the upper edge, and hold it there until a person scrolls. */
  toRow(place, top = 72) {
    const row = this.#rows[place] ?? this.props.rows[place];
    if (!row) return;
    this.#setPinned(false);
    this.#anchor = null;
    this.#goal = { key: row.key, top };
    this.#rows = this.props.rows;
    this.#measureTops();
    this.#scrollTo(this.#tops[place] + this.#headHeight() - top);
    this.forceUpdate();
  }

  /** The rows to draw: those around the view, those that are selected, the one that has the focus. */
  #rangeNow() {
    const count = this.#rows.length;
    if (count <= WHOLE_MAX) return { first: 0, last: count - 1 };
    const scroller = this.element;
    let first;
    let last;
    if (!scroller || (this.#pinned && this.#goal === null)) {
      const height = scroller?.clientHeight ?? 900;
      last = count - 1;
      first = this.#placeAt(Math.max(0, this.#tops[count] - height));
    } else {
      const top = scroller.scrollTop - this.#headHeight();
      first = this.#placeAt(Math.max(0, top));
      last = this.#placeAt(Math.max(0, top + scroller.clientHeight));
      if (this.#goal !== null) {
        const goal = this.props.placeOf(this.#goal.key);
        if (goal >= 0 && (goal < first - AROUND_ROWS || goal > last + AROUND_ROWS)) {
          first = goal;
          last = goal + 10;
        }
      }
    }
    first -= AROUND_ROWS;
    last += AROUND_ROWS;
    const selected = this.#selected();
    if (selected !== null && Math.max(last, selected.last) - Math.min(first, selected.first) <= SELECTED_ROWS_MAX) {
      first = Math.min(first, selected.first);
      last = Math.max(last, selected.last);
    }
    return { first: Math.max(0, first), last: Math.min(count - 1, last) };
  }

  #selected() {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !this.#inner.current?.contains(selection.anchorNode)) return null;
    const places = [selection.anchorNode, selection.focusNode].map((node) => {
      const element = (node instanceof Element ? node : node?.parentElement)?.closest("[data-key]");
      return element ? this.props.placeOf(element.dataset.key) : -1;
    });
    if (places.some((place) => place < 0)) return null;
    return { first: Math.min(...places), last: Math.max(...places) };
  }

  render({ rows, draw, label, start, total, before, after }) {
    this.#rows = rows;
    this.#measureTops();
    const { first, last } = (this.#range = this.#rangeNow());
    const whole = this.isWhole;
    const end = this.#tops[rows.length];
    const drawn = rows.slice(first, last + 1).map((row, index) => draw(row, first + index));
    const style = (height) => ({ height: `${Math.max(0, Math.round(height))}px` });
    return h(
      "div",
      {
        class: whole ? "path is-whole" : "path",
        ref: this.#scroller,
        onScroll: this.#onScroll,
        onWheel: this.#onHand,
        onTouchMove: this.#onHand,
        onKeyDown: this.#onHand,
        onPointerDown: this.#onHand,
        tabIndex: 0,
        role: "feed",
        "aria-label": label,
        "aria-busy": "false",
        "data-start": start,
        "data-total": total,
      },
      before,
      h(
        "div",
        { class: "path-rows", ref: this.#inner },
        whole
          ? null
          : h("div", { class: "path-space", key: "space-before", style: style(this.#tops[first] - this.#debt) }),
        drawn,
        whole ? null : h("div", { class: "path-space", key: "space-after", style: style(end - this.#tops[last + 1]) }),
      ),
      after,
    );
  }
}
