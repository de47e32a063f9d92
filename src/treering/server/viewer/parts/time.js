/**
 * Times: local, with the zone named once; the exact UTC time on hover and focus; ages by one timer for the whole page,
 * measured on the server's clock. A hidden tab counts nothing.
 */

import { html, useEffect, useState } from "../vendor/preact.js";
import { useApp } from "./app.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECONDS = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });
const ZONE = new Intl.DateTimeFormat("en", { timeZoneName: "short" });

/** A time of the server, an ISO text or milliseconds, as milliseconds; NaN if it is none. */
export function millis(at) {
  return typeof at === "number" ? at : Date.parse(at);
}

/**
 * A time of the server as a text that sorts like the times do: finer than milliseconds, and of a whole second, too,
 * which has no fraction.
 */
export function sortable(at) {
  return at.includes(".") ? at : at.replace("Z", ".000000Z");
}

/** "14:02", or "14:02:11" with seconds. */
export function clock(at, seconds = false) {
  return (seconds ? SECONDS : CLOCK).format(millis(at));
}

/** "24 Nov", with the year if it is not this one. */
export function day(at) {
  const date = new Date(millis(at));
  return (date.getFullYear() === new Date().getFullYear() ? DAY : YEAR).format(date);
}

/** The zone of all times of the page: "UTC+1". */
export function zone() {
  return ZONE.formatToParts(Date.now()).find((part) => part.type === "timeZoneName")?.value ?? "";
}

/** The age of something, in one unit: "now", "40 s", "2 m", "3 h", "5 d". */
export function age(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** How long something took: "40 ms", "3.1 s", "2 m 05 s", "1 h 12 m". */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 100) return `${Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0).replace(/\.0$/, "")} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} m`;
}

/** A running count in whole seconds: "14 s", "12 m 09 s", "1 h 02 m". */
export function counting(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

// -- the one timer

const waiting = new Set();
let timer = 0;

function tick() {
  for (const update of [...waiting]) update((beat) => beat + 1);
}

function run() {
  const shall = waiting.size > 0 && !document.hidden;
  if (shall && !timer) timer = setInterval(tick, 1000);
  if (!shall && timer) timer = clearInterval(timer) ?? 0;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) tick();
  run();
});

/** Draws the component again each second, as long as the tab is visible. */
export function useSecond(active = true) {
  const [, update] = useState(0);
  useEffect(() => {
    if (!active) return undefined;
    waiting.add(update);
    run();
    return () => {
      waiting.delete(update);
      run();
    };
  }, [active]);
}

/** The exact time, as it stands in the log. */
export function exact(at) {
  const time = millis(at);
  return Number.isNaN(time) ? "" : new Date(time).toISOString().replace(/\.\d+Z$/, " UTC").replace("T", " ");
}

/**
 * A time as `<time>`: the clock of today, the day before that, or an age.
 * @param {{ at: string | number, relative?: boolean, seconds?: boolean }} props
 */
export function Time({ at, relative = false, seconds = false }) {
  const app = useApp();
  const time = millis(at);
  useSecond(relative);
  if (Number.isNaN(time)) return null;
  const now = app.now();
  const today = new Date(time).toDateString() === new Date(now).toDateString();
  const shown = relative ? age(now - time) : today ? clock(time, seconds) : `${day(time)} ${clock(time, seconds)}`;
  return html`<time datetime=${new Date(time).toISOString()} title=${exact(time)}>${shown}</time>`;
}

/** A count of the seconds since a time: what says that something is alive. */
export function Elapsed({ since }) {
  const app = useApp();
  useSecond();
  return html`<span class="since">${counting(app.now() - millis(since))}</span>`;
}
