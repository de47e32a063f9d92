/** Live: which agents need somebody, and what the others do. Errors first; the counts are the filters. */

import { useTitle } from "../parts/app.js";
import { AgentRow, FoldRow, agentAddress } from "../parts/agents.js";
import { useDirectory, useHeld } from "../parts/directory.js";
import { GroupChips } from "../parts/filter.js";
import { useKeys } from "../parts/keys.js";
import { Empty, Failure, Skeleton, useLoad } from "../parts/notices.js";
import { arrange, family, groupOf, lines } from "../parts/roster.js";
import { VirtualList, useRowHeight } from "../parts/virtual.js";
import { count } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

const AWAKE = ["error", "waits", "working", "idle"];
const LISTED_MAX = 5000;
const PAGE = 1000;
const ASLEEP_MS = 15_000;

async function load(app, groups, signal) {
  const rows = [];
  let first = null;
  for (let start = 0; start < LISTED_MAX; start += PAGE) {
    const page = await app.server.get("sessions", {
      query: { with: "state", order: "attention", groups, start, limit: PAGE, count: start === 0 },
      signal,
    });
    first ??= page;
    rows.push(...page.items);
    if (rows.length >= first.total || page.items.length === 0) break;
  }
  return { rows, total: first.total, counts: first.counts };
}

/** The page. */
export default function Live({ query, app }) {
  useTitle("Live");
  const { directory } = app;
  const version = useDirectory(directory);
  const chosen = query.get("state")?.split(",").filter(Boolean) ?? [];
  const asked = chosen.includes("asleep") ? [...AWAKE, "asleep"] : AWAKE;
  const { value, error, reload } = useLoad(
    async (signal) => {
      const page = await load(app, asked, signal);
      directory.put(page.rows);
      return page;
    },
    [asked.join(), directory.epoch],
  );
  const asleep = useAsleep(app);
  const box = useRef(null);
  const list = useRef(null);
  const held = useHeld(box);
  const [unfolded, setUnfolded] = useState(() => app.memory.get("unfolded") ?? new Set());
  const [active, setActive] = useState(-1);
  const [order, setOrder] = useState([]);
  const rowHeight = useRowHeight();

  const { rows, counts } = useMemo(() => {
    if (!value) return { rows: [], counts: null };
    const known = family(directory.rows, value.rows, asked);
    // what sleeps is counted by the server; what is awake, as it changes here
    const now = { error: 0, waits: 0, working: 0, idle: 0, asleep: asleep ?? value.counts.asleep };
    for (const row of known) if (groupOf(row) !== "asleep") now[groupOf(row)] += 1;
    return { rows: known, counts: now };
  }, [value, version, asleep, asked.join()]);

  const shown = chosen.length ? rows.filter((row) => chosen.includes(groupOf(row))) : rows;
  const wanted = useMemo(() => arrange(shown), [shown, chosen.join()]);
  const places = new Map(wanted.map((each, place) => [each.row.id, place]));
  const keeps = held && order.length > 0;
  const kept = keeps ? keepOrder(wanted, order) : wanted;
  const moved = keeps && kept.some((each, place) => places.get(each.row.id) !== place);
  useEffect(() => {
    if (!keeps) setOrder(wanted.map((each) => each.row.id));
  });
  const drawn = lines(kept, unfolded);
  useEffect(() => counts && app.need(counts.error + counts.waits), [counts?.error, counts?.waits]);

  const choose = (groups) => app.setQuery({ state: groups.join(",") || null }, { replace: true });
  const turn = (id) => {
    const next = new Set(unfolded);
    if (!next.delete(id)) next.add(id);
    app.memory.set("unfolded", next);
    setUnfolded(next);
  };
  const next = () => {
    const from = active + 1;
    const needs = (each) => each.row && ["error", "waits"].includes(groupOf(each.row));
    const found = [...drawn.keys()].map((step) => (from + step) % drawn.length).find((place) => needs(drawn[place]));
    if (found !== undefined) list.current.focus(found);
  };
  useKeys(
    [
      {
        keys: ["j", "k"],
        label: "next, previous agent",
        run: (event) => list.current?.focus(Math.max(0, active + (event.key === "j" ? 1 : -1))),
      },
      { keys: "n", label: "next that needs somebody", run: next },
      { keys: "o", label: "open", run: () => drawn[active]?.row && app.navigate(agentAddress(drawn[active].row)) },
    ],
    { scope: "Live" },
  );

  const sort = () => {
    setOrder(wanted.map((each) => each.row.id));
    app.say("sorted");
  };
  return html`<div class=${`fills page-live${app.showsPrograms ? " shows-programs" : ""}`} ref=${box}>
    <div class="list-head">
      <h1 class="sr">Live agents</h1>
      ${counts && html`<${GroupChips} counts=${counts} chosen=${chosen} onChoose=${choose} />`}
      ${moved && html`<button class="button sort-now" type="button" onClick=${sort}>Order changed: sort now</button>`}
    </div>
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${!value && !error && html`<${Skeleton} rows=${12} />`}
    ${value && drawn.length === 0 && html`<${Nothing} counts=${counts} chosen=${chosen} choose=${choose} app=${app} />`}
    ${drawn.length > 0 && html`
      <div class="agent agent-labels" aria-hidden="true">
        <span>State</span>
        <span>Agent</span>
        <span>Doing</span>
        <span class="num">Tokens in context</span>
        <span class="num cost">Cost</span>
        <span class="num">Age</span>
      </div>
      <${VirtualList} label="Agents" count=${drawn.length} rowHeight=${rowHeight} active=${active}
        onActive=${setActive} memory="live" listRef=${list} keyOf=${(index) => drawn[index].key}
        itemProps=${(index) => ({ "aria-level": drawn[index].level, class: classOf(drawn[index]) })}
        row=${(index) => html`<${drawn[index].row ? AgentRow : FoldRow} line=${drawn[index]} app=${app}
          turn=${turn} />`} />`}
    ${value && value.total > value.rows.length && html`<p class="list-foot meta">
      The first ${count(value.rows.length)} of ${count(value.total)}.${" "}
      <a href=${app.href(path.sessions())}>All sessions</a>
    </p>`}
  </div>`;
}

