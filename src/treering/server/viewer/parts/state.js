/** What an agent is doing, as one word from one field of the server; with a shape and a colour, never colour alone. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";

/** The states, those that need somebody first. "asleep" is one of the host, not of an agent: it is not loaded. */
export const STATES = ["error", "waits", "working", "idle", "done"];

const RANK = { error: 0, waits: 1, working: 2, idle: 3, done: 3 };
const WORDS = { error: "error", waits: "waits", working: "working", idle: "idle", done: "done" };

/** The word of a state; one that this page does not know is shown as it came. */
export function stateWord(state, live = true) {
  const word = WORDS[state] ?? String(state ?? "unknown");
  if (live) return word;
  return state === "idle" || state === "done" ? "asleep" : `${word}, asleep`;
}

/** The place of a state in a list: errors first, then those that wait, work, are idle, are asleep. */
export function stateRank(state, live = true) {
  const rank = RANK[state] ?? 3;
  return live || rank < 2 ? rank : 4;
}

/** The group that a count or a filter puts a state into: its word, or "asleep" for what is idle and not loaded. */
export function stateGroup(state, live = true) {
  const rank = stateRank(state, live);
  return rank === 4 ? "asleep" : (WORDS[state] ?? "idle");
}

/**
 * A state with its shape: filled is live in the host, hollow is asleep.
 * @param {{ state: string, live?: boolean }} props
 */
export function StateChip({ state, live = true }) {
  const name = WORDS[state] ?? "idle";
  return html`<span class=${`state is-${name}${live ? "" : " is-asleep"}`}
    ><${Icon} name=${name} hollow=${!live} /><span>${stateWord(state, live)}</span></span
  >`;
}
