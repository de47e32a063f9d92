/** What a person may do to a session: label, rename, compact, archive, export, delete. */

import { h, useRef, useState } from "../vendor/preact.js";
import { Confirm, Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { tokens as tokenCount } from "./numbers.js";
import { path } from "./paths.js";
import { nameOf } from "./session-bar.js";
import { firstWords, isPrompt, speaker } from "./session-rows.js";

const FORMATS = [
  ["html", "Page (HTML)"],
  ["markdown", "Text (Markdown)"],
  ["native", "Log (JSON lines)"],
  ["json", "JSON"],
];

/** A dialog with one form: it stays open, with what was typed, until the server has agreed. */
function FormDialog({ title, words, send, action = "Save", onClose, children }) {
  const [error, setError] = useState(null);
  const [isSending, setSending] = useState(false);
  const fields = useRef(null);
  const submit = async () => {
    if (isSending) return;
    setSending(true);
    setError(null);
    try {
      await send(
        Object.fromEntries([...fields.current.querySelectorAll("[name]")].map((each) => [each.name, each.value])),
      );
      onClose();
    } catch (failure) {
      setError(failure);
      setSending(false);
    }
  };
  const actions = [
    h("button", { class: "button", type: "button", onClick: onClose }, "Cancel"),
    h("button", { class: "button main", type: "submit", disabled: isSending }, action),
  ];
  return h(
    Dialog,
    { title, onClose, onSubmit: submit, actions },
    h(
      "div",
      { class: "form", ref: fields },
      words ? h("p", { class: "small soft" }, words) : null,
      children,
      error
        ? h(
            "p",
            { class: "notice bad-ground", role: "alert" },
            error.status === 412 ? "The session changed meanwhile; nothing was written. " : "",
            error.detail ?? error.message,
          )
        : null,
    ),
  );
}

/** A field of a form with its name above it. */
function Field({ label, name, value, rows, required, autofocus }) {
  const props = { class: "field", name, defaultValue: value, required, dir: "auto", autofocus };
  return h(
    "label",
    { class: "form-field" },
    h("span", null, label),
    rows ? h("textarea", { ...props, rows }) : h("input", props),
  );
}

/** The dialog for the label of an entry; an empty one removes it. */
function LabelDialog({ app, model, item, onClose }) {
  const address = `${model.path}/labels/${encodeURIComponent(item.id)}`;
  const send = (form) => {
    const label = form.label.trim();
    return label ? app.server.put(address, { body: { label } }) : app.server.delete(address);
  };
  return h(
    FormDialog,
    { title: "Label", words: `${speaker(item)} #${item.seq}: ${firstWords(item).slice(0, 120)}`, send, onClose },
    h(Field, { label: "Label (empty removes it)", name: "label", value: item.label ?? "", autofocus: true }),
  );
}

function RenameDialog({ app, model, row, onClose, onChanged }) {
  const send = async (form) => {
    await app.server.patch(model.path, { body: { title: form.title.trim() || null } });
    onChanged();
  };
  return h(
    FormDialog,
    { title: "Rename", send, onClose },
    h(Field, { label: "Name (empty clears it)", name: "title", value: row.name ?? row.title ?? "", autofocus: true }),
  );
}

function CompactDialog({ app, model, item, onClose }) {
  const prompts = model.items.filter(isPrompt);
  const kept = item ?? prompts.at(-1);
  const before = model.state?.tokens ?? 0;
  const send = (form) =>
    app.server.post(`${model.path}/compact`, {
      body: { summary: form.summary, first_kept_entry_id: form.kept || null, tokens_before: before },
      ifMatch: `leaf:${encodeURIComponent(model.liveLeaf ?? "")}`,
    });
  const choices = [...new Set([kept, ...prompts.slice(-20).reverse()].filter(Boolean))];
  const now = before ? ` The context has ${tokenCount(before)} tokens now.` : "";
  const words = `What came before the first kept entry stays in the log; models see the summary instead.${now}`;
  return h(
    FormDialog,
    { title: "Compact", words, action: "Compact", send, onClose },
    h(Field, { label: "Summary of what came before", name: "summary", rows: 8, required: true, autofocus: true }),
    h(
      "label",
      { class: "form-field" },
      h("span", null, "First entry to keep"),
      h(
        "select",
        { class: "field", name: "kept" },
        choices.map((each) =>
          h(
            "option",
            { key: each.id, value: each.id, selected: each === kept },
            `#${each.seq} ${firstWords(each).slice(0, 80)}`,
          ),
        ),
        h("option", { value: "" }, "keep nothing"),
      ),
    ),
  );
}

function Check({ checked, onChange, children }) {
  const tell = (event) => onChange(event.currentTarget.checked);
  return h("label", { class: "form-check" }, h("input", { type: "checkbox", checked, onChange: tell }), " ", children);
}

/** The links under which a session is downloaded; each is an ordinary link, so a browser shows its progress. */
function ExportDialog({ app, model, session, onClose }) {
  const [onlyPath, setOnlyPath] = useState(false);
  const [redacted, setRedacted] = useState(false);
  const leaf = onlyPath && model.leaf ? `&leaf=${encodeURIComponent(model.leaf)}` : "";
  const chosen = leaf + (redacted ? "&redact=true" : "");
  const address = (format) => new URL(`v1/${model.path}/export?format=${format}${chosen}`, document.baseURI).href;
  const formats = FORMATS.filter(([format]) => !redacted || format !== "native"); // lines with gaps go nowhere
  const actions = h("button", { class: "button", type: "button", onClick: onClose }, "Close");
  return h(
    Dialog,
    { title: "Export", onClose, actions },
    h(Check, { checked: onlyPath, onChange: setOnlyPath }, "only the branch that is shown"),
    h(Check, { checked: redacted, onChange: setRedacted }, "without what looks like a secret"),
    h(
      "ul",
      { class: "exports" },
      formats.map(([format, words]) =>
        h(
          "li",
          { key: format },
          h("a", { href: address(format), download: "", target: "_blank", rel: "noopener" }, words),
        ),
      ),
    ),
  );
}

/**
 * The dialogs and menus of a session's page. `open(name, item)` opens a dialog; `dialog` is to be drawn.
 *
 * @param {{ app: object, session: string, model: object, row: object, onChanged: () => void, onBranch: (item) => void,
 *   onDeleted: () => void }} props
 */
export function useActions({ app, session, model, row, onChanged, onBranch, onDeleted }) {
  const [opened, setOpened] = useState(null);
  const close = () => setOpened(null);
  const open = (name, item) => setOpened({ name, item });
  const fields = { app, session, model, row: row ?? {}, item: opened?.item, onClose: close, onChanged };
  const canWrite = app.can("write");

  const archive = async () => {
    const verb = row?.archived ? "unarchive" : "archive";
    try {
      await app.server.post(`${model.path}/${verb}`);
      onChanged();
      app.toast(verb === "archive" ? "Archived" : "Brought back", {
        action: {
          label: "Undo",
          run: () => app.server.post(`${model.path}/${verb === "archive" ? "unarchive" : "archive"}`).then(onChanged),
        },
      });
    } catch (error) {
      app.toast(error.message, { kind: "bad" });
    }
  };

  const dialogs = {
    label: () => h(LabelDialog, fields),
    rename: () => h(RenameDialog, fields),
    compact: () => h(CompactDialog, fields),
    export: () => h(ExportDialog, fields),
    delete: () =>
      h(Confirm, {
        title: "Delete this session",
        typed: nameOf(row ?? { id: session }),
        action: "Delete",
        onClose: close,
        text: "It is deleted permanently, with every copy of its content.",
        onDone: async () => {
          await app.server.delete(model.path);
          onDeleted();
        },
      }),
  };

  const menu = h(Menu, {
    label: h(Icon, { name: "more" }),
    name: "More",
    items: [
      ...(canWrite
        ? [
            { label: "Rename", run: () => open("rename") },
            { label: "Compact", run: () => open("compact"), disabled: row?.archived, reason: "archived" },
            { label: row?.archived ? "Bring back" : "Archive", run: archive },
          ]
        : []),
      { label: "Export", run: () => open("export") },
      ...(app.can("admin") ? [{ label: "Delete", bad: true, run: () => open("delete") }] : []),
    ],
  });

  const entryItems = (item) => [
    { label: "What the model saw", href: app.href(path.saw(session, item.id)) },
    ...(canWrite && !row?.archived
      ? [
          { label: "Branch from here", run: () => onBranch(item) },
          { label: item.label ? "Change label" : "Label", run: () => open("label", item) },
          { label: "Compact what came before", run: () => open("compact", item) },
        ]
      : []),
  ];

  return { menu, entryItems, dialog: opened ? dialogs[opened.name]() : null, open };
}