const classOf = ({ row }) => (row ? `is-${groupOf(row)}` : "is-fold");

/** How many sessions are asleep, asked now and then: those that fall asleep write nothing, so no stream tells. */
function useAsleep(app) {
  const [asleep, setAsleep] = useState(null);
  useEffect(() => {
    const ask = async () => {
      if (document.hidden || app.connection !== "live") return;
      try {
        const page = await app.server.get("sessions", { query: { count: true, limit: 1 }, tries: 1 });
        setAsleep(page.counts.asleep);
      } catch (error) {
        if (error.name !== "Offline") throw error; // the connection chip says so
      }
    };
    const timer = setInterval(ask, ASLEEP_MS);
    return () => clearInterval(timer);
  }, []);
  return asleep;
}

/** The order that a person looks at: new agents come last, gone ones go, nothing else moves. */
function keepOrder(wanted, order) {
  const places = new Map(order.map((id, place) => [id, place]));
  return [...wanted].sort((a, b) => (places.get(a.row.id) ?? order.length) - (places.get(b.row.id) ?? order.length));
}

function Nothing({ counts, chosen, choose, app }) {
  if (chosen.length) {
    return html`
      <${Empty} title="No agent is in this state now"
        action=${html`<button class="button" type="button" onClick=${() => choose([])}>Show all</button>`} />
    `;
  }
  if (counts.asleep) {
    const action = html`<a class="button" href=${app.href(path.sessions())}>All sessions</a>`;
    return html`<${Empty} title=${`No agent is at work: ${count(counts.asleep)} asleep`} action=${action}>
      An agent shows here as soon as it writes.
    <//>`;
  }
  if (app.showsPrograms) {
    return html`<${Empty} title="No program keeps sessions here yet">
      A session shows here as soon as Claude Code, Codex, Gemini CLI, opencode or pi writes one.
    <//>`;
  }
  return html`<${Empty} title="There are no sessions yet" command="treering demo --serve">
    An agent shows here as soon as it writes. To see some at work:
  <//>`;
}
