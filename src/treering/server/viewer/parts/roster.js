/** Agents as a list: who needs somebody first, sub-agents under their parents, folded above five. Pure. */

import { stateGroup, stateRank } from "./state.js";
import { sortable } from "./time.js";

const FOLD_ABOVE = 5;
const TROUBLED = 2;

/** The group of a row: a session that cannot be read is in error. */
export function groupOf(row) {
  return row.state ? stateGroup(row.state.state, row.state.live) : "error";
}

function rankOf(row) {
  return row.state ? stateRank(row.state.state, row.state.live) : 0;
}

/** The rows to show: those that were read, as they are now, and those that came since and are in these groups. */
export function family(now, read, groups) {
  const wanted = new Set(groups);
  const rows = [];
  const seen = new Set();
  for (const { id } of read) {
    const row = now.get(id);
    seen.add(id);
    if (row && !row.archived) rows.push(row);
  }
  for (const row of now.values()) {
    if (!seen.has(row.id) && !row.archived && wanted.has(groupOf(row))) rows.push(row);
  }
  return rows;
}

/**
 * Families in the order in which they need somebody: a parent stands where the worst of its sub-agents would.
 * @returns {{ row: object, children: object[], failed: number }[]}
 */
export function arrange(rows) {
  const byId = new Map(
    rows.map((row) => [row.id, { row, children: [], failed: 0, rank: rankOf(row), changed: sortable(row.last_entry) }]),
  );
  const roots = [];
  for (const each of byId.values()) {
    const parent = each.row.parent_entry ? byId.get(each.row.parent_session) : undefined;
    if (parent && !isBelow(byId, parent, each)) each.parent = parent;
    else roots.push(each);
  }
  for (const each of byId.values()) if (each.parent) rootOf(each).children.push(each);
  for (const root of roots) {
    root.failed = root.children.filter((child) => groupOf(child.row) === "error").length;
    for (const child of root.children) {
      if (child.rank >= TROUBLED) continue;
      root.rank = Math.min(root.rank, child.rank);
      if (child.changed > root.changed) root.changed = child.changed;
    }
    root.children.sort(inOrder);
  }
  return roots.sort(inOrder);
}

function inOrder(a, b) {
  if (a.rank !== b.rank) return a.rank - b.rank;
  // as texts: a millisecond is too coarse
  if (a.changed !== b.changed) return a.changed < b.changed ? 1 : -1;
  return a.row.id < b.row.id ? -1 : 1;
}

function rootOf(each) {
  let at = each;
  while (at.parent) at = at.parent;
  return at;
}

/** Whether a row is above another one: logs may name each other as parents. */
function isBelow(byId, from, each) {
  for (let at = from, steps = 0; at && steps < 64; steps += 1) {
    if (at === each) return true;
    at = at.row.parent_entry ? byId.get(at.row.parent_session) : undefined;
  }
  return false;
}

/**
 * The lines of a list: each family's head, then its sub-agents, or a line that says how many are folded.
 * @param {ReturnType<typeof arrange>} families
 * @param {Set<string>} unfolded The heads whose sub-agents are all shown.
 */
export function lines(families, unfolded) {
  const drawn = [];
  for (const { row, children, failed } of families) {
    drawn.push({ key: row.id, row, level: 1, children: children.length, failed });
    const open = children.length <= FOLD_ABOVE || unfolded.has(row.id);
    const shown = open ? children : children.filter((child) => child.rank < TROUBLED).slice(0, FOLD_ABOVE);
    for (const child of shown) drawn.push({ key: child.row.id, row: child.row, level: 2, children: 0, failed: 0 });
    if (children.length > FOLD_ABOVE) {
      const rest = children.filter((child) => !shown.includes(child));
      drawn.push({
        key: `${row.id}/fold`,
        head: row.id,
        level: 2,
        open,
        rest: open ? children.length : rest.length,
        words: summed(rest),
      });
    }
  }
  return drawn;
}

function summed(children) {
  const counts = new Map();
  for (const child of children) counts.set(groupOf(child.row), (counts.get(groupOf(child.row)) ?? 0) + 1);
  return [...counts].map(([group, number]) => `${number} ${group}`).join(", ");
}
