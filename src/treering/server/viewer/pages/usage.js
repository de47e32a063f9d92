/** Usage: what the sessions of a filter cost, by day, model, project and session, as a chart and as numbers. */

import { useTitle } from "../parts/app.js";
import { DayChart, Table, useUsage } from "../parts/charts.js";
import { FILTERS, FilterChips, filterOf, folderName } from "../parts/filter.js";
import { Empty, Failure, Skeleton } from "../parts/notices.js";
import { count, counted, money, tokens } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { zone } from "../parts/time.js";
import { html, useMemo } from "../vendor/preact.js";

/** The page. */
export default function UsagePage({ query, app }) {
  useTitle("Usage");
  const filter = useMemo(() => ({ ...filterOf(query, app.now()), groups: undefined }), [query.toString()]);
  const measure = query.get("measure") === "tokens" ? "tokens" : "cost";
  const days = useUsage(app, "day", filter);
  const models = useUsage(app, "model", filter);
  const projects = useUsage(app, "project", filter);
  const sessions = useUsage(app, "session", filter);
  const sums = days.value;
  const shown = sums && !sums.priced ? "tokens" : measure;
  const clear = () => app.setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])));
  const filtered = FILTERS.some((name) => query.get(name));
  const same = (more) => app.href(path.sessions({ ...Object.fromEntries(query), measure: null, ...more }));

  return html`<div class="page-usage">
    <div class="usage-head">
      <h1>Usage</h1>
      <div class="chips"><${FilterChips} app=${app} query=${query} /></div>
    </div>
    ${days.error && html`<${Failure} error=${days.error} retry=${days.reload} />`}
    ${!sums && !days.error && html`<${Skeleton} rows=${6} />`}
    ${sums?.partial > 0 && html`<p class="notice">
      ${counted(sums.partial, "session")} of other programs ${sums.partial === 1 ? "is" : "are"} not added up: what one
      cost is known once it is opened.
    </p>`}
    ${sums && !sums.counted && html`<${Nothing} filtered=${filtered} clear=${clear} />`}
    ${sums?.counted && html`
      <dl class="sums">
        ${sums.priced && html`<div><dt>Cost</dt><dd>${money(sums.total.cost)}</dd></div>`}
        <div><dt>Tokens</dt><dd title=${count(sums.total.total_tokens)}>${tokens(sums.total.total_tokens)}</dd></div>
        <div><dt>Tokens in</dt><dd>${tokens(sums.total.input_tokens ?? 0)}</dd></div>
        <div><dt>Tokens out</dt><dd>${tokens(sums.total.output_tokens ?? 0)}</dd></div>
        <div><dt>Sessions</dt><dd><a href=${same({})}>${count(sums.sessions)}</a></dd></div>
      </dl>
      ${sums.left_out > 0 && html`<p class="notice">
        Added up are the ${counted(sums.sessions, "session")} with the latest entries;${" "}
        ${counted(sums.left_out, "older one is", "older ones are")} not. A shorter time or one project shows all of it.
      </p>`}
      ${sums.unreadable > 0 && html`<p class="notice">
        ${counted(sums.unreadable, "session")} cannot be read, and ${sums.unreadable === 1 ? "is" : "are"} not added up.
      </p>`}
      <section aria-labelledby="by-day">
        <div class="section-head">
          <h2 id="by-day">By day</h2><span class="meta">days in ${zone()}</span>
          ${sums.priced && html`<div class="chips measure" role="group" aria-label="Measure">
            ${[["cost", "Cost"], ["tokens", "Tokens"]].map(([name, word]) => html`<button key=${name} type="button"
              class="chip" aria-pressed=${shown === name}
              onClick=${() => app.setQuery({ measure: name === "cost" ? null : name })}>
              ${word}
            </button>`)}
          </div>`}
        </div>
        <${DayChart} rows=${sums.rows} measure=${shown} />
        <${Table} name="day" title="Days" rows=${sums.rows} measure=${shown} priced=${sums.priced} order="name"
          descending label=${(row) => row.name} folded />
      </section>
      ${[
        [models, "model", "By model", (row) => row.name ?? "not named"],
        [projects, "project", "By project", (row) => (row.name ? html`<a href=${same({ project: row.name })}
          title=${row.name}>
          <bdi>${folderName(row.name)}</bdi>
        </a>` : "none")],
        [sessions, "session", "By session", (row) => html`<a href=${app.href(path.session(row.name))}>
          <bdi>${row.title || row.name}</bdi>
        </a>`],
      ].map(
        ([sum, name, title, label]) => html`<section key=${name} aria-labelledby=${`by-${name}`}>
          <div class="section-head"><h2 id=${`by-${name}`}>${title}</h2></div>
          ${sum.error && html`<${Failure} error=${sum.error} retry=${sum.reload} />`}
          ${sum.value && html`
            <${Table} name=${name} title=${title} rows=${sum.value.rows} measure=${shown} priced=${sums.priced}
              order=${shown} descending label=${label} />
          `}
        </section>`,
      )}
    `}
  </div>`;
}

function Nothing({ filtered, clear }) {
  if (filtered) return html`
    <${Empty} title="No usage matches"
      action=${html`<button class="button" type="button" onClick=${clear}>Show all usage</button>`} />
  `;
  return html`<${Empty} title="Nothing was counted yet" command="treering demo --serve">
    Usage is what a model's provider reports with an answer. To see some:
  <//>`;
}
