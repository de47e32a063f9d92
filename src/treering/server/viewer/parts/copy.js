/** Copying text: by the clipboard, or on plain http from another machine by a selected field; it says if both fail. */

import { html, useState } from "../vendor/preact.js";
import { useApp } from "./app.js";

function bySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  const before = document.activeElement;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}

/**
 * Copies a text, and says so.
 * @param {string} text
 * @param {import("./app.js").App} app
 * @param {string} [what] What was copied: "link", "480 lines".
 */
export async function copy(text, app, what = "text") {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    done = bySelection(text); // there is no clipboard here, or it is forbidden
  }
  if (done) app?.toast(`Copied ${what}`);
  else app?.toast("This browser does not let the page copy: select the text and copy it by hand", { kind: "bad" });
  return done;
}

/**
 * A button that copies a text; `what` is what it says it copies.
 * @param {{ text: string | (() => string), label?: string, what?: string }} props
 */
export function CopyButton({ text, label = "Copy", what = "text" }) {
  const app = useApp();
  const [done, setDone] = useState(false);
  const run = async () => {
    if (!(await copy(typeof text === "function" ? text() : text, app, what))) return;
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="button quiet" type="button" onClick=${run}>${done ? "Copied" : label}</button>`;
}
