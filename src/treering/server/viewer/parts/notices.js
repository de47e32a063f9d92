/** What stands where there is nothing: an empty list, something that failed, something that has not come yet. */

import { html, useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { CopyButton } from "./copy.js";
import { Icon } from "./icons.js";

const SHOW_AFTER_MS = 200;

/**
 * One sentence and the next step.
 * @param {{ title: string, children?: unknown, command?: string, action?: unknown }} props
 */
export function Empty({ title, children = null, command = "", action = null }) {
  return html`<div class="empty">
    <p class="title">${title}</p>
    ${children && html`<p class="small">${children}</p>`}
    ${command && html`<div class="command">
      <code>${command}</code><${CopyButton} text=${command} what="command" />
    </div>`}
    ${action}
  </div>`;
}

/**
 * What failed, why, and what to do; other parts of the page go on.
 * @param {{ error: Error, retry?: () => void, what?: string }} props
 */
export function Failure({ error, retry = null, what = "" }) {
  const offline = error.name === "Offline";
  const title = what || (offline ? "The server cannot be reached" : (error.title ?? "This did not work"));
  const detail = offline
    ? "It may be restarting. The page tries again by itself as soon as it answers."
    : (error.detail ?? error.message);
  return html`<div class="failure" role="alert">
    <p class="title"><span class="state is-error"><${Icon} name="error" /></span>${title}</p>
    <p>${detail}</p>
    ${error.requestId && html`<p class="meta">Request <code>${error.requestId}</code></p>`}
    <p class="toolbar">
      ${retry && html`<button class="button" type="button" onClick=${retry}>Try again</button>`}
      ${error.status === 404 && html`<a class="button" href="sessions">All sessions</a>`}
    </p>
  </div>`;
}

/** Rows of the final height, after 200 ms. */
export function Skeleton({ rows = 8, height = 0 }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), SHOW_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!shown) return null;
  const style = height ? { height: `${height}px` } : undefined;
  return html`<div class="skeleton">
    <span class="sr">Loading</span>
    ${Array.from({ length: rows }, (_, row) => html`<div key=${row} style=${style} aria-hidden="true" />`)}
  </div>`;
}

/**
 * Loads a value, again when the dependencies change or the connection is back; the old one stays until the new one
 * came.
 * @param {(signal: AbortSignal) => Promise<unknown>} load
 * @param {unknown[]} dependencies
 * @returns {{ value: any, error: Error | null, loading: boolean, reload: () => void }}
 */
export function useLoad(load, dependencies) {
  const [state, setState] = useState({ value: null, error: null, loading: true });
  const [times, setTimes] = useState(0);
  const newest = useRef(load);
  newest.current = load;
  const reload = useCallback(() => setTimes((before) => before + 1), []);
  useEffect(() => {
    const control = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    newest.current(control.signal).then(
      (value) => !control.signal.aborted && setState({ value, error: null, loading: false }),
      (error) => !control.signal.aborted && setState((before) => ({ ...before, error, loading: false })),
    );
    return () => control.abort();
  }, [...dependencies, times]);
  useEffect(() => {
    if (state.error?.name !== "Offline") return undefined;
    const timer = setTimeout(reload, 3000);
    return () => clearTimeout(timer);
  }, [state.error]);
  return { ...state, reload };
}
