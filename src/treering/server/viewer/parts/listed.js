/** The rows of Sessions: a session, an entry that was found, a caption, a place whose row has not come yet. */

import { html } from "../vendor/preact.js";
import { Doing, Origin, agentAddress, nameOf } from "./agents.js";
import { Icon } from "./icons.js";
import { count, money, tokens } from "./numbers.js";
import { path } from "./paths.js";
import { isUnseen } from "./seen.js";
import { StateChip } from "./state.js";
import { Time } from "./time.js";

const BEFORE = 24;
const BEFORE_MAX = 36;
const ROLES = {
  user: "You",
  assistant: "Agent",
  tool: "Tool",
  system: "System",
  session_info: "Title",
  label: "Label",
};

/** One session. */
export function ListedRow({ row, app }) {
  const { state } = row;
  const unseen = isUnseen(row);
  return html`<a class=${`listed${unseen ? " is-unseen" : ""}`} href=${app.href(agentAddress(row))}>
    ${state ? html`
      <${StateChip} state=${state.state} live=${state.live} />
    ` : html`<span class="state is-error"><${Icon} name="error" />unreadable</span>`}
    <span class="name">
      ${unseen && html`<span class="unseen"><span class="sr">new entries</span></span>`}
      <bdi class="clip">${nameOf(row)}</bdi>
      ${row.key && row.title && html`<bdi class="key clip">${row.key}</bdi>`}
      <${Origin} row=${row} />
    </span>
    <${Doing} row=${row} />
    <span class="num entries soft">${row.partial ? "" : count(row.message_count)}</span>
    <span class="num tokens">
      ${!row.partial && row.usage?.total_tokens
        && html`${tokens(row.usage.total_tokens)}<span class="unit"> tokens</span>`}
    </span>
    <span class="num cost soft">${money((!row.partial && row.usage?.cost) || null)}</span>
    <span class="num time soft"><${Time} at=${row.last_entry} /></span>
  </a>`;
}

/** The beginning of a word at or after a place. */
function nearWord(characters, from) {
  const space = characters.indexOf(" ", from);
  return space === -1 || space - from > BEFORE ? from : space + 1;
}

/** An entry that holds the words, with the words marked. */
export function HitRow({ hit, app }) {
  const characters = Array.from(hit.snippet);
  // a narrow row shows its beginning alone, so the first word that was found stands near it
  const first = hit.ranges[0]?.[0] ?? 0;
  let at = first > BEFORE_MAX ? nearWord(characters, first - BEFORE) : 0;
  const parts = at > 0 ? ["…"] : [];
  for (const [from, to] of hit.ranges) {
    if (to <= at) continue;
    if (from > at) parts.push(characters.slice(at, from).join(""));
    parts.push(html`<mark>${characters.slice(from, to).join("")}</mark>`);
    at = to;
  }
  parts.push(characters.slice(at).join(""));
  return html`<a class="hit" href=${app.href(path.entry(hit.session_id, hit.entry_id))}>
    <span class="who">
      <bdi class="clip strong">
        ${nameOf(app.directory.rows.get(hit.session_id) ?? { id: hit.name || hit.session_id })}
      </bdi>
      <span class="role">${ROLES[hit.role] ?? hit.role}</span>
    </span>
    <span class="doing clip"><bdi>${parts}</bdi></span>
    <span class="num time soft"><${Time} at=${hit.timestamp} /></span>
  </a>`;
}

/** The names of the columns; the first is that of the rows themselves, if they are some among others. */
export function Labels({ children = "State", caption = false }) {
  return html`<div class=${`listed listed-labels${caption ? " list-caption" : ""}`} aria-hidden=${String(!caption)}>
    <span class=${caption ? "caps" : ""}>${children}</span>
    <span aria-hidden="true">Session</span>
    <span aria-hidden="true">Last line</span>
    <span class="num entries" aria-hidden="true">Messages</span>
    <span class="num" aria-hidden="true">Tokens</span>
    <span class="num" aria-hidden="true">Cost</span>
    <span class="num" aria-hidden="true">Last change</span>
  </div>`;
}

/** A heading between rows. */
export function Caption({ children }) {
  return html`<p class="list-caption caps">${children}</p>`;
}

/** A place whose row is on its way. */
export function Waiting() {
  return html`<div class="listed" aria-busy="true"><span class="soft">…</span></div>`;
}
