// The drawing of a tree: lines and nodes as SVG, and beside each node a row of text that is also the item for readers.
//
// Only the rows in view are in the document. The SVG is hidden from readers; the rows are a `tree` of their own.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { counted, entries } from "./numbers.js";
import { visible } from "./signs.js";
import { LANES_MAX } from "./tree-layout.js";
import { beginning } from "./tree-words.js";

const ROW = 28;
const LANE = 18;
const LEFT = 30;
const OVER = 8;
const ABOVE = 8;

/** The least and the greatest zoom. */
export const ZOOM = { least: 0.3, most: 2, step: 1.25 };

const laneX = (lane) => LEFT + Math.min(lane, LANES_MAX) * LANE;

/**
 * Draws rows of `tree-layout.js`.
 * @param {{rows: object[], lanes: number, model: object, words: object, selected: number, path: Set<number>,
 *   zoom: number, phone: boolean, label: string, onZoom: (zoom: number) => void, onSelect: (row: object) => void,
 *   onOpen: (row: object) => void, onToggle: (row: object, open?: boolean) => void,
 *   reveal: {seq: number, gently?: boolean}|null}} props
 */
export function TreeCanvas(props) {
  const { rows, lanes, model, words, selected, zoom, phone, label, reveal } = props;
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const height = phone ? 44 : ROW * zoom;
  const at = rows.findIndex((row) => row.seq === selected);

  useLayoutEffect(() => {
    const element = box.current;
    let frame = 0;
    let atEnd = false;
    let before = 0;
    const look = () => {
      frame = 0;
      // Whoever looks at the end still does when the view becomes smaller.
      if (atEnd && element.clientHeight < before) element.scrollTop = element.scrollHeight;
      before = element.clientHeight;
      atEnd = element.scrollTop + before >= element.scrollHeight - 2;
      setView({ top: element.scrollTop, height: before });
    };
    const later = () => { frame ||= requestAnimationFrame(look); };
    const sizes = new ResizeObserver(later);
    sizes.observe(element);
    element.addEventListener("scroll", later, { passive: true });
    look();
    return () => {
      cancelAnimationFrame(frame);
      sizes.disconnect();
      element.removeEventListener("scroll", later);
    };
  }, []);

  useLayoutEffect(() => {
    const place = reveal ? rows.findIndex((row) => row.seq === reveal.seq) : -1;
    if (place < 0) return;
    const { scrollTop, clientHeight } = box.current;
    const [top, bottom] = [place * height, (place + 1) * height];
    // What arrives at the end moves the view only of somebody who looks at the end.
    if (!reveal.gently) box.current.scrollTop = top - clientHeight / 2;
    else if (top - scrollTop - clientHeight < 4 * height && bottom > scrollTop + clientHeight)
      box.current.scrollTop = bottom - clientHeight;
  }, [reveal]);

  useZoom(box, zoom, phone ? null : props.onZoom);
  useDrag(box, phone);

  const first = Math.max(0, Math.floor(view.top / height) - OVER);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + OVER);
  const shown = rows.slice(first, last);
  const readable = phone || zoom >= 0.7;
  useEffect(() => {
    if (readable) words.want(shown.map((row) => row.shown));
  });

  const move = (place) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, place))];
    if (!row) return;
    props.onSelect(row);
    const y = rows.indexOf(row) * height;
    const element = box.current;
    if (!element) return; // a key may come when the tree has just been left
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + height > element.scrollTop + element.clientHeight)
      element.scrollTop = y + height - element.clientHeight;
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[at];
    const page = Math.max(1, Math.floor(view.height / height) - 1);
    const run = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      PageDown: () => move(at + page),
      PageUp: () => move(at - page),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      ArrowRight: () => (row && closed(row) ? props.onToggle(row, true) : move(at + 1)),
      ArrowLeft: () => (row && canClose(row) ? props.onToggle(row, false) : move(parentPlace(rows, at))),
      Enter: () => row && props.onOpen(row),
      " ": () => row && props.onToggle(row),
    }[event.key];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };

  const width = laneX(lanes) + 24;
  return html`<div class=${`tree-scroll${phone ? " is-phone" : ""}`} ref=${box} role="tree" tabindex="0"
      aria-label=${label} onKeyDown=${onKeyDown}
      aria-activedescendant=${at >= first && at < last ? rowId(rows[at]) : undefined}>
    <div class="tree-space" role="presentation"
      style=${{ height: `${rows.length * height}px`, margin: `${ABOVE}px 0` }}>
      ${phone ? null : html`<svg class="tree-lines" aria-hidden="true" width=${width * zoom}
          height=${shown.length * height} viewBox=${`0 0 ${width} ${shown.length * ROW}`}
          style=${{ top: `${first * height}px` }}>
        ${shown.map((row, place) => html`<${Lines} key=${row.key} row=${row} y=${place * ROW}
          selected=${row.seq === selected} model=${model} words=${words} near=${props.path.has(row.seq)} />`)}
      </svg>`}
      ${shown.map((row, place) => html`<${RowText} key=${row.key} row=${row} top=${(first + place) * height}
        height=${height} place=${first + place} total=${rows.length} zoom=${zoom} phone=${phone}
        readable=${readable} ...${props} />`)}
    </div>
  </div>`;
}

