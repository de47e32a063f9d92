/** The header of a session's pages: its name, state, branch, age, tokens and cost, and the ways to its other views. */

import { h, useEffect, useState } from "../vendor/preact.js";
import { count, money, tokens as tokenCount } from "./numbers.js";
import { path } from "./paths.js";
import { useSessionRow } from "./session-row.js";
import { visible } from "./signs.js";
import { StateChip } from "./state.js";
import { Elapsed, Time } from "./time.js";

const ANCESTORS_MAX = 5;
const TITLES = {
  session: (name) => name,
  tree: (name) => `Tree of ${name}`,
  saw: (name) => `What the model saw in ${name}`,
  compare: (name) => `Two branches of ${name}`,
};

/** The sessions above one: the nearest last. */
async function ancestorsOf(server, state, signal) {
  const found = [];
  for (let parent = state?.parent; parent && found.length < ANCESTORS_MAX;) {
    const row = await server.get(`sessions/${encodeURIComponent(parent.session)}`, {
      query: { with: "state" },
      signal,
    });
    found.unshift({ id: row.id, entry: parent.entry, name: row.name || row.title || row.id });
    parent = row.state?.parent;
  }
  return found;
}

/** The name of a session: the one it was given, or the beginning of its first message. */
export function nameOf(row) {
  return visible(row?.name || row?.title || row?.first_message || row?.id || "") || "unnamed";
}

/**
 * @param {{ app: object, session: string, row?: object, state?: object, view: "session"|"tree"|"saw"|"compare",
 *   entry?: string, branch?: unknown, menu?: unknown, isDeleted?: boolean }} props `row` and `state` are read if they
 *   are not given; `entry` is the one that "What it saw" is about
 */
export function SessionBar({ app, session, row, state, view, entry, branch, menu, isDeleted = false }) {
  const own = useSessionRow(app, row === undefined ? session : null);
  const [ancestors, setAncestors] = useState([]);
  const known = row ?? own.row;
  const isGone = isDeleted || own.isDeleted;
  const now = isGone ? null : (state ?? known?.state);
  const parent = now?.parent;
  const name = nameOf(known ?? { id: session });

  useEffect(() => app.title(TITLES[view](name)), [view, name]);
  useEffect(() => {
    // a page says by itself that there is no such session
    if (own.error && own.error.status !== 404) app.toast(own.error.message, { kind: "bad" });
  }, [own.error]);
  useEffect(() => {
    setAncestors([]);
    if (!parent) return undefined;
    const abort = new AbortController();
    ancestorsOf(app.server, now, abort.signal).then(setAncestors, () =>
      setAncestors([{ id: parent.session, entry: parent.entry, name: parent.session }]),
    );
    return () => abort.abort();
  }, [session, parent?.session]);

  const link = (to, words, isCurrent) =>
    h("a", { href: app.href(to), "aria-current": isCurrent ? "page" : undefined }, words);
  const header = h(
    "header",
    { class: "session-bar" },
    ancestors.length
      ? h(
          "nav",
          { class: "session-up", "aria-label": "Sessions above" },
          ancestors.map((each) =>
            h(
              "span",
              { key: each.id },
              h(
                "a",
                { href: app.href(each.entry ? path.entry(each.id, each.entry) : path.session(each.id)) },
                h("bdi", null, visible(each.name).slice(0, 80)),
              ),
              " › ",
            ),
          ),
        )
      : null,
    h("h1", { title: name }, h("bdi", null, name)),
    h(
      "div",
      { class: "session-figures" },
      now ? h(StateChip, { state: now.state, live: now.live }) : null,
      now?.state === "working"
        ? h(Elapsed, { since: now.since, app })
        : now?.since
          ? h("span", { class: "soft" }, h(Time, { at: now.since, relative: true, app }))
          : null,
      known?.program ? h("span", { class: "pill", title: known.project ?? undefined }, known.program) : null,
      isGone || known?.archived ? h("span", { class: "pill" }, isGone ? "deleted" : "archived") : null,
      branch,
      now?.tokens
        ? h(
            "span",
            { class: "num", title: `${count(now.tokens)} tokens in the context at the last answer` },
            now.window
              ? `${tokenCount(now.tokens)} / ${tokenCount(now.window)} tokens`
              : `${tokenCount(now.tokens)} tokens`,
          )
        : null,
      now?.cost ? h("span", { class: "num", title: "cost of the whole session" }, money(now.cost)) : null,
    ),
    h(
      "nav",
      { class: "session-views", "aria-label": "Views of this session" },
      link(path.session(session), "Session", view === "session"),
      link(path.tree(session), "Tree", view === "tree"),
      entry ? link(path.saw(session, entry), "What it saw", view === "saw") : null,
    ),
    menu,
  );
  if (!isGone || view === "session") return header;
  const words = "This session was deleted. What is shown is what this page had read.";
  return [header, h("p", { class: "notice session-gone", role: "status" }, words)];
}
