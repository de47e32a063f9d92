/** The rows of agents, as Live draws them: state, name, what it does, tokens, cost, age. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { count, counted, money, tokens } from "./numbers.js";
import { path } from "./paths.js";
import { StateChip } from "./state.js";
import { Elapsed, Time } from "./time.js";

/** What a person calls a session: its title, its key, or its id. */
export function nameOf(row) {
  return row.title || row.key || row.id;
}

/** The program that keeps a session, and the folder that it is about, on a server that shows those of programs. */
export function Origin({ row }) {
  if (!row.program) return null;
  const folder = row.project?.split("/").filter(Boolean).at(-1);
  return html`<span class="origin" title=${row.project ?? undefined}>
    <span>${row.program}</span>${folder && html` <bdi class="clip">${folder}</bdi>`}
  </span>`;
}

/** Where a row leads: to the entry that failed, or to the session. */
export function agentAddress(row) {
  const failed = row.state?.state === "error" ? row.state.error_entry : null;
  return failed ? path.entry(row.id, failed) : path.session(row.id);
}

/** What an agent does now, in one line: the tool that runs, what failed, or what was said last. */
export function Doing({ row }) {
  const state = row.state;
  if (!state) return html`<span class="doing is-bad clip"><bdi>${row.problem ?? "cannot be read"}</bdi></span>`;
  const { tool } = state;
  if (state.state === "error") {
    return html`<span class="doing is-bad clip">
      ${tool && html`<b class="mono">${tool.name}</b> `}<bdi>${state.error}</bdi>
      ${state.line && state.line !== state.error && html` <bdi class="soft">${state.line}</bdi>`}
    </span>`;
  }
  if (tool && (state.state === "working" || state.state === "waits")) {
    return html`<span class="doing clip">
      <b class="mono">${tool.name}</b> <bdi class="mono">${tool.argument}</bdi>
      ${state.open > 1 && html`<span class="soft"> and ${state.open - 1} more</span>`}
    </span>`;
  }
  return html`<span class="doing clip"><bdi>${state.line || row.first_message}</bdi></span>`;
}

/** One agent. */
export function AgentRow({ line, app }) {
  const { row, level, children, failed } = line;
  const { state } = row;
  const working = state?.live && state.state === "working";
  return html`<a class=${`agent level-${level}`} href=${app.href(agentAddress(row))}>
    ${state ? html`
      <${StateChip} state=${state.state} live=${state.live} />
    ` : html`<span class="state is-error"><${Icon} name="error" />unreadable</span>`}
    <span class="agent-name">
      <bdi class="clip strong">${nameOf(row)}</bdi>
      ${children > 0 && html`<span class=${`family${failed ? " is-bad" : ""}`}>
        ${failed ? `${count(failed)} of ${count(children)} failed` : counted(children, "sub-agent")}
      </span>`}
      <${Origin} row=${row} />
    </span>
    <${Doing} row=${row} />
    <span class="num tokens">
      ${state?.tokens && html`
        ${tokens(state.tokens)}
        ${state.window && html`<span class="soft"> / ${tokens(state.window)}</span>`}
        <span class="unit"> tokens</span>
      `}
    </span>
    <span class="num cost soft">${money(state?.cost)}</span>
    <span class="num age soft">
      ${working ? html`
        <${Elapsed} since=${state.since} />
      ` : html`<${Time} at=${state?.since ?? row.last_entry} relative />`}
    </span>
  </a>`;
}

/** The line that stands for sub-agents that are folded. */
export function FoldRow({ line, turn }) {
  return html`<button class="fold-row" type="button" aria-expanded=${line.open} onClick=${() => turn(line.head)}>
    <${Icon} name="fold" open=${line.open} />
    ${line.open ? `Fold ${counted(line.rest, "sub-agent")}` : `${count(line.rest)} more: ${line.words}`}
  </button>`;
}