const rowId = (row) => `row-${row.key}`;
const closed = (row) => row.kind === "run" || row.hidden !== null;
const canClose = (row) => (row.branches > 0 && !row.hidden) || row.runOf > 0;

/** The place of the row above on the line that a row hangs on. */
function parentPlace(rows, at) {
  const lane = rows[at]?.lane ?? 0;
  for (let place = at - 1; place >= 0; place -= 1) {
    if (rows[place].lane < lane || (rows[place].lane === lane && rows[place].branches)) return place;
  }
  return 0;
}

function Lines({ row, y, selected, near, model, words }) {
  const middle = y + ROW / 2;
  const x = laneX(row.lane);
  const lanes = [...Array(Math.min(row.lane, LANES_MAX)).keys()].filter((lane) => row.passes & (1 << lane));
  const before = laneX(row.lane - 1);
  const path = (d, onPath) => html`<path class=${onPath ? "on-path" : ""} d=${d} />`;
  return html`<g>
    ${lanes.map((lane) => path(`M${laneX(lane)} ${y}V${y + ROW}`, lane === 0 && row.rail))}
    ${row.head ? path(`M${before} ${y}V${middle - 8}Q${before} ${middle} ${before + 8} ${middle}H${x}`, false) : null}
    ${row.head || row.first ? null : path(`M${x} ${y}V${middle}`, row.onPath)}
    ${row.down ? path(`M${x} ${middle}V${y + ROW}`, row.lane === 0 && row.rail) : null}
    <${Node} row=${row} x=${x} y=${middle} selected=${selected} near=${near} model=${model}
      failed=${words.get(row.seq)?.error} />
  </g>`;
}

function Node({ row, x, y, selected, near, model, failed }) {
  const node = model.node(row.seq);
  const states = [
    row.onPath && "on-path",
    near && "near",
    selected && "selected",
    failed && row.kind === "node" && "failed",
  ];
  const classes = ["node", `is-${node.role ?? node.type}`, ...states.filter(Boolean)].join(" ");
  if (row.kind === "run") {
    return html`<g class=${classes}><rect x=${x - 3} y=${y - 8} width="6" height="16" rx="3" /></g>`;
  }
  if (row.seq === model.leaf) {
    return html`<g class=${`${classes} leaf`}>
      <circle class="halo" cx=${x} cy=${y} r="9" /><circle cx=${x} cy=${y} r="5.5" />
    </g>`;
  }
  if (failed) return html`<g class=${classes}><path d=${`M${x} ${y - 6}L${x + 6.5} ${y + 5}H${x - 6.5}Z`} /></g>`;
  if (node.type === "compaction" || node.type === "branch_summary") {
    return html`<g class=${classes}><rect x=${x - 6} y=${y - 3.5} width="12" height="7" rx="1.5" /></g>`;
  }
  return html`<g class=${classes}><circle cx=${x} cy=${y} r=${node.role === "user" ? 5.5 : 4} /></g>`;
}

const branches = (number) => counted(number, "branch", "branches");

const WORDS_OF = {
  user: "you",
  assistant: "agent",
  tool: "result",
  system: "system",
  compaction: "compaction",
  branch_summary: "summary",
  model_change: "model",
  thinking_level: "thinking",
  label: "label",
  session_info: "session",
  custom: "custom",
  custom_message: "custom",
  tool_execution: "execution",
  usage: "usage",
  context_edit: "edit",
};

/** What an entry is, in one word. */
export const entryWord = (node) => WORDS_OF[node.role ?? node.type] ?? node.role ?? node.type;

/** What an entry is, or that it failed, in one word. */
export function Word({ node, failed }) {
  return html`<span class=${`tree-word is-${failed ? "failed" : (node.role ?? node.type)}`}>
    ${failed ? "failed" : entryWord(node)}
  </span>`;
}

