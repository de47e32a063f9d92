/** The filter of lists: counts that filter by state, and chips for project, key, time and archived sessions. */

import { html, useEffect } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { count } from "./numbers.js";

const GROUPS = [
  ["error", "error", "errors"],
  ["waits", "waits for you", "wait for you"],
  ["working", "working", "working"],
  ["idle", "idle", "idle"],
  ["asleep", "asleep", "asleep"],
];
const SPANS = { 1: "last 24 hours", 7: "last 7 days", 30: "last 30 days" };
const DAY_MS = 86_400_000;

/**
 * How many sessions are in which state; each count filters.
 * @param {{ counts: Record<string, number>, chosen: string[], onChoose: (groups: string[]) => void }} props
 */
export function GroupChips({ counts, chosen, onChoose }) {
  const turn = (group) =>
    onChoose(chosen.includes(group) ? chosen.filter((each) => each !== group) : [...chosen, group]);
  return html`<div class="chips" role="group" aria-label="States">
    ${GROUPS.map(([group, one, many]) => {
      const number = counts[group] ?? 0;
      const name = group === "asleep" ? "idle" : group;
      return html`<button key=${group} type="button" class=${`chip is-${group}${number ? "" : " is-none"}`}
        aria-pressed=${chosen.includes(group)} onClick=${() => turn(group)}>
        <${Icon} name=${name} hollow=${group === "asleep"} /><b>${count(number)}</b>${number === 1 ? one : many}
      </button>`;
    })}
  </div>`;
}

/** The filter that an address says, as the server takes it. */
export function filterOf(query, now) {
  const days = Number(query.get("days"));
  const groups = query.get("state")?.split(",").filter(Boolean) ?? [];
  return {
    groups: groups.length ? groups : undefined,
    project: query.get("project") ?? undefined,
    key_prefix: query.get("key") ?? undefined,
    status: query.get("archived") ? "archived" : undefined,
    // to the hour, so that the same filter is the same request
    since:
      days in SPANS ? new Date(Math.floor((now - days * DAY_MS) / 3_600_000) * 3_600_000).toISOString() : undefined,
  };
}

/** The names in an address that filter: what "show all" removes. */
export const FILTERS = ["state", "project", "key", "archived", "days", "q"];

/** The last part of a folder's path. */
export function folderName(project) {
  return project?.split("/").filter(Boolean).pop() ?? "";
}

/**
 * Chips for what the address filters by; the choices of project and key are those of the rows that were seen.
 * @param {{ app: import("./app.js").App, query: URLSearchParams }} props
 */
export function FilterChips({ app, query }) {
  const rows = [...app.directory.rows.values()];
  const projects = [...new Set(rows.map((row) => row.project).filter(Boolean))].sort();
  const prefixes = [...new Set(rows.map((row) => row.key?.match(/^[^:]+:/)?.[0]).filter(Boolean))].sort();
  const set = (name) => (value) => app.setQuery({ [name]: value }, { replace: true });
  const archived = query.get("archived");
  return html`
    <${Choice} name="Time" value=${query.get("days")} options=${Object.entries(SPANS)} set=${set("days")} />
    ${(projects.length > 0 || query.get("project")) && html`
      <${Choice} name="Project" value=${query.get("project")}
        options=${projects.map((each) => [each, folderName(each), each])} set=${set("project")} />
    `}
    ${(prefixes.length > 0 || query.get("key")) && html`
      <${Choice} name="Key" value=${query.get("key")} options=${prefixes.map((each) => [each, each])}
        set=${set("key")} />
    `}
    ${!app.showsPrograms && html`<button type="button" class="chip" aria-pressed=${Boolean(archived)}
      onClick=${() => set("archived")(archived ? null : "1")}>
      Archived
    </button>`}
  `;
}

function Choice({ name, value, options, set }) {
  const shown = value ? (options.find(([key]) => key === value)?.[1] ?? value) : null;
  const items = [
    { label: "any", checked: !value, run: () => set(null) },
    ...options.map(([key, label, note]) => ({
      label,
      note: note === label ? undefined : note,
      checked: key === value,
      run: () => set(key),
    })),
  ];
  return html`<${Menu} name=${`${name}: ${shown ?? "any"}`} chip=${value ? "is-set" : ""} items=${items}
    label=${html`
      <span><span class="soft">${name}</span> <bdi>${shown ?? "any"}</bdi></span><${Icon} name="fold" open />
    `} />`;
}

/**
 * Keeps a search field as the address says: as it says now, since a person types faster than the page is drawn.
 * @param {{ current: HTMLInputElement | null }} field
 */
export function useQueryField(field) {
  useEffect(() => {
    const now = new URLSearchParams(location.search).get("q") ?? "";
    if (field.current && field.current.value !== now) field.current.value = now;
  });
}
