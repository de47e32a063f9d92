/** Charts of usage as SVG, and the tables that say the same in numbers: sortable, copied as CSV. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { CopyButton } from "./copy.js";
import { Icon } from "./icons.js";
import { useLoad } from "./notices.js";
import { count, counted, money, tokens } from "./numbers.js";

const ROWS_SHOWN = 12;
const DAY_MS = 86_400_000;
const DAYS_MIN = 7;
const HEIGHT = 220;
const LEFT = 60;
const BOTTOM = 26;

/** Loads the usage of a filter by "day", "project", "session" or "model". */
export function useUsage(app, by, filter) {
  const tz = -new Date().getTimezoneOffset();
  return useLoad(
    (signal) => app.server.get("usage", { query: { ...filter, by, tz_minutes: tz }, signal }),
    [by, JSON.stringify(filter), app.directory.epoch],
  );
}

/** The value of a row that a chart shows. */
export function valueOf(row, measure) {
  return measure === "cost" ? (row.usage.cost ?? 0) : (row.usage.total_tokens ?? 0);
}

/** A value with its unit. */
export function worded(value, measure) {
  return measure === "cost" ? money(value) : tokens(value);
}

/** Days without usage are days too, and a bar stands among the days before it: at least a week of them. */
function everyDay(rows) {
  const known = new Map(rows.map((row) => [row.name, row]));
  const days = [];
  const last = Date.parse(rows.at(-1).name);
  const first = Math.min(Date.parse(rows[0].name), last - (DAYS_MIN - 1) * DAY_MS);
  for (let at = first; at <= last; at += DAY_MS) {
    const name = new Date(at).toISOString().slice(0, 10);
    days.push(known.get(name) ?? { name, sessions: 0, usage: {} });
  }
  return days;
}

/** The steps of an axis from zero: round numbers, at most five. */
export function ticks(most) {
  if (most <= 0) return [0];
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, place) => place * step);
}

/** Bars over days. */
export function DayChart({ rows, measure }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const days = everyDay(rows);
  const most = Math.max(...days.map((day) => valueOf(day, measure)));
  const axis = ticks(most);
  const top = axis.at(-1) || 1;
  const inner = HEIGHT - BOTTOM - 8;
  const y = (value) => 8 + inner * (1 - value / top);
  const slot = Math.max(2, (width - LEFT) / days.length);
  const every = Math.max(1, Math.ceil(64 / slot));
  const name = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
  const total = days.reduce((sum, day) => sum + valueOf(day, measure), 0);
  const of = `${measure === "cost" ? "Cost" : "Tokens"} of ${counted(days.length, "day")}`;
  const sums = `${worded(total, measure)} in all, at most ${worded(most, measure)} a day`;
  const label = `${of}, ${days[0].name} to ${days.at(-1).name}: ${sums}. The table below has the numbers.`;
  return html`<div class="chart" ref=${box}>
    ${width > 0 && html`<svg width=${width} height=${HEIGHT} role="img" aria-label=${label}>
      ${axis.map((value) => html`<g key=${value}>
        <line x1=${LEFT} x2=${width} y1=${y(value)} y2=${y(value)} class=${value ? "grid" : "base"} />
        <text x=${LEFT - 10} y=${y(value) + 4} text-anchor="end">${worded(value, measure) || "0"}</text>
      </g>`)}
      ${days.map((day, place) => {
        const value = valueOf(day, measure);
        const x = LEFT + place * slot;
        const bar = Math.min(40, Math.max(1, slot * 0.7));
        return html`<g key=${day.name}>
          <rect class="bar" x=${x + (slot - bar) / 2} y=${y(value)} width=${bar}
            height=${Math.max(value > 0 ? 1 : 0, y(0) - y(value))} rx=${Math.min(2, bar / 3)}>
            <title>${day.name}: ${worded(value, measure)}, ${counted(day.sessions, "session")}</title>
          </rect>
          ${(days.length - 1 - place) % every === 0 && x + slot / 2 > LEFT + 14 && html`<text
            x=${Math.min(x + slot / 2, width - 24)} y=${HEIGHT - 6} text-anchor="middle">
            ${name.format(Date.parse(day.name))}
          </text>`}
        </g>`;
      })}
    </svg>`}
  </div>`;
}

