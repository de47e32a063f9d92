// The layout of a tree as rows: the path to the leaf stays in the left lane, straight runs are one row, branches fold.
//
// A side branch stands between its branch point and what comes after it on the line it leaves, one lane to the right.
// So lanes count how deep branches are nested, never how many there are, and the text stands right beside its node.

const RUN_MIN = 3;

/** Deeper lanes are drawn as this one. */
export const LANES_MAX = 14;

/** Above so many rows a tree starts with its branches folded. */
export const OPEN_ROWS_MAX = 2000;

const NO_SIDES = [];
const STANDING = new Set(["compaction", "branch_summary"]);

/**
 * @typedef {object} Row
 * @property {string} key what stays the same when the tree grows
 * @property {"node"|"run"} kind
 * @property {number} seq the entry, or the first one of the run
 * @property {number} shown the entry whose words stand beside it
 * @property {number} last the last entry of the run, or the entry
 * @property {number} count how many entries the row stands for
 * @property {number} lane
 * @property {boolean} head whether a branch begins here, so that the line comes from the lane before it
 * @property {boolean} first whether nothing is above it on its line
 * @property {boolean} onPath whether it is on the path to the leaf
 * @property {number} runOf the first entry of the opened run that it belongs to, or 0
 * @property {number} branches how many branches leave the line here
 * @property {{branches: number, entries: number}|null} hidden what is folded away here
 * @property {boolean} down whether its line goes on below it
 * @property {number} passes the lanes left of it that pass it, as bits
 * @property {boolean} rail whether the line in the left lane is the path to the leaf here
 */

/**
 * Lays a tree out.
 * @param {import("./tree-model.js").TreeModel} model
 * @param {{folded?: Set<number>, openRuns?: Set<number>, only?: ""|"branches"|"labels", pinned?: Set<number>}} options
 *   folded: branch points whose side branches are hidden · openRuns: runs shown entry by entry, by their first entry ·
 *   only: which entries have rows of their own · pinned: entries that have one in any case
 * @returns {{rows: Row[], lanes: number, without: number}} without: how many branches are not shown for want of a label
 */
export function layout(model, options = {}) {
  const { folded = new Set(), openRuns = new Set(), only = "", pinned = new Set() } = options;
  const path = new Set(model.pathTo(model.leaf));
  const sizes = model.sizes();
  const labelled = only === "labels" ? withLabels(model, pinned) : null;
  const rows = [];
  let lanes = 0;
  let without = 0;
  const waiting = model.children(0).map((seq) => ({ seq, lane: 0, head: false, first: true })).reverse();

  const stands = (seq, starts) => {
    if (seq === model.leaf || pinned.has(seq)) return true;
    if (only === "labels") return model.labelOf(seq) !== undefined;
    if (starts || model.children(seq).length !== 1) return true;
    return only !== "branches" && (model.labelOf(seq) !== undefined || STANDING.has(model.node(seq).type));
  };

  const push = (kind, seqs, place, branches = 0, hidden = null, runOf = 0) => {
    const [seq] = seqs;
    rows.push({
      key: kind + seq,
      kind,
      seq,
      shown: kind === "run" ? sayer(model, seqs) : seq,
      last: seqs.at(-1),
      count: seqs.length,
      lane: place.lane,
      head: place.head,
      first: place.first,
      onPath: path.has(seq),
      runOf,
      branches,
      hidden,
      down: false,
      passes: 0,
      rail: false,
    });
    lanes = Math.max(lanes, place.lane);
    place.head = place.first = false;
  };

  const flush = (run, place) => {
    // With a choice of entries, even one that is left out must be named.
    const least = only ? 1 : RUN_MIN;
    const pieces = splitByPath(run, path);
    for (const piece of pieces) {
      const isRun = piece.length >= least;
      if (isRun && !openRuns.has(piece[0])) push("run", piece, place);
      else for (const seq of piece) push("node", [seq], place, 0, null, isRun ? piece[0] : 0);
    }
    run.length = 0;
  };

  while (waiting.length) {
    const place = waiting.pop();
    const run = [];
    let seq = place.seq;
    let starts = place.head || place.first;
    for (;;) {
      const children = model.children(seq);
      const main = children.length === 1 && seq !== model.leaf ? children[0] : continues(model, children, path, seq);
      let sides = children.length > 1 || !main ? children.filter((child) => child !== main) : NO_SIDES;
      if (labelled) {
        without += sides.length;
        sides = sides.filter((side) => labelled.has(side));
        without -= sides.length;
      }
      if (stands(seq, starts)) {
        flush(run, place);
        const hidden = sides.length && folded.has(seq)
          ? { branches: sides.length, entries: sides.reduce((sum, side) => sum + sizes[side], 0) }
          : null;
        push("node", [seq], place, sides.length, hidden);
      } else {
        run.push(seq);
      }
      starts = false;
      if (sides.length && !folded.has(seq)) {
        flush(run, place);
        if (main) waiting.push({ seq: main, lane: place.lane, head: false, first: false });
        for (const side of sides.toReversed())
          waiting.push({ seq: side, lane: place.lane + 1, head: true, first: false });
        break;
      }
      if (!main) break;
      seq = main;
    }
    flush(run, place);
  }
  connect(rows);
  return { rows, lanes, without };
}

