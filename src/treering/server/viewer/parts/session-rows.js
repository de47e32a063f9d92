/** The rows of a path: an answer with the results of its calls is one; branch points and days have their own. */

import { visible } from "./signs.js";

const EVENTS = new Set(["message", "custom_message", "compaction", "branch_summary"]);
const SPEAKERS = { user: "You", assistant: "Agent", tool: "Tool", system: "Instructions", bashExecution: "Command" };

const CUT_OFF = "the answer was cut off at the limit of its length";
const REFUSED = "the model refused to answer";
/** What is said of an answer that did not end by itself, by why it stopped: our words, and those that programs keep. */
export const ENDS = new Map([
  ["length", CUT_OFF],
  ["max_tokens", CUT_OFF],
  ["refusal", REFUSED],
  ["content_filter", REFUSED],
  ["safety", REFUSED],
  ["aborted", "the answer was interrupted"],
]);

/** Whether an entry is something that was said or summarized, rather than a note about the session. */
export function isSaid(item) {
  return EVENTS.has(item.type);
}

/** Who speaks, in one word. */
export function speaker(item) {
  if (item.type === "message") return SPEAKERS[item.role] ?? visible(item.role ?? "");
  if (item.type === "compaction") return "Compaction";
  if (item.type === "branch_summary") return "Summary of another branch";
  return visible(item.type.replaceAll("_", " "));
}

/** The first words of an entry, or of its first call. */
export function firstWords(item) {
  if (item.text) return visible(item.text);
  const [tool] = item.tools ?? [];
  return tool ? visible(`${tool.name} ${tool.argument ?? ""}`) : speaker(item);
}

/** Whether an item holds results of calls. */
function isResults(item) {
  return item.type === "message" && (item.results?.length ?? 0) > 0;
}

/** Whether an item is what a person said. */
export function isPrompt(item) {
  return item.type === "message" && item.role === "user" && !isResults(item);
}

/** The calls of a row that failed. */
export function failedCalls(row) {
  return [...row.results.values()].filter((each) => each.error);
}

/** Whether a row shows a failure. */
export function isFailure(row) {
  return row.kind === "entry" && (Boolean(row.item.error) || failedCalls(row).length > 0);
}

/**
 * Rows of items in the order of their path.
 *
 * A row is `{ key, kind: "entry"|"branch"|"day"|"seen", item, results: Map call id → { item, error, bytes },
 * continues, turn, estimate }`. Rows of `before` that did not change are the same objects.
 *
 * @param {object[]} items of the outline
 * @param {{ before: Map<string, object>, keys: Map<string, string>, conversation: boolean, seen: number|null,
 *   turn?: number|null,
 *   dayOf: (timestamp: string) => string }} options
 * @returns {{ rows: object[], rowOf: Map<string, number> }} the rows, and the place of the row that shows each entry
 */
export function rowsOf(items, { before, keys, conversation, seen, turn = 0, dayOf }) {
  const rows = [];
  const rowOf = new Map();
  const callers = new Map();
  let day = null;
  let last = null;
  let seenDrawn = seen === null;

  const failing = new Set(
    items.flatMap((each) => (each.results ?? []).filter((result) => result.error).map((result) => result.call_id)),
  );

  for (const item of items) {
    if (isPrompt(item) && turn !== null) turn += 1;
    const caller = isResults(item) ? callers.get(item.results[0].call_id) : undefined;
    if (!seenDrawn && item.seq > seen && rows.length > 0) {
      rows.push({ key: "seen", kind: "seen", item, results: new Map(), estimate: 32 });
      seenDrawn = true;
      last = null;
    }
    if (item.branches > 1) {
      rows.push({ key: `branch:${item.id}`, kind: "branch", item, results: new Map(), estimate: 44 });
      last = null;
    }
    if (caller !== undefined) {
      for (const result of item.results) caller.results.set(result.call_id, { ...result, item });
      rowOf.set(item.id, caller.place);
      continue;
    }
    const target = item.type === "label" ? rowOf.get(item.text.split(" ", 1)[0]) : undefined;
    if (target !== undefined) {
      rowOf.set(item.id, target);
      continue;
    }
    if (item.type === "tool_execution" && callers.has(item.call_id)) {
      const { results, place } = callers.get(item.call_id);
      if (item.duration_ms !== null && results.has(item.call_id))
        results.set(item.call_id, { ...results.get(item.call_id), took: item.duration_ms });
      rowOf.set(item.id, place);
      continue;
    }
    const today = dayOf(item.timestamp);
    if (today !== day) {
      if (day !== null || items.length > 1)
        rows.push({ key: `day:${item.id}`, kind: "day", item, text: today, results: new Map(), estimate: 36 });
      day = today;
    }
    if (conversation && !isConversation(item, failing)) {
      const hidden = { results: new Map(), place: Math.max(0, rows.length - 1) };
      rowOf.set(item.id, hidden.place);
      for (const call of item.tools ?? []) callers.set(call.id, hidden);
      continue;
    }
    const row = {
      key: keys.get(item.id) ?? item.id,
      kind: "entry",
      item,
      results: new Map(),
      continues: last !== null && last.role === "assistant" && item.role === "assistant" && last.model === item.model,
      turn,
      conversation,
      estimate: estimate(item),
      place: rows.length,
    };
    for (const call of item.tools ?? []) callers.set(call.id, row);
    rowOf.set(item.id, rows.length);
    rows.push(row);
    last = isSaid(item) ? item : last;
  }
  for (let place = 0; place < rows.length; place += 1) {
    const known = before.get(rows[place].key);
    if (known !== undefined && known !== rows[place] && isSame(known, rows[place])) {
      known.place = rows[place].place;
      rows[place] = known;
    }
  }
  return { rows, rowOf };
}

/** Whether a person reading the conversation alone wants to see an item: errors always. */
function isConversation(item, failing) {
  if (item.error || item.tools?.some((each) => failing.has(each.id))) return true;
  if (item.type === "compaction" || item.type === "branch_summary" || item.type === "custom_message") return true;
  return item.type === "message" && Boolean(item.text) && (item.role === "user" || item.role === "assistant");
}

function isSame(a, b) {
  if (a.kind !== b.kind || a.item !== b.item || a.continues !== b.continues || a.turn !== b.turn) return false;
  if (a.conversation !== b.conversation || a.results.size !== b.results.size || a.text !== b.text) return false;
  for (const [id, result] of a.results) {
    const other = b.results.get(id);
    if (other?.item !== result.item || other.took !== result.took) return false;
  }
  return true;
}

/** The height of a row before it was measured. */
function estimate(item) {
  const tools = (item.tools?.length ?? 0) * 36;
  if (!isSaid(item)) return 30;
  if (item.type === "message" && item.role !== "user" && item.role !== "assistant") return 44 + tools;
  const lines = Math.min(
    item.role === "user" ? 20 : 60,
    Math.ceil((item.text ? Math.max(item.text.length, (item.bytes ?? 0) * 0.8) : 0) / 90),
  );
  return 40 + lines * 25 + tools;
}