function RowText({
  row,
  top,
  height,
  place,
  total,
  zoom,
  phone,
  readable,
  model,
  words,
  selected,
  onSelect,
  onOpen,
  onToggle,
}) {
  const node = model.node(row.seq);
  const label = row.kind === "node" ? model.labelOf(row.seq) : undefined;
  const said = words.get(row.shown);
  const isLeaf = row.seq === model.leaf;
  const depth = phone ? 12 + Math.min(row.lane, 3) * 14 : laneX(row.lane) * zoom + 14 * zoom;
  const classes = [
    "tree-row",
    row.onPath && "on-path",
    row.seq === selected && "selected",
    row.kind === "run" && "is-run",
  ];
  const showWords = readable && said?.text;
  const size = phone ? undefined : `${Math.max(9, Math.min(20, 14 * zoom))}px`;
  const toggle = (event) => {
    event.stopPropagation();
    onToggle(row);
  };
  return html`<div class=${classes.filter(Boolean).join(" ")} id=${rowId(row)} role="treeitem"
      aria-level=${row.lane + 1} aria-setsize=${total} aria-posinset=${place + 1}
      aria-selected=${row.seq === selected ? "true" : "false"}
      aria-expanded=${row.branches || row.kind === "run" ? String(!closed(row)) : undefined}
      style=${{ top: `${top}px`, height: `${height}px`, paddingLeft: `${depth}px`, fontSize: size }}
      onClick=${() => onSelect(row)} onDblClick=${() => onOpen(row)}>
    ${phone ? html`<span class="tree-depth num">${row.lane > 3 ? row.lane : ""}</span>` : null}
    ${isLeaf ? html`<span class="tree-leaf">live leaf</span>` : null}
    ${!readable && !isLeaf ? null : row.kind === "run" ? html`<${Count} run=${toggle}>${entries(row.count)}<//>`
      : html`<${Word} node=${node} failed=${said?.error && row.kind === "node"} />`}
    ${label ? html`<span class="pill" dir="auto">${visible(label)}</span>` : null}
    ${showWords ? html`<span class="tree-said" dir="auto">${beginning(said.text)}</span>` : null}
    ${row.branches && (readable || row.hidden) ? html`
      <${Count} run=${toggle} title=${row.hidden ? "unfold the branches" : "fold the branches"}>
        <${Icon} name="branch" />${" "}
        ${branches(row.branches)}${row.hidden ? ` folded, ${entries(row.hidden.entries)}` : ""}
      <//>
    ` : null}
    ${row.runOf === row.seq ? html`<${Count} run=${toggle}>fold the run<//>` : null}
  </div>`;
}

/** What a row has folded, or may fold. */
function Count({ run, title, children }) {
  return html`
    <button type="button" class="tree-count" tabindex="-1" title=${title} onClick=${run}>${children}</button>
  `;
}

/** Ctrl and the wheel zoom around the pointer. */
function useZoom(box, zoom, onZoom) {
  useEffect(() => {
    if (!onZoom) return undefined;
    const element = box.current;
    const onWheel = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const next = Math.max(ZOOM.least, Math.min(ZOOM.most, zoom * Math.exp(-event.deltaY / 300)));
      const y = event.clientY - element.getBoundingClientRect().top;
      const top = ((element.scrollTop + y) * next) / zoom - y;
      onZoom(next);
      requestAnimationFrame(() => { element.scrollTop = top; });
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [zoom, onZoom]);
}

/** Dragging with the mouse moves the tree; touch scrolls by itself. */
function useDrag(box, phone) {
  useEffect(() => {
    if (phone) return undefined;
    const element = box.current;
    let from = null;
    const onDown = (event) => {
      if (event.button !== 0 || event.pointerType !== "mouse" || event.target.closest("button")) return;
      from = {
        x: event.clientX + element.scrollLeft,
        y: event.clientY + element.scrollTop,
        moved: false,
        id: event.pointerId,
      };
    };
    const onMove = (event) => {
      if (!from) return;
      const [left, top] = [from.x - event.clientX, from.y - event.clientY];
      if (!from.moved && Math.abs(left - element.scrollLeft) + Math.abs(top - element.scrollTop) < 6) return;
      if (!from.moved) element.setPointerCapture(from.id);
      from.moved = true;
      element.classList.add("is-dragged");
      element.scrollTo(left, top);
    };
    const onUp = () => {
      if (from?.moved)
        element.addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
      from = null;
      element.classList.remove("is-dragged");
    };
    element.addEventListener("pointerdown", onDown);
    element.addEventListener("pointermove", onMove);
    element.addEventListener("pointerup", onUp);
    element.addEventListener("pointercancel", onUp);
    return () => {
      element.removeEventListener("pointerdown", onDown);
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("pointerup", onUp);
      element.removeEventListener("pointercancel", onUp);
    };
  }, [phone]);
}
