/** Up to which entry each session was read in this browser; the oldest of many are forgotten. */

const NAME = "treering.seen";
const KEPT_MAX = 500;

function read() {
  try {
    return new Map(JSON.parse(localStorage.getItem(NAME)) ?? []);
  } catch {
    return new Map(); // a browser without storage has seen nothing
  }
}

/** The seq up to which a session was read, or null. */
export function readSeen(session) {
  return read().get(session) ?? null;
}

/** Remember that a session was read up to a seq. */
export function keepSeen(session, seq) {
  if (!Number.isFinite(seq)) return;
  const seen = read();
  const before = seen.get(session) ?? 0;
  seen.delete(session);
  seen.set(session, Math.max(seq, before));
  try {
    localStorage.setItem(NAME, JSON.stringify([...seen].slice(-KEPT_MAX)));
  } catch {
    /* see above */
  }
}
