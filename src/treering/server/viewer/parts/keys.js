/**
 * Keys: single ones, outside fields only, each listed in `?`, and off by a switch there. Keys with Control and named
 * keys such as "Escape" are not single keys, and stay on.
 */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Dialog } from "./dialog.js";

const OFF = "treering.keys";
const scopes = [];
const NAMES = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  PageUp: "PgUp",
  PageDown: "PgDn",
  Control: "Ctrl",
};

const worded = (key) => (key.length === 1 ? [key] : key.split("+")).map((part) => NAMES[part] ?? part).join(" ");

let off = false;
try {
  off = localStorage.getItem(OFF) === "off";
} catch {
  // storage is blocked: keys are on
}

function isField(element) {
  return (
    element instanceof Element &&
    element.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null
  );
}

function isPressed(keys, event) {
  const parts = keys.split("+");
  const key = parts.length > 1 && parts[0] === "Control" ? parts[1] : keys;
  const control = event.ctrlKey || event.metaKey;
  if (control !== (key !== keys) || event.altKey) return false;
  return event.key === key || (control && event.key.toLowerCase() === key.toLowerCase());
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const single = event.key.length === 1 && !event.ctrlKey && !event.metaKey;
  if (single && (off || isField(event.target))) return;
  if (document.querySelector("dialog[open]") && !event.target.closest?.("dialog")) return;
  for (let place = scopes.length - 1; place >= 0; place -= 1) {
    for (const each of scopes[place].keys) {
      const all = Array.isArray(each.keys) ? each.keys : [each.keys];
      if (!all.some((keys) => isPressed(keys, event))) continue;
      if (isField(event.target) && !each.inFields) continue;
      if (each.run(event) === false) continue;
      event.preventDefault();
      return;
    }
  }
});

/**
 * Keys that work as long as the component is drawn.
 * @param {{ keys: string | string[], label?: string, run: (event: KeyboardEvent) => unknown,
 *   inFields?: boolean }[]} keys
 *   A key without a label is not listed. `run` returns false to leave the key to others and the browser.
 * @param {{ scope: string }} options The heading in `?`.
 */
export function useKeys(keys, { scope }) {
  const entry = useRef(null);
  entry.current ??= { scope, keys };
  entry.current.keys = keys;
  useEffect(() => {
    scopes.push(entry.current);
    return () => scopes.splice(scopes.indexOf(entry.current), 1);
  }, []);
}

/** The list of all keys of the present page, and the switch. */
export function KeysDialog({ onClose }) {
  const [isOff, setOff] = useState(off);
  const turn = (event) => {
    off = !event.currentTarget.checked;
    setOff(off);
    try {
      localStorage.setItem(OFF, off ? "off" : "on");
    } catch {
      // storage is blocked: the choice holds until the tab is closed
    }
  };
  const names = [...new Set(scopes.map((each) => each.scope))].reverse();
  const listed = names.map((name) => [
    name,
    scopes
      .filter((each) => each.scope === name)
      .flatMap((each) => each.keys)
      .filter((each) => each.label),
  ]);
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <label class="switch">
      <input type="checkbox" checked=${!isOff} onChange=${turn} />Single keys work outside fields
    </label>
    <div class="keys">
      ${listed.filter(([, keys]) => keys.length).map(
        ([name, keys]) => html`<h3 key=${name}>${name}</h3>
          ${keys.map((each) => html`
            <span>
              ${[each.keys].flat().map((key) => html`<kbd>${worded(key)}</kbd>`)}
            </span>
            <span>${each.label}</span>
          `)}`,
      )}
    </div>
  <//>`;
}
