// Every message of the path in the order of the request: what was sent, and in their places those that were not.

import { html, useState } from "../vendor/preact.js";
import { Content, EntryBody } from "./content.js";
import { Failure, Skeleton, useLoad } from "./notices.js";
import { count, entries, tokens } from "./numbers.js";
import { path } from "./paths.js";
import { beginning } from "./tree-words.js";

const FIRST = 40;
const MORE = 300;

const ROLES = {
  user: "you", assistant: "agent", tool: "result", system: "system", developer: "system", compactionSummary: "summary",
  branchSummary: "branch summary", bashExecution: "command", custom: "custom",
};

/**
 * @param {{app: object, session: string, report: object, start: number, ask: Function}} props
 *   `start`: which of all messages the report's first item is; `ask(start, limit)`: brings others
 */
export function SawList({ app, session, report, start, ask }) {
  const [first, setFirst] = useState([]);
  const [last, setLast] = useState(report.items);
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(null);
  const from = start - (last.length - report.items.length);
  const left = from - first.length;
  const more = async (at, count, take) => {
    setAsking(true);
    setError(null);
    try {
      take((await ask(at, count)).report.items);
    } catch (problem) {
      setError(problem);
    } finally {
      setAsking(false);
    }
  };
  const between = () => {
    const wanted = Math.min(MORE, left);
    return more(from - wanted, wanted, (items) => setLast([...items, ...last]));
  };
  const beginning = () => more(0, Math.min(FIRST, left), setFirst);
  const line = (item, place) => html`<${Item} key=${place} app=${app} session=${session} item=${item} />`;
  return html`<section class="saw-list" aria-label="Messages of the request">
    <h3>In the order of the request</h3>
    <ol>
      ${report.hidden ? html`<${Hidden} app=${app} session=${session} hidden=${report.hidden} />` : null}
      ${first.map(line)}
      ${left ? html`<li class="saw-more">
        ${first.length ? null : html`<button type="button" class="button" disabled=${asking} onClick=${beginning}>
          Show the first ${count(Math.min(FIRST, left))}
        </button>`}
        <button type="button" class="button" disabled=${asking} onClick=${between}>
          Show ${count(Math.min(MORE, left))} of the ${count(left)} messages ${first.length ? "between" : "before"}
        </button>
        ${error ? html`<${Failure} error=${error} retry=${between} />` : null}
      </li>` : null}
      ${last.map((item, place) => line(item, from + place))}
    </ol>
  </section>`;
}

function Item({ app, session, item }) {
  const [open, setOpen] = useState(false);
  const absent = item.fate === "summarized" || item.fate === "cut";
  const role = ROLES[item.role] ?? item.role;
  const size = absent ? count(item.original_tokens)
    : item.fate === "masked" ? `${count(item.tokens)} of ${count(item.original_tokens)}` : count(item.tokens);
  return html`<li class=${`saw-item is-${item.fate} is-${item.part}`}>
    <button type="button" class="saw-line" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
      <span class=${`saw-swatch is-${item.part}`}></span>
      <span class="saw-role">${role}</span>
      <span class="saw-text" dir="auto">${beginning(item.text) || html`<span class="soft">nothing</span>`}</span>
      ${item.reason ? html`<span class="saw-reason">${item.reason}</span>` : null}
      ${item.fate === "sent" && item.entry_id ? null : html`<span class="saw-fate">
        ${item.entry_id ? item.fate : "made"}
      </span>`}
      <span class="saw-tokens num" title=${absent ? "tokens in the log, none sent" : "tokens sent"}>
        ${absent ? html`<s>${size}</s>` : size}
      </span>
    </button>
    ${open ? html`<${Opened} app=${app} session=${session} item=${item} />` : null}
  </li>`;
}

function Opened({ app, session, item }) {
  const both = item.content !== null && item.entry_id && item.fate !== "sent";
  return html`<div class="saw-opened">
    ${item.content === null ? null : html`
      ${both ? html`<h4>As it was sent</h4>` : null}<${Content} parts=${item.content} app=${app} />
    `}
    ${both ? html`<h4>As it stands in the log</h4>` : null}
    ${item.entry_id && (item.content === null || both) ? html`
      <${Entry} app=${app} session=${session} id=${item.entry_id} />
    ` : null}
    ${item.entry_id ? html`<p class="meta">
      <a href=${app.href(path.entry(session, item.entry_id))}>In the session</a>
    </p>` : null}
  </div>`;
}

function Entry({ app, session, id }) {
  const loaded = useLoad(
    (signal) => app.server.get(`sessions/${encodeURIComponent(session)}/entries/${encodeURIComponent(id)}`, { signal }),
    [session, id],
  );
  if (loaded.error) return html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`;
  return loaded.value ? html`
    <${EntryBody} entry=${loaded.value} app=${app} />
  ` : html`<${Skeleton} rows=${2} height=${24} />`;
}

const SAID = new Set(["message", "custom_message", "branch_summary"]);

/** How an item of the outline begins: a message that only calls tools says which. */
function wordsOf(item) {
  const calls = (item.tools ?? []).map((tool) => `${tool.name} ${tool.argument ?? ""}`);
  return calls.length && item.text.startsWith("calls ") ? calls.join(", ") : item.text;
}

/** What a compaction hides: hatched, with its entries a page at a time. */
function Hidden({ app, session, hidden }) {
  const [pages, setPages] = useState([]);
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(null);
  const before = pages[0]?.before;
  const ask = async () => {
    setAsking(true);
    setError(null);
    try {
      const page = await app.server.get(`sessions/${encodeURIComponent(session)}/outline`, {
        query: { leaf: hidden.last_id, before: before ?? undefined, limit: 100 },
      });
      setPages([page, ...pages]);
    } catch (problem) {
      setError(problem);
    } finally {
      setAsking(false);
    }
  };
  const open = pages.length > 0;
  const said = pages.flatMap((page) => page.items).filter((item) => SAID.has(item.type));
  return html`<li class=${`saw-item saw-hidden is-${hidden.fate}`}>
    <button type="button" class="saw-line" aria-expanded=${String(open)} disabled=${asking}
      onClick=${() => (open ? setPages([]) : ask())}>
      <span class="saw-swatch is-summary"></span>
      <span class="saw-role">${entries(hidden.count)}</span>
      <span class="saw-text">${hidden.reason}</span>
      <span class="saw-fate">${hidden.fate}</span>
      <span class="saw-tokens num">
        ${hidden.tokens ? html`<s title=${`${count(hidden.tokens)} tokens before the compaction`}>
          ${tokens(hidden.tokens)}
        </s>` : ""}
      </span>
    </button>
    ${error ? html`<${Failure} error=${error} retry=${ask} />` : null}
    ${open ? html`<div class="saw-opened">
      ${before ? html`<p>
        <button type="button" class="button quiet" disabled=${asking} onClick=${ask}>Show earlier ones</button>
      </p>` : null}
      <ol>
        ${said.map((item) => html`<li class="saw-past" key=${item.seq}>
          <a href=${app.href(path.entry(session, item.id))}>
            <span class="saw-role">${ROLES[item.role] ?? item.role ?? item.type}</span>
            <span class="saw-text" dir="auto">${beginning(wordsOf(item))}</span>
          </a>
        </li>`)}
      </ol>
    </div>` : null}
  </li>`;
}