const COLUMNS = {
  cost: { word: "Cost", of: (row) => row.usage.cost ?? 0, text: (row) => money(row.usage.cost ?? 0) },
  tokens: {
    word: "Tokens",
    of: (row) => row.usage.total_tokens ?? 0,
    text: (row) => count(row.usage.total_tokens ?? 0),
  },
  input: { word: "In", of: (row) => row.usage.input_tokens ?? 0, text: (row) => count(row.usage.input_tokens ?? 0) },
  output: {
    word: "Out",
    of: (row) => row.usage.output_tokens ?? 0,
    text: (row) => count(row.usage.output_tokens ?? 0),
  },
  cached: {
    word: "From cache",
    of: (row) => row.usage.cache_read_tokens ?? 0,
    text: (row) => count(row.usage.cache_read_tokens ?? 0),
  },
  sessions: { word: "Sessions", of: (row) => row.sessions, text: (row) => count(row.sessions) },
};

/** Rows as CSV, with names that a spreadsheet does not take for formulas. */
export function csv(name, rows, priced) {
  const quoted = (text) => {
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const columns = Object.keys(COLUMNS).filter((key) => priced || key !== "cost");
  const heads = {
    cost: "cost",
    tokens: "total_tokens",
    input: "input_tokens",
    output: "output_tokens",
    cached: "cache_read_tokens",
    sessions: "sessions",
  };
  const head = [name, ...(name === "session" ? ["title"] : []), ...columns.map((key) => heads[key])].join(",");
  const body = rows.map((row) =>
    [
      quoted(row.name ?? ""),
      ...(name === "session" ? [quoted(row.title ?? "")] : []),
      ...columns.map((key) => COLUMNS[key].of(row)),
    ].join(","),
  );
  return [head, ...body, ""].join("\n");
}

/**
 * A table of usage: sortable by each column, with a bar of the measure beside each name.
 * @param {{ name: string, title: string, rows: object[], measure: string, priced: boolean, order: string,
 *   label: (row: object) => unknown, folded?: boolean }} props
 */
export function Table({ name, title, rows, measure, priced, order, label, folded = false }) {
  const [sort, setSort] = useState({ by: order, down: true });
  const [all, setAll] = useState(false);
  useEffect(() => setSort({ by: order, down: true }), [order]);
  const cached = rows.some((row) => row.usage.cache_read_tokens);
  const columns = Object.keys(COLUMNS).filter(
    (key) => (key !== "cost" || priced) && (key !== "cached" || cached) && (key !== "sessions" || name !== "session"),
  );
  const most = Math.max(...rows.map((row) => valueOf(row, measure)), 0) || 1;
  const of = (row) => (sort.by === "name" ? (row.title ?? row.name ?? "") : COLUMNS[sort.by].of(row));
  const sorted = [...rows].sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (sort.down ? -1 : 1));
  const limit = folded ? 7 : ROWS_SHOWN;
  const shown = all ? sorted : sorted.slice(0, limit);
  const head = (key, word) => html`<th key=${key} scope="col" class=${key === "name" ? "" : "num"}
    aria-sort=${sort.by === key ? (sort.down ? "descending" : "ascending") : undefined}>
    <button type="button" onClick=${() => setSort({ by: key, down: sort.by === key ? !sort.down : key !== "name" })}>
      ${word}<${Icon} name="fold" open=${sort.by !== key || sort.down} />
    </button>
  </th>`;
  return html`<div class="usage-table" tabindex="0" role="region" aria-label=${`${title}: numbers`}>
    <table>
      <thead>
        <tr>
          ${head("name", name[0].toUpperCase() + name.slice(1))}
          <td class="bar-cell"></td>
          ${columns.map((key) => head(key, COLUMNS[key].word))}
        </tr>
      </thead>
      <tbody>
        ${shown.map((row) => html`<tr key=${row.name ?? ""}>
          <th scope="row" class="clip">${label(row)}</th>
          <td class="bar-cell" aria-hidden="true">
            <span style=${{ width: `${(100 * valueOf(row, measure)) / most}%` }} />
          </td>
          ${columns.map((key) => html`<td key=${key} class=${`num${key === measure ? " strong" : ""}`}>
            ${COLUMNS[key].text(row)}
          </td>`)}
        </tr>`)}
      </tbody>
    </table>
    <div class="toolbar">
      ${rows.length > limit && html`<button class="button quiet" type="button" onClick=${() => setAll(!all)}>
        ${all ? `Show ${limit}` : `Show all ${count(rows.length)}`}
      </button>`}
      <${CopyButton} label="Copy as CSV" what=${`${counted(rows.length, "row")} as CSV`}
        text=${() => csv(name, sorted, priced)} />
    </div>
  </div>`;
}
