// One of two branches: its figures, and its entries by turn.

import { html, useState } from "../vendor/preact.js";
import { EntryBody } from "./content.js";
import { Failure } from "./notices.js";
import { count, money, tokens } from "./numbers.js";
import { path } from "./paths.js";
import { visible } from "./signs.js";
import { Time, duration } from "./time.js";
import { entryWord } from "./tree-canvas.js";

const PAGE = 300;
const TURNS_SHOWN = 30;

/**
 * Reads the entries after the common one on the path to an entry, a page of them.
 * @returns {Promise<{tip: number, total: number, entries: object[], more: () => Promise<object[]>|null}>}
 */
export async function loadSide(server, at, model, common, tip, signal) {
  const line = model.pathTo(tip);
  const side = { tip, total: line.length - (common ? line.indexOf(common) + 1 : 0), entries: [], next: null };
  const leaf = model.node(tip).id;
  const read = async (after) => {
    const query = { leaf, after, bodies: true, limit: PAGE };
    const page = await server.get(`${at}/path`, { query, signal: side.entries.length ? undefined : signal });
    side.entries.push(...page.entries);
    side.next = page.next;
  };
  side.more = () => read(side.next);
  if (side.total) await read(model.node(common)?.id);
  return side;
}

const DRAWN = new Set(["message", "custom_message", "compaction", "branch_summary"]);
const NAMED = { label: (said) => said.label ?? "removed", model_change: (said) => `${said.provider}/${said.model_id}`,
  thinking_level: (said) => said.thinking_level };

const isPrompt = (entry) => entry.type === "message" && entry.message.role === "user";

/** The entries of a side by turn: each begins with what the user said; turn 0 is the rest of a turn that both share. */
function turnsOf(entries) {
  const turns = [];
  for (const entry of entries) {
    if (!turns.length || isPrompt(entry))
      turns.push({ number: turns.length ? turns.at(-1).number + 1 : Number(isPrompt(entry)), entries: [] });
    turns.at(-1).entries.push(entry);
  }
  return turns;
}

/** @returns {{duration: number, tokens: number, cost: number, errors: number}} of the entries that were read */
export function figuresOf(entries) {
  const times = entries.map((entry) => Date.parse(entry.timestamp));
  const figures = { duration: times.length ? times.at(-1) - times[0] : 0, tokens: 0, cost: 0, errors: 0 };
  for (const { message } of entries.filter((entry) => entry.type === "message")) {
    const usage = message.usage ?? {};
    figures.tokens += usage.total_tokens || (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    figures.cost += usage.cost ?? 0;
    const parts = Array.isArray(message.content) ? message.content : [];
    figures.errors +=
      parts.filter((part) => part.type === "tool_result" && part.tool_result.is_error).length + (message.error ? 1 : 0);
  }
  return figures;
}

/** @param {object} props side: what `loadSide` returned · box: a ref to what scrolls · other: the other side */
export function CompareSide({ app, session, model, side, name, box, hidden, onLead, onScroll, other }) {
  const [shown, setShown] = useState(TURNS_SHOWN);
  const [, setRead] = useState(0);
  const [error, setError] = useState(null);
  const turns = turnsOf(side.entries);
  const figures = figuresOf(side.entries);
  const hasCost = figures.cost > 0 || figuresOf(other.entries).cost > 0;
  const node = model.node(side.tip);
  const label = model.labelOf(side.tip);
  const more = async () => {
    setError(null);
    try {
      if (shown >= turns.length && side.next) await side.more();
      setRead(side.entries.length);
      setShown(shown + TURNS_SHOWN);
    } catch (problem) {
      setError(problem);
    }
  };
  const left = side.total - turns.slice(0, shown).reduce((sum, turn) => sum + turn.entries.length, 0);
  const fact = (term, value, extra = "") => html`
    <div class=${extra}><dt>${term}</dt><dd class="num">${value}</dd></div>
  `;
  return html`<section class="compare-side" id=${`side-${name}`} aria-label=${`Branch ${name}`} hidden=${hidden}>
    <header class="compare-head">
      <h2>${name} ${side.tip === model.leaf ? html`<span class="tree-leaf">live leaf</span>` : null}
        ${label ? html`<span class="pill" dir="auto">${visible(label)}</span>` : null}
        ${side.next ? html`<span class="meta">figures of its first ${count(side.entries.length)} entries</span>` : null}
        <a class="compare-open" href=${app.href(path.entry(session, node.id))}>open at its end</a></h2>
      <dl>
        ${fact("entries", count(side.total))}
        ${fact("duration", side.entries.length ? duration(figures.duration) : "none")}
      
        ${fact("tokens", figures.tokens ? tokens(figures.tokens) : "not counted")}
        ${hasCost ? fact("cost", figures.cost ? money(figures.cost) : "not counted") : null}
        ${fact("errors", count(figures.errors), figures.errors ? "is-bad" : "")}</dl>
    </header>
    <div class="compare-scroll" ref=${box} tabindex="0" aria-label=${`Entries of branch ${name}`} role="group"
        onPointerEnter=${onLead} onFocusIn=${onLead} onWheel=${onLead} onTouchStart=${onLead} onKeyDown=${onLead}
        onScroll=${onScroll}>
      ${turns.slice(0, shown).map((turn) => html`
        <${Turn} key=${turn.number} app=${app} session=${session} turn=${turn} />
      `)}
      ${turns.length > shown || side.next ? html`<p>
        <button type="button" class="button" onClick=${more}>Show more, ${count(left)} entries are left</button>
      </p>` : null}
      ${error ? html`<${Failure} error=${error} retry=${more} />` : null}
      ${turns.length ? null : html`<p class="soft">Nothing after the entry that both have.</p>`}
    </div>
  </section>`;
}

function Turn({ app, session, turn }) {
  const title = turn.number ? `Turn ${turn.number}` : "The rest of the turn";
  return html`<article class="compare-turn" data-turn=${turn.number} aria-label=${title}>
    <h3 class="caps">${title}</h3>
    ${turn.entries.map((entry) => html`<${Said} key=${entry.seq} app=${app} session=${session} entry=${entry} />`)}
  </article>`;
}

function Said({ app, session, entry }) {
  const word = entryWord({ role: entry.message?.role, type: entry.type });
  const link = app.href(path.entry(session, entry.id));
  const when = html`<a href=${link}><${Time} at=${entry.timestamp} app=${app} /></a>`;
  if (!DRAWN.has(entry.type)) {
    const named = NAMED[entry.type];
    if (!named) return null;
    return html`<p class="compare-who meta">${word} <bdi>${visible(named(entry[entry.type]))}</bdi>${when}</p>`;
  }
  return html`<div class=${`compare-entry is-${entry.message?.role ?? entry.type}`}>
    ${entry.message?.role === "tool" ? null : html`<p class="compare-who meta"><b>${word}</b>${when}</p>`}
    <${EntryBody} entry=${entry} app=${app} compact />
  </div>`;
}