/** The entry of a run whose words stand beside it: the first that the user said. */
const sayer = (model, seqs) => seqs.find((seq) => model.node(seq).role === "user") ?? seqs[0];

/** Which child goes on in the same lane: that on the path to the leaf, else the newest; none below the leaf itself. */
function continues(model, children, path, seq) {
  if (seq === model.leaf) return 0;
  return children.find((child) => path.has(child)) ?? children.at(-1) ?? 0;
}

/** The entries on the way to one with a label, to a pinned one, or to the leaf. */
function withLabels(model, pinned) {
  const found = new Set();
  const wanted = [model.leaf, ...pinned, ...[...model.labels.keys()].map((id) => model.seqOf(id))];
  for (const seq of wanted) for (let at = seq; at && !found.has(at); at = model.node(at)?.parent ?? 0) found.add(at);
  return found;
}

function splitByPath(run, path) {
  const pieces = [];
  for (const seq of run) {
    if (pieces.length && path.has(pieces.at(-1)[0]) === path.has(seq)) pieces.at(-1).push(seq);
    else pieces.push([seq]);
  }
  return pieces;
}

/** Says of each row which lines pass it, from the last row up: a line reaches up to what it comes from. */
function connect(rows) {
  let open = 0;
  let rail = false;
  for (let place = rows.length - 1; place >= 0; place -= 1) {
    const row = rows[place];
    const bit = 1 << Math.min(row.lane, LANES_MAX);
    row.down = (open & bit) !== 0;
    row.passes = open & (bit - 1);
    row.rail = rail;
    if (row.head || row.first) open &= ~bit;
    else open |= bit;
    if (row.head) open |= bit >> 1;
    if (row.lane === 0) rail = row.onPath && !row.first;
  }
}

/** The branch points to fold so that a large tree begins with the path to its leaf alone. */
export function firstFolds(model) {
  return layout(model).rows.length > OPEN_ROWS_MAX ? new Set(model.branchPoints()) : new Set();
}

/** The branch points that must open so that an entry has a row, when those in `folded` are closed. */
export function foldsAbove(model, seq, folded) {
  const path = new Set(model.pathTo(model.leaf));
  const opened = [];
  let child = seq;
  for (let at = model.node(seq)?.parent ?? 0; at; child = at, at = model.node(at).parent) {
    const main = continues(model, model.children(at), path, at);
    if (folded.has(at) && child !== main) opened.push(at);
  }
  return opened;
}

/** The place of the row that shows an entry, or -1. */
export function rowOf(model, rows, seq) {
  const exact = rows.findIndex((row) => row.seq === seq || row.last === seq);
  if (exact >= 0) return exact;
  const above = new Map(rows.map((row, place) => [row.seq, place]));
  for (let at = seq; at; at = model.node(at)?.parent ?? 0) {
    const place = above.get(at);
    if (place !== undefined) return place;
  }
  return -1;
}
