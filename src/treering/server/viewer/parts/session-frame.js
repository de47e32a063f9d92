/** What stands around the path of a session's page: header, dialogs, keys, switches, the menu of an entry. */

import { h, useEffect, useRef, useState } from "../vendor/preact.js";
import { useActions } from "./acting.js";
import { copy } from "./copy.js";
import { Icon } from "./icons.js";
import { useKeys } from "./keys.js";
import { Menu } from "./menu.js";
import { count, entries as entryCount } from "./numbers.js";
import { path } from "./paths.js";
import { SessionBar } from "./session-bar.js";
import { isFailure, isPrompt } from "./session-rows.js";

/** The header and the dialogs, with the keys of the page. */
export function Frame({ page, shown }) {
  const { app, session } = page.props;
  const actions = useActions({
    app,
    session,
    model: page.model,
    row: page.state.row,
    onChanged: page.onChanged,
    onBranch: page.onBranch,
    onDeleted: page.onDeleted,
  });
  page.actions = actions;
  useKeys(keysOf(page), { scope: "Session" });
  const { items } = page.model;
  const last = items.findLast((item) => item.role === "assistant") ?? items.findLast((item) => !item.live);
  const branch = page.model.isPinnedBranch
    ? h("span", { class: "state another" }, h(Icon, { name: "branch" }), "another branch")
    : null;
  const menu = shown.isDeleted ? null : actions.menu;
  return [h(SessionBar, { ...shown, view: "session", entry: last?.id, branch, menu }), actions.dialog];
}

/** The menu of an entry, made of the page's actions. */
export function EntryMenu({ item, page }) {
  const { app, session } = page.props;
  const items = () => [
    {
      label: "Copy link",
      run: () => copy(new URL(app.href(path.entry(session, item.id)), document.baseURI).href, app),
    },
    ...page.actions.entryItems(item),
  ];
  // Most menus are never opened, so a button stands for one until then.
  const name = `Menu of entry ${item.seq}`;
  const box = useRef(null);
  const [isWanted, want] = useState(false);
  useEffect(() => {
    if (isWanted) box.current.querySelector("button").click();
  }, [isWanted]);
  return h(
    "span",
    { class: "entry-menu", ref: box },
    isWanted
      ? h(Menu, { label: h(Icon, { name: "more" }), name, items: items() })
      : h(
          "button",
          {
            class: "button quiet",
            type: "button",
            "aria-label": name,
            "aria-haspopup": "menu",
            onClick: () => want(true),
          },
          h(Icon, { name: "more" }),
        ),
  );
}

/** Switches above the path. */
export function Tools({ page, model, follows }) {
  const toggle = (label, pressed, onClick) =>
    h("button", { class: "button quiet", type: "button", "aria-pressed": String(pressed), onClick }, label);
  return h(
    "div",
    { class: "session-tools toolbar" },
    h(
      "button",
      {
        class: "button quiet only-phone",
        type: "button",
        "aria-expanded": String(page.state.outline),
        onClick: () => page.set({ outline: !page.state.outline }),
      },
      "Outline",
    ),
    toggle("Follow", follows, () => page.reader.follow(!follows)),
    toggle("Conversation only", model.isConversation, () => model.setConversation(!model.isConversation)),
    h(
      "button",
      { class: "button quiet", type: "button", onClick: () => model.setAll(!model.allOpen) },
      model.allOpen ? "Collapse all" : "Expand all",
    ),
    h("span", { class: "soft num session-count" }, entryCount(model.total)),
  );
}

/** The way to the end, with how much came there since. */
export function Pill({ page }) {
  const { model } = page;
  const { fresh } = page.reader;
  if (!model.isLoaded || (page.reader.pinned && !model.isPinnedBranch && !model.hasLater)) return null;
  const words = model.isPinnedBranch
    ? fresh
      ? `${count(fresh)} new on the live branch`
      : "To the live branch"
    : fresh
      ? `${count(fresh)} new`
      : "To the end";
  return h("button", { class: "pill-new", type: "button", onClick: () => page.reader.toEnd() }, words, " ↓");
}

/** On paper: which entries were in view, where not all of them were. */
export function Printed({ model, view }) {
  const [first, last] = [model.rows[view.first], model.rows[view.last]];
  if (view.isWhole && !model.hasEarlier && !model.hasLater) return null;
  if (!first || !last) return null;
  const [from, to] = [first, last].map((row) => count(model.start + model.items.indexOf(row.item) + 1));
  const words = `Entries ${from} to ${to} of ${count(model.total)}: those in view. The export page has all of them.`;
  return h("p", { class: "print-only" }, words, " ", location.href);
}

const isPromptRow = (row) => row.kind === "entry" && isPrompt(row.item);
const isBranchRow = (row) => row.kind === "branch";

/** The keys of a session's page. */
function keysOf(page) {
  const { app, session } = page.props;
  const at = () => page.reader.activeRow?.item ?? page.model.items.findLast((item) => item.id);
  return [
    { keys: "j", label: "next entry", run: () => page.reader.step(1) },
    { keys: "k", label: "previous entry", run: () => page.reader.step(-1) },
    { keys: "]", label: "next prompt", run: () => page.reader.step(1, isPromptRow, "prompt") },
    { keys: "[", label: "previous prompt", run: () => page.reader.step(-1, isPromptRow, "prompt") },
    { keys: "e", label: "next error", run: () => page.reader.step(1, isFailure, "error") },
    { keys: "b", label: "next branch point", run: () => page.reader.step(1, isBranchRow, "branch") },
    { keys: "o", label: "fold or unfold", run: () => fold(page) },
    { keys: "O", label: "expand or collapse all", run: () => page.model.setAll(!page.model.allOpen) },
    { keys: "f", label: "follow", run: () => page.reader.follow(!(page.reader.follows && page.reader.pinned)) },
    { keys: "t", label: "tree", run: () => app.navigate(path.tree(session)) },
    { keys: "w", label: "what the model saw", run: () => (at() ? app.navigate(path.saw(session, at().id)) : false) },
    { keys: "y", label: "copy the link", run: () => copyLink(page) },
    { keys: "Home", label: "to the beginning", run: () => page.reader.toBeginning() },
    { keys: "End", label: "to the end", run: () => page.reader.toEnd() },
    { keys: "Escape", label: "back one layer", run: () => page.escape() },
    { keys: "Control+c", label: "copy what a click and a Shift+click picked", run: () => page.picked.copy() },
    { keys: "Control+f", label: "find in this session", run: () => page.finder.open() },
  ];
}

/** Copy the address of the active entry, or of the session. */
function copyLink(page) {
  const { app, session } = page.props;
  const row = page.reader.activeRow;
  const to = row ? path.entry(session, row.item.id) : path.session(session);
  copy(new URL(app.href(to), document.baseURI).href, app);
}

/** Fold or unfold what the active row holds. */
function fold(page) {
  const row = page.reader.activeRow;
  if (!row || row.kind !== "entry") return;
  const { model } = page;
  const keys = row.item.tools?.length
    ? row.item.tools.map((call) => `call:${row.item.id}:${call.id}`)
    : [
        row.item.type === "compaction"
          ? `${row.item.id}:summary`
          : row.item.role === "system"
            ? `${row.item.id}:system`
            : row.item.type === "message"
              ? `${row.item.id}:0`
              : `${row.item.id}:data`,
      ];
  const isOpen = keys.some((key) => model.isOpen(key, false));
  for (const key of keys) model.setOpen(key, !isOpen, row.key);
}
