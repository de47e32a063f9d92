/** Dialogs: the browser's own `<dialog>`, which keeps the focus inside and gives it back. */

import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";

/**
 * A dialog over the page, as long as it is drawn.
 * @param {{ title: string, onClose: () => void, children: unknown, actions?: unknown, onSubmit?: () => void }} props
 */
export function Dialog({ title, onClose, children, actions = null, onSubmit = null }) {
  const box = useRef(null);
  const name = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog.showModal();
    return () => {
      dialog.close(); // as long as it is open, nothing outside it takes the focus
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit?.();
  };
  const outside = (event) => {
    if (event.target === box.current) onClose();
  };
  const close = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog class="dialog" ref=${box} aria-labelledby=${name} onCancel=${close} onClick=${outside}>
    <form onSubmit=${submit}>
      <div class="top">
        <h2 id=${name}>${title}</h2>
        <button class="button quiet" type="button" aria-label="Close" onClick=${onClose}>
          <${Icon} name="close" />
        </button>
      </div>
      ${children}
      ${actions && html`<div class="actions">${actions}</div>`}
    </form>
  </dialog>`;
}

/**
 * A question before something that cannot be undone; with `typed`, that text must be typed first.
 * @param {{ title: string, text: unknown, typed?: string, action: string, onDone: () => unknown,
 *   onClose: () => void }} props
 *   `onDone` may return a promise: the dialog stays, says what failed, and keeps what was typed.
 */
export function Confirm({ title, text, typed = "", action, onDone, onClose }) {
  const [given, setGiven] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const ready = !busy && (!typed || given === typed);
  const run = async () => {
    if (!ready) return;
    setBusy(true);
    setError(null);
    try {
      await onDone();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const actions = html`<button class="button" type="button" onClick=${onClose}>Cancel</button>
    <button class="button bad" type="submit" disabled=${!ready}>${action}</button>`;
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${run} actions=${actions}>
    <div class="small">${text}</div>
    ${typed && html`<label class="named"><span>Type <bdi class="mono">${typed}</bdi> to go on</span>
      <input class="field mono" ref=${field} value=${given} onInput=${(event) => setGiven(event.currentTarget.value)}
        autocomplete="off" spellcheck=${false} />
      </label>
      `}
    ${error && html`<p class="notice bad-ground" role="alert">${error.detail ?? error.message}</p>`}
  <//>`;
}
