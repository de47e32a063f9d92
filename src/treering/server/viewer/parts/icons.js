/**
 * The icons: ten shapes in `currentColor`, hidden from readers, each beside a word.
 * A shape that is filled says "live"; the same shape, hollow, says "asleep".
 */

import { html } from "../vendor/preact.js";

const FILLED = {
  working: "M3 1.5 14 8 3 14.5z",
  waits: "M8 .8 15.2 8 8 15.2.8 8z",
  error: "M8 1 15.4 14.5H.6z",
  idle: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z",
};

const LINES = {
  done: "M2 8.6 6.2 13 14 3.6",
  branch: "M4 1.5v13M4 9.5c5 0 8-1.5 8-6M12 3.5v-2",
  fold: "M5.5 2.5 11 8l-5.5 5.5",
  more: "M2 8h.01M8 8h.01M14 8h.01",
  link:
    "M6.5 9.5a3.2 3.2 0 0 0 4.6 0l2.6-2.6a3.25 3.25 0 0 0-4.6-4.6L8 3.4" +
    "M9.5 6.5a3.2 3.2 0 0 0-4.6 0L2.3 9.1a3.25 3.25 0 0 0 4.6 4.6L8 12.6",
  search: "M11 11l4 4M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10z",
  close: "M3 3l10 10M13 3 3 13",
};

/**
 * One icon.
 * @param {{ name: keyof typeof FILLED | keyof typeof LINES | "theme", hollow?: boolean, open?: boolean }} props
 *   `open` turns the fold mark down.
 */
export function Icon({ name, hollow = false, open = false }) {
  const shape = FILLED[name];
  const drawn = shape
    ? html`
      <path d=${shape} fill=${hollow ? "none" : "currentColor"} stroke="currentColor" stroke-width="1.5"
        stroke-linejoin="round" />
    `
    : name === "theme"
      ? html`
        <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
      `
      : html`
        <path d=${LINES[name]} fill="none" stroke="currentColor" stroke-width=${name === "more" ? 2.4 : 1.7}
          stroke-linecap="round" stroke-linejoin="round" transform=${open ? "rotate(90 8 8)" : undefined} />
      `;
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">${drawn}</svg>`;
}

/** The mark of the house: the rings of a tree. */
export function Mark() {
  return html`<svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" focusable="false" fill="none"
    stroke="currentColor">
    <circle cx="10" cy="10" r="8.5" /><circle cx="10" cy="10" r="5.5" /><circle cx="10" cy="10" r="2.5" />
  </svg>`;
}
