// The parts of a request against the window: one stacked bar, and the same numbers as a table that adds up.

import { html } from "../vendor/preact.js";
import { count } from "./numbers.js";

const PARTS = [
  ["system", "System", "system prompt and system messages"],
  ["tools", "Tools", "definitions of the tools"],
  ["summary", "Summary", "summaries that stand for what is left out"],
  ["messages", "Messages", "of the user and the model, with its calls"],
  ["results", "Results", "of tools"],
  ["framing", "Framing", "what the tokenizer counts beside the messages"],
  ["reserve", "Answer", "kept free for the answer"],
  ["free", "Free", "left of the window"],
];
const ALWAYS = new Set(["system", "tools", "summary", "messages", "results", "free"]);

/** @param {{report: object, earlier: object|null}} props earlier: the report of the model's call before this one */
export function SawParts({ report, earlier }) {
  const { parts, window } = report;
  const shown = PARTS.filter(([name]) => parts[name] !== null && (ALWAYS.has(name) || parts[name]));
  const total = shown.reduce((sum, [name]) => sum + Math.max(0, parts[name]), 0) || 1;
  const sum = (of) => shown.reduce((whole, [name]) => whole + (of.parts[name] ?? 0), 0);
  const share = (tokens) => `${((100 * tokens) / total).toFixed(tokens && tokens * 1000 < total * 10 ? 1 : 0)} %`;
  const used = usedOf(report);
  const spoken = shown.map(([name, title]) => `${title} ${count(parts[name])}`).join(", ");
  return html`<section class="saw-sum" aria-label="Tokens by part">
    <p class="saw-total">
      <b class="num">${count(used)}</b> tokens sent <span class="soft">(estimated)</span>
      ${window ? html` of a window of <b class="num">${count(window)}</b>` : ", window unknown"}
      ${measured(report.usage, used)}
    </p>
    ${parts.excess ? html`<p class="notice">
      The request and the reserve exceed the window by ${count(parts.excess)} tokens.
    </p>` : null}
    <div class="saw-bar" role="img" aria-label=${`Tokens: ${spoken}`}>
      ${shown.filter(([name]) => parts[name] > 0).map(([name, title]) => html`<span class=${`saw-part is-${name}`}
        style=${{ flexGrow: parts[name] }} title=${`${title}: ${count(parts[name])} tokens`}>
        ${parts[name] > total * 0.08 ? html`<span>${title}</span>` : null}</span>`)}
    </div>
    <table class="saw-table">
      <thead><tr><th scope="col">Part</th><th scope="col" class="num">Tokens</th>
        <th scope="col" class="num">${window ? "Of the window" : "Of the request"}</th>
        ${earlier ? html`<th scope="col" class="num">Since the call before</th>` : null}</tr></thead>
      <tbody>${shown.map(([name, title, meaning]) => html`<tr>
        <th scope="row"><span class=${`saw-swatch is-${name}`}></span>${title} <span class="soft">${meaning}</span></th>
        <td class="num">${kept(report, name) ? count(parts[name]) : html`<span class="soft">not in the log</span>`}</td>
        <td class="num">${kept(report, name) ? share(parts[name]) : ""}</td>
        ${earlier ? html`
          <td class="num">${kept(report, name) ? change(parts[name], earlier.parts[name]) : ""}</td>
        ` : null}
        </tr>
        `)}
        </tbody>
      <tfoot>
        <tr>
          <th scope="row">${window ? "The window" : "The request"}</th>
          <td class="num">${count(sum(report) - parts.excess)}</td>
          <td class="num">100 %</td>
          ${earlier ? html`<td class="num">
            ${change(used, usedOf(earlier))} ${window ? html`<span class="soft">sent</span>` : null}
          </td>` : null}
        </tr>
      </tfoot>
    </table>
  </section>`;
}

/** The page asks for no system prompt beside the session's own messages, which are among the tokens. */
const usedOf = (report) => report.tokens + report.parts.tools;

/** A session keeps neither the system prompt nor the tools, unless its program wrote them into it. */
const kept = (report, name) => report.parts[name] > 0 || (name !== "tools" && name !== "system");

function change(now, before) {
  if (before === null || before === undefined || now === null) return "";
  const by = now - before;
  return by === 0 ? "0" : `${by > 0 ? "+" : "−"}${count(Math.abs(by))}`;
}

/** What the provider counted, which is the truth about the tokens. */
function measured(usage, used) {
  if (!usage) return null;
  const read = usage.cache_read_tokens ?? 0;
  const sent = (usage.input_tokens ?? 0) + read + (usage.cache_write_tokens ?? 0);
  if (!sent) return null;
  const more = "more than the log has, for the system prompt, the tools, and what the estimate misses";
  return html`<span>${" · "}the provider counted <b class="num">${count(sent)}</b>
    ${read ? html`, <span class="num">${count(read)}</span> of them cached` : null}
    ${sent > used ? html`: <span class="num">${count(sent - used)}</span> ${more}` : null}
  </span>`;
}
