/** Sessions: all of them, found as one types; rows are fetched where the list is scrolled to. */

import { useTitle } from "../parts/app.js";
import { agentAddress } from "../parts/agents.js";
import { useDirectory, useHeld } from "../parts/directory.js";
import { FILTERS, FilterChips, GroupChips, filterOf, useQueryField } from "../parts/filter.js";
import { useKeys } from "../parts/keys.js";
import { ListedRow, HitRow, Caption, Labels, Waiting } from "../parts/listed.js";
import { Empty, Failure, Skeleton } from "../parts/notices.js";
import { count, counted } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { useFound, useWindow } from "../parts/listing.js";
import { VirtualList, useRowHeight } from "../parts/virtual.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

const MATCHES_SHOWN = 5;

/** The page. */
export default function Sessions({ query, app }) {
  useTitle("Sessions");
  const version = useDirectory(app.directory);
  const box = useRef(null);
  const list = useRef(null);
  const held = useHeld(box);
  const rowHeight = useRowHeight();
  const [active, setActive] = useState(-1);
  const text = (query.get("q") ?? "").trim();
  const filter = useMemo(() => filterOf(query, app.now()), [query.toString()]);
  const rows = useWindow(app, { ...filter, text: text || undefined }, { held, version });
  const found = useFound(app, text, filter);

  // with words to search for: sessions whose names have them, then the entries that do
  const matches = text ? Math.min(rows.total ?? 0, query.get("all") ? Infinity : MATCHES_SHOWN) : (rows.total ?? 0);
  const items = useMemo(() => {
    if (!text) return null;
    const lines = [];
    if (matches) lines.push({ caption: "names", more: (rows.total ?? 0) > matches });
    for (let place = 0; place < matches; place += 1) lines.push({ place });
    if (found.hits.length) lines.push({ caption: "entries" });
    for (const hit of found.hits) lines.push({ hit });
    return lines;
  }, [text, matches, rows.total, found.hits]);
  const number = items ? items.length : (rows.total ?? 0);
  const lineAt = (index) => (items ? items[index] : { place: index });
  const addressAt = (index) => {
    const line = lineAt(index);
    if (line?.hit) return path.entry(line.hit.session_id, line.hit.entry_id);
    const row = line?.place === undefined ? null : rows.at(line.place);
    return row ? agentAddress(row) : null;
  };
  const open = (index) => {
    const address = addressAt(index);
    if (address) app.navigate(address);
  };

  useEffect(() => setActive(-1), [query.toString()]);
  useEffect(() => {
    const toList = ({ detail }) => {
      let index = 0;
      while (index < number && lineAt(index)?.caption) index += 1;
      if (detail.open) open(index);
      else if (index < number) list.current?.focus(index);
    };
    document.addEventListener("treering:to-list", toList);
    return () => document.removeEventListener("treering:to-list", toList);
  });
  useKeys(
    [
      {
        keys: ["j", "k"],
        label: "next, previous session",
        run: (event) => list.current?.focus(Math.max(0, active + (event.key === "j" ? 1 : -1))),
      },
      { keys: "o", label: "open", run: () => open(active) },
    ],
    { scope: "Sessions" },
  );

  const range = (first, last) => {
    if (!items) rows.need(first, last);
    else if (last >= items.length && found.more) found.next();
  };
  const choose = (groups) => app.setQuery({ state: groups.join(",") || null });
  const clear = () => app.setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])));
  const filtered = FILTERS.some((name) => query.get(name));
  const draw = (index) => {
    const line = lineAt(index);
    if (!line) return null;
    if (line.caption === "names") return html`<${Labels} caption>
      Names
      ${line.more && html`
         · <a href=${app.href(path.sessions({ ...Object.fromEntries(query), all: 1 }))}>all ${count(rows.total)}</a>
      `}
    <//>`;
    if (line.caption) return html`<${Caption}>In conversations<//>`;
    if (line.hit) return html`<${HitRow} hit=${line.hit} app=${app} />`;
    const row = rows.at(line.place);
    return row ? html`<${ListedRow} row=${row} app=${app} />` : html`<${Waiting} />`;
  };
  const isSearching = found.loading && !found.hits.length;
  const hits = isSearching
    ? "searching conversations"
    : `${counted(found.hits.length, "entry", "entries")}${found.more ? " so far" : ""}`;
  const total =
    rows.total === null
      ? ""
      : text
        ? `${counted(rows.total, "name")}, ${hits}`
        : rows.everything === null || rows.everything === rows.total
          ? counted(rows.total, "session")
          : `${count(rows.total)} of ${counted(rows.everything, "session")}`;

  return html`<div class=${`fills page-sessions${app.showsPrograms ? " shows-programs" : ""}`} ref=${box}>
    <div class="list-head">
      <h1 class="sr">Sessions</h1>
      <${FindField} app=${app} query=${query} />
      ${rows.counts && html`<div class="chips filters">
        <${GroupChips} counts=${rows.counts} chosen=${filter.groups ?? []} onChoose=${choose} />
        <${FilterChips} app=${app} query=${query} />
      </div>`}
      ${rows.moved && html`<button class="button sort-now" type="button" onClick=${rows.refresh}>
        Order changed: sort now
      </button>`}
      <span class="total" role="status">${total}</span>
    </div>
    ${rows.error && html`<${Failure} error=${rows.error} retry=${rows.refresh} />`}
    ${found.error && html`<${Failure} error=${found.error} retry=${found.retry} />`}
    ${(rows.total === null || (number === 0 && isSearching)) && !rows.error && html`<${Skeleton} rows=${12} />`}
    ${rows.total !== null && number === 0 && !found.loading
      && html`<${Nothing} filtered=${filtered} clear=${clear} app=${app} />`}
    ${number > 0 && html`
      ${!text && html`<${Labels} />`}
      <${VirtualList} label=${text ? "Found" : "Sessions"} count=${number} rowHeight=${rowHeight} active=${active}
        onActive=${setActive} onOpen=${open} onRange=${range} memory=${`sessions?${query}`} listRef=${list}
        keyOf=${(index) => keyOf(lineAt(index), rows)} row=${draw}
        itemProps=${(index) => ({ class: items && lineAt(index)?.caption ? "is-caption" : "" })} />`
    }
  </div>`;
}

function keyOf(line, rows) {
  if (line?.hit) return `${line.hit.session_id}/${line.hit.entry_id}`;
  if (line?.caption) return line.caption;
  return rows.at(line?.place)?.id ?? `place/${line?.place}`;
}

/** The search field of the phone, whose header has none. */
function FindField({ app, query }) {
  const field = useRef(null);
  useQueryField(field);
  useEffect(() => {
    if (query.get("find") && field.current?.offsetParent) field.current.focus();
    if (query.get("find")) app.setQuery({ find: null });
  }, [query.get("find")]);
  return html`<div class="find-field" role="search">
    <input class="field" ref=${field} type="search" aria-label=${app.searching} placeholder=${app.searching}
      onInput=${(event) => app.setQuery({ q: event.currentTarget.value })} autocomplete="off" spellcheck=${false}
      enterkeyhint="search" />
  </div>`;
}

function Nothing({ filtered, clear, app }) {
  if (filtered) return html`
    <${Empty} title="Nothing matches"
      action=${html`<button class="button" type="button" onClick=${clear}>Show all sessions</button>`} />
  `;
  if (app.showsPrograms) return html`<${Empty} title="No program keeps sessions here yet" />`;
  return html`<${Empty} title="There are no sessions yet" command="treering demo --serve">
    To see some agents at work:
  <//>`;
}
