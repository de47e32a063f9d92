/** Up to which entry each session was read in this browser; the oldest of many are forgotten. */

const NAME = "treering.seen";
const KEPT_MAX = 500;

let text = null;
let kept = new Map();

/** What is kept: session → [seq, time of the latest entry that there was to see]. Other tabs write it too. */
function read() {
  try {
    const now = localStorage.getItem(NAME);
    if (now !== text) [text, kept] = [now, new Map(JSON.parse(now))];
  } catch {
    [text, kept] = [null, new Map()]; // a browser without storage has seen nothing
  }
  return kept;
}

/** The seq up to which a session was read, or null. */
export function readSeen(session) {
  return read().get(session)?.[0] ?? null;
}

/** Whether a session that was read here has had entries since. */
export function isUnseen(row) {
  const at = read().get(row.id)?.[1];
  return at !== undefined && Date.parse(row.last_entry) > Date.parse(at);
}

/** Remember that a session was read up to a seq, when its latest entry was of some time. */
export function keepSeen(session, seq, at) {
  if (!Number.isFinite(seq)) return;
  const seen = new Map(read());
  const [before, atBefore] = seen.get(session) ?? [0, at];
  seen.delete(session);
  seen.set(session, [Math.max(seq, before), Date.parse(at) > Date.parse(atBefore) ? at : atBefore]);
  try {
    localStorage.setItem(NAME, JSON.stringify([...seen].slice(-KEPT_MAX)));
  } catch {
    /* see above */
  }
}
