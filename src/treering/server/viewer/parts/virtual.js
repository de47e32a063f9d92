/**
 * A list of any length whose rows have one height: only those in view are in the document.
 *
 * The row that has the focus, and rows in which text is selected (up to a bound), stay. Rows that come or go above the
 * view do not move what a person reads. Readers hear the place of a row among all of them.
 */

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { useApp } from "./app.js";
import { count as whole } from "./numbers.js";

const OVERSCAN = 8;
const DRAWN_MAX = 400;
const SELECTED_MAX = 200;
const ITEM_ROLES = { list: "listitem", listbox: "option", tree: "treeitem" };

/** The height of rows, which the phone has higher; draws again when it changes. */
export function useRowHeight() {
  const read = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 44;
  const [height, setHeight] = useState(read);
  useEffect(() => {
    const update = () => setHeight(read());
    addEventListener("resize", update);
    return () => removeEventListener("resize", update);
  }, []);
  return height;
}

function selectedRows(box) {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || !box.contains(selection.anchorNode)) return null;
  const place = (node) => {
    const row = (node instanceof Element ? node : node?.parentElement)?.closest("[data-index]");
    return row && box.contains(row) ? Number(row.dataset.index) : null;
  };
  const [a, b] = [place(selection.anchorNode), place(selection.focusNode)];
  if (a === null || b === null || Math.abs(a - b) > SELECTED_MAX) return null;
  return [Math.min(a, b), Math.max(a, b)];
}

/**
 * The list. It scrolls inside itself, so give it a height.
 * @param {{ count: number, rowHeight: number, row: (index: number, how: { active: boolean }) => unknown,
 *   keyOf: (index: number) => string | number, label: string, role?: "list" | "listbox" | "tree", active?: number,
 *   onActive?: (index: number) => void, onOpen?: (index: number, event: Event) => void,
 *   onRange?: (first: number, last: number) => void, memory?: string, itemProps?: (index: number) => object,
 *   listRef?: { current: { focus: (index?: number) => void, show: (index: number) => void } | null } }} props
 *   `active` is the row that the keys begin at; a row's first link or button gets the focus, or the row itself.
 *   `memory` names what keeps the scroll position for Back.
 */
