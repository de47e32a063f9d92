// What the model saw at an entry: the parts of the request against the window, and what became of every message.

import { html, useEffect, useState } from "../vendor/preact.js";
import { copy } from "../parts/copy.js";
import { useKeys } from "../parts/keys.js";
import { Empty, Failure, Skeleton, useLoad } from "../parts/notices.js";
import { count } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { SawList } from "../parts/saw-list.js";
import { SawParts } from "../parts/saw-parts.js";
import { SessionBar } from "../parts/session-bar.js";

/** The page `/s/ID/saw/ENTRY`; `?window=TOKENS` builds for another window than that of the session's model. */
export default function SawPage({ params, query, app }) {
  const { session, entry } = params;
  const window = query.get("window") ?? undefined;
  const ask = (at, signal, page = {}) => app.server.get(`sessions/${encodeURIComponent(session)}/context/report`, {
    query: { entry: at, window, ...page }, signal,
  });
  const loaded = useLoad((signal) => ask(entry, signal), [session, entry, window]);
  const report = loaded.value?.report;
  const before = report?.previous_call;
  const earlier = useLoad(
    async (signal) => (before ? (await ask(before, signal, { limit: 1 })).report : null),
    [session, before, window],
  );

  const go = (call) => {
    if (!call) return;
    const suffix = window ? `?window=${encodeURIComponent(window)}` : "";
    app.navigate(path.saw(session, call) + suffix);
  };
  useKeys([
    { keys: "[", label: "previous call of the model", run: () => go(report?.previous_call) },
    { keys: "]", label: "next call of the model", run: () => go(report?.next_call) },
    { keys: "t", label: "tree", run: () => app.navigate(`${path.tree(session)}?at=${encodeURIComponent(entry)}`) },
    { keys: "y", label: "copy the link to this page", run: () => copy(location.href, app, "link") },
    { keys: "Escape", label: "back to the entry in the session", run: () => app.navigate(path.entry(session, entry)) },
    { keys: "j", label: "next message", run: () => step(1) },
    { keys: "k", label: "message before", run: () => step(-1) },
  ], { scope: "What the model saw" });

  return html`<div class="page-saw">
    <${SessionBar} app=${app} session=${session} view="saw" entry=${entry} />
    ${loaded.error ? html`<${Refused} error=${loaded.error} reload=${loaded.reload} app=${app} window=${window} />`
      : report ? html`<${Report} app=${app} session=${session} page=${loaded.value} earlier=${earlier.value}
          window=${window} go=${go} stale=${loaded.loading}
          ask=${(start, limit) => ask(entry, undefined, { start, limit })} />`
        : html`<${Skeleton} rows=${10} height=${44} />`}
  </div>`;
}

/** A window that is too small for the least context is no failure of the page: another one can be given. */
function Refused({ error, reload, app, window }) {
  return html`<${Failure} error=${error} retry=${reload} />${error.error === "ContextOverflow"
    ? html`<${WindowField} app=${app} window=${window} known=${null} />` : null}`;
}

function Report({ app, session, page, earlier, window, go, stale, ask }) {
  const { report, counts } = page;
  const present = counts.sent + counts.masked;
  const all = present + counts.summarized + counts.cut + (report.hidden?.count ?? 0);
  if (!report.items.length && !report.hidden) {
    return html`<${Empty} title="The model saw nothing of this session here">No message had been written yet.<//>`;
  }
  return html`<section class="saw-head" aria-label="The request">
      <div class="saw-title">
        <h2>${report.is_answer ? "What the model saw before this answer" : "What the model would be sent here"}</h2>
        <p class="meta">
          <a href=${app.href(path.entry(session, report.entry_id))}>
            ${report.is_answer ? "The answer" : "The entry"} in the session
          </a>
          ${" · "}${count(present)} of ${count(all)} messages sent
          ${words(counts)}
          ${report.strategy === "full-history" ? "" : html`${" · "}<span class="mono">${report.strategy}</span>`}
        </p>
      </div>
      <div class="saw-steps" role="group" aria-label="Calls of the model">
        <button type="button" class="button" disabled=${!report.previous_call}
          onClick=${() => go(report.previous_call)}>
          ‹ previous call
        </button>
        <button type="button" class="button" disabled=${!report.next_call} onClick=${() => go(report.next_call)}>
          next call ›
        </button>
      </div>
    </section>
    <div class=${stale ? "saw-body is-stale" : "saw-body"}>
      <${SawParts} report=${report} earlier=${earlier} />
      <${WindowField} app=${app} window=${window} known=${report.window} />
      ${report.failures.length ? html`<details class="saw-failures"><summary>${count(report.failures.length)} ${
        report.failures.length === 1 ? "strategy was" : "strategies were"} tried before</summary>
        <ul>
          ${report.failures.map((each) => html`<li><span class="mono">${each.strategy}</span> ${each.reason}</li>`)}
        </ul>
        </details>
        ` : null}
      ${report.warnings.map((warning) => html`<p class="notice" dir="auto">${warning}</p>`)}
      <${SawList} key=${`${report.entry_id} ${report.window} ${page.cursor}`} app=${app} session=${session}
        report=${report} start=${page.start} ask=${ask} />
    </div>`;
}

const FATES = ["masked", "summarized", "cut"];

const words = (counts) =>
  FATES.filter((fate) => counts[fate])
    .map((fate) => `, ${count(counts[fate])} ${fate}`)
    .join("");

function WindowField({ app, window, known }) {
  const [value, setValue] = useState(window ?? (known ? String(known) : ""));
  useEffect(() => setValue(window ?? (known ? String(known) : "")), [window, known]);
  const submit = (event) => {
    event.preventDefault();
    app.setQuery({ window: /^[1-9]\d*$/.test(value) ? value : null }, { replace: true });
  };
  return html`<form class="saw-window meta" onSubmit=${submit}>
    <label>Window <input class="field num" inputmode="numeric" pattern="[1-9][0-9]*" value=${value}
      placeholder="unknown" onInput=${(event) => setValue(event.target.value)} /> tokens</label>
    <button type="submit" class="button">Build for it</button>
    ${window ? html`<button type="button" class="button"
      onClick=${() => app.setQuery({ window: null }, { replace: true })}>
      The model's own
    </button>` : null}
    <span class="soft">
      Built again from the log with the default strategies; a program with others may have sent something else.
    </span>
  </form>`;
}

/** Moves the focus among the messages. */
function step(by) {
  const rows = [...document.querySelectorAll(".saw-line")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]?.focus();
}