export function VirtualList(props) {
  const {
    count,
    rowHeight,
    row,
    keyOf,
    label,
    role = "list",
    active = -1,
    onActive,
    onOpen,
    onRange,
    memory,
    itemProps,
    listRef,
  } = props;
  const app = useApp();
  const box = useRef(null);
  const [view, setView] = useState({ first: 0, last: 30 });
  const wants = useRef(null);
  const anchor = useRef(null);
  const hadFocus = useRef(false);

  const measure = useCallback(() => {
    const { scrollTop, clientHeight, clientWidth, offsetWidth } = box.current;
    box.current.style.setProperty("--bar", `${offsetWidth - clientWidth}px`);
    const first = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN);
    // a list that is laid out whole, as for printing, draws some hundred rows, not all
    const last = Math.min(first + DRAWN_MAX, Math.ceil((scrollTop + clientHeight) / rowHeight) + OVERSCAN);
    setView((before) => (before.first === first && before.last === last ? before : { first, last }));
  }, [rowHeight]);

  const scrolled = () => {
    if (!box.current) return; // a last event, after the page was left
    measure();
    const top = box.current.scrollTop;
    const index = Math.floor(top / rowHeight);
    anchor.current = top > 0 && index < count ? { key: keyOf(index), index, rest: top - index * rowHeight } : null;
    if (memory) app?.memory.set(memory, top);
  };

  useLayoutEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [measure]);

  // comes back to where Back left it, once there are rows
  const restored = useRef(!memory);
  useLayoutEffect(() => {
    if (restored.current || count === 0) return;
    restored.current = true;
    box.current.scrollTop = app?.memory.get(memory) ?? 0;
    measure();
  }, [count]);

  // what stood at the top of the view stays there when rows above it come or go
  useLayoutEffect(() => {
    const at = anchor.current;
    if (at && !(at.index < count && keyOf(at.index) === at.key)) {
      for (let step = 1; step < 400; step += 1) {
        const found = [at.index + step, at.index - step].find(
          (index) => index >= 0 && index < count && keyOf(index) === at.key,
        );
        if (found === undefined) continue;
        box.current.scrollTop = found * rowHeight + at.rest;
        break;
      }
    }
    measure();
  });

  const first = Math.min(view.first, Math.max(0, count - 1));
  const last = Math.min(view.last, count);
  useEffect(() => onRange?.(first, last), [first, last, onRange]);

  const focusRow = (index) => {
    const element = box.current.querySelector(`[data-index="${index}"]`);
    if (!element) return false;
    const target = element.querySelector("a, button");
    (target ?? element).focus({ preventScroll: true });
    return target !== null || role !== "list"; // a row that has not come yet gets the focus again when it comes
  };
  const show = (index) => {
    const { scrollTop, clientHeight } = box.current;
    const [top, bottom] = [index * rowHeight, (index + 1) * rowHeight];
    if (top < scrollTop) box.current.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) box.current.scrollTop = bottom - clientHeight;
    measure();
  };
  const go = (index) => {
    if (count === 0) return;
    const to = Math.max(0, Math.min(count - 1, index));
    onActive?.(to);
    show(to);
    if (!focusRow(to)) wants.current = to;
  };
  if (listRef) listRef.current = { focus: (index = Math.max(0, active)) => go(index), show };

  useLayoutEffect(() => {
    if (wants.current !== null && focusRow(wants.current)) wants.current = null;
    // the row that had the focus is gone: the list has it, not the page
    if (hadFocus.current && document.activeElement === document.body) box.current.focus({ preventScroll: true });
  });

  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(box.current.clientHeight / rowHeight) - 1);
    const inRow = event.target.closest("[data-index]");
    const at = inRow ? Number(inRow.dataset.index) : active;
    const to = {
      ArrowDown: at + 1,
      j: at + 1,
      ArrowUp: at - 1,
      k: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: count - 1,
    }[event.key];
    if (to !== undefined) go(to);
    else if (event.key === "Enter" && event.target === box.current && at >= 0) onOpen?.(at, event);
    else if (event.key === "Enter" && inRow === event.target) onOpen?.(at, event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const focused = (event) => {
    hadFocus.current = true;
    const inRow = event.target.closest("[data-index]");
    if (inRow && Number(inRow.dataset.index) !== wants.current) wants.current = null;
    if (inRow && Number(inRow.dataset.index) !== active) onActive?.(Number(inRow.dataset.index));
  };
  const blurred = (event) => {
    if (event.relatedTarget && !box.current.contains(event.relatedTarget)) hadFocus.current = false;
  };

  const shown = [];
  const add = (index) => {
    const { style, class: extra, ...more } = itemProps?.(index) ?? {};
    const place = { transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` };
    shown.push(html`<div key=${keyOf(index)} class=${`list-row${extra ? ` ${extra}` : ""}`} data-index=${index}
      role=${ITEM_ROLES[role]} aria-setsize=${count} aria-posinset=${index + 1} tabindex="-1"
      style=${{ ...place, ...style }} ...${more}>
      ${row(index, { active: index === active })}
    </div>`);
  };
  const kept = new Set();
  if (hadFocus.current && active >= 0) kept.add(active);
  const selected = box.current && selectedRows(box.current);
  if (selected) for (let index = selected[0]; index <= selected[1]; index += 1) kept.add(index);
  for (const index of kept) if (index < first && index < count) add(index);
  for (let index = first; index < last; index += 1) add(index);
  for (const index of kept) if (index >= last && index < count) add(index);

  return html`<div class="list" ref=${box} role=${role} aria-label=${label} tabindex="0" onScroll=${scrolled}
    onKeyDown=${press} onFocusIn=${focused} onFocusOut=${blurred}>
    <div class="list-inside" role="presentation" style=${{ height: `${count * rowHeight}px` }}>${shown}</div>
    ${shown.length < count && html`<p class="print-only">
      ${whole(first + 1)} to ${whole(last)} of ${whole(count)}: the rows that were in view. ${location.href}
    </p>`}
  </div>`;
}
