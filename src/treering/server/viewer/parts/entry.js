/** The rows of a path: what a person said, an answer with its calls, a summary, a note, a branch point, a day. */

import { Component, h } from "../vendor/preact.js";
import { Command, Content, Fold, Image, Thinking, EntryBody, foldLine, partsOf, textOf } from "./content.js";
import { ErrorLine, NotRead } from "./failure.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { count, entries as entryCount, tokens as tokenCount } from "./numbers.js";
import { path } from "./paths.js";
import { ENDS, firstWords, isPrompt, isSaid, speaker } from "./session-rows.js";
import { visible } from "./signs.js";
import { Time, duration } from "./time.js";
import { ToolCall } from "./tool.js";

const CLIP_LINES = 20;
const CLIP_CHARS = 1_500;
const BRANCHES_NAMED = 3;

/**
 * One row. It is drawn again only when its row, its version or a mark on it changes.
 *
 * @param {{ row: object, version: number, page: object, isActive: boolean, isTarget: boolean, isPicked: boolean,
 *   place: number, total: number }} props
 */
export class Row extends Component {
  shouldComponentUpdate(next) {
    return ["row", "version", "isActive", "isTarget", "isPicked", "place", "total", "mode"].some(
      (name) => next[name] !== this.props[name],
    );
  }

  /** One entry that cannot be drawn leaves the others as they are. */
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render({ row, page, isActive, isTarget, isPicked, place, total }, { error }) {
    const classes = ["row", `is-${row.kind}`];
    if (isActive) classes.push("is-active");
    if (isTarget) classes.push("is-target");
    if (isPicked) classes.push("is-picked");
    if (row.kind === "entry") classes.push(...entryClasses(row));
    const props = {
      class: classes.join(" "),
      "data-key": row.key,
      "data-entry": row.kind === "entry" ? row.item.id : undefined,
      role: "article",
      "aria-posinset": place + 1,
      "aria-setsize": total,
      "aria-label": row.kind === "entry" ? speaker(row.item) : row.kind,
      style: page.isWhole
        ? { containIntrinsicBlockSize: `auto ${row.estimate}px` }
        : { minHeight: isWaiting(row, page) ? `${row.estimate}px` : "" },
    };
    if (error)
      return h("div", props, h("p", { class: "failure-line" }, h("b", null, "not drawn"), ` ${error.message}`));
    return h("div", props, h(Inside, { row, page }));
  }
}

/** Whether a row has less to show than it will. */
function isWaiting({ kind, item }, page) {
  return kind === "entry" && item.type === "message" && page.bodyOf(item) === undefined;
}

function entryClasses({ item, continues }) {
  const classes = [
    isSaid(item)
      ? item.type === "message"
        ? `by-${kindOf(item)}`
        : `is-${item.type.replaceAll("_", "-")}`
      : "is-note",
  ];
  if (continues) classes.push("continues");
  if (item.in_context === false) classes.push("is-out");
  if (item.error) classes.push("is-failed");
  if (item.live) classes.push("is-live");
  return classes;
}

function kindOf(item) {
  return ["user", "assistant", "system"].includes(item.role) ? item.role : "other";
}

function Inside({ row, page }) {
  if (row.kind === "day") return h("p", { class: "day" }, h("span", null, row.text));
  if (row.kind === "seen") return h("p", { class: "seen" }, h("span", null, "seen up to here"));
  if (row.kind === "branch") return h(BranchPoint, { row, page });
  const { item } = row;
  if (item.type === "compaction") return h(Compaction, { row, page });
  if (!isSaid(item)) return h(Note, { row, page });
  if (item.type === "branch_summary") return h(Summary, { row, page });
  return h(Message, { row, page });
}

// -- messages

function Message({ row, page }) {
  const { item } = row;
  const entry = page.bodyOf(item);
  const ended = ENDS.get(entry?.message?.stop_reason?.toLowerCase());
  const body = entry ? h(MessageBody, { row, page, entry }) : h(Waiting, { row, page });
  return [
    row.continues ? h(Side, { item, page }) : h(Head, { row, page }),
    body,
    item.error ? h(ErrorLine, { text: item.error }) : null,
    ended && !item.error ? h("p", { class: "ended" }, ended) : null,
  ];
}

function Head({ row, page }) {
  const { item } = row;
  const notes = [
    item.model && visible(item.model),
    item.duration_ms !== null && duration(item.duration_ms),
    item.tokens && `${tokenCount(item.tokens)} tokens`,
  ];
  return h(
    "div",
    { class: "who" },
    h("h3", null, isPrompt(item) && row.turn ? h("span", { class: "turn num" }, row.turn) : null, speaker(item)),
    item.live ? h("span", { class: "state is-working" }, h(Icon, { name: "working" }), "writing") : null,
    notes.filter(Boolean).map((each) => h("span", { class: "note" }, each)),
    h(Marks, { item, page }),
  );
}

/** Time, label and link of a message that continues the one before it; seen at the right when it is pointed at. */
function Side({ item, page }) {
  return h("div", { class: "who side" }, h(Marks, { item, page }));
}

function Marks({ item, page }) {
  const { app, session } = page;
  return h(
    "span",
    { class: "marks" },
    item.label ? h("span", { class: "pill" }, h("bdi", null, visible(item.label))) : null,
    item.role === "assistant" && !item.live
      ? h("a", { class: "saw", href: app.href(path.saw(session, item.id)), title: "what the model saw (w)" }, "saw")
      : null,
    item.live ? null : h(page.EntryMenu, { item }),
    h(Time, { at: item.timestamp, app }),
    item.live
      ? null
      : h(
          "a",
          { class: "anchor num", href: app.href(path.entry(session, item.id)), title: `link to entry ${item.seq}` },
          `#${item.seq}`,
        ),
  );
}

/** What the skeleton says of a message whose body is not here yet. */
function Waiting({ row, page }) {
  const { item } = row;
  const failure = page.model.bodies.failure(item.id);
  if (failure) return h(NotRead, { failure, retry: () => page.model.bodies.retry(item.id) });
  return [
    item.text ? h("div", { class: "said waiting", dir: "auto" }, h("p", null, visible(item.text))) : null,
    h(Calls, { row, page, inputs: new Map() }),
  ];
}

function MessageBody({ row, page, entry }) {
  const { item, conversation } = row;
  const message = entry.message ?? entry.custom_message ?? {};
  if (message.bash) return h(Command, { bash: message.bash });
  const parts = partsOf(message.content);
  const inputs = new Map(
    parts.filter((each) => each.type === "tool_use").map((each) => [each.tool_use.id, each.tool_use.input]),
  );
  const calls = item.tools?.length ? h(Calls, { row, page, inputs, key: "calls" }) : null;
  if (item.role === "system") return h(Instructions, { row, page, parts });
  const drawn = [];
  for (const [place, part] of parts.entries()) {
    const key = `${item.id}:${place}`;
    if (part.type === "text")
      drawn.push(h(Text, { key: place, text: textOf(part), row, page, foldKey: key, streaming: item.live }));
    else if (part.type === "image") drawn.push(h(Image, { key: place, image: part.image }));
    else if (part.type === "thinking" && !conversation) {
      const streaming = item.live === true && parts.length === place + 1;
      drawn.push(
        h(Thinking, {
          key: place,
          thinking: part.thinking,
          streaming,
          built: page.isWhole,
          open: page.model.isOpen(key, false),
          onToggle: (open) => page.model.setOpen(key, open, item.id),
        }),
      );
    } else if (part.type === "tool_result" && !conversation) drawn.push(h(Content, { key: place, parts: [part] }));
  }
  return [...drawn, calls];
}

/** A text; long prompts are clipped, answers never. */
function Text({ text, row, page, foldKey, streaming }) {
  const { item } = row;
  const isLong =
    item.role !== "assistant" &&
    text.length <= 200_000 &&
    (text.length > CLIP_CHARS || text.split("\n", CLIP_LINES + 1).length > CLIP_LINES);
  const isOpen = !isLong || page.model.isOpen(foldKey, false);
  const shown = isOpen ? text : clipped(text);
  return [
    h(Markdown, { text: shown, typed: item.role === "user", streaming }),
    isLong
      ? h(
          "button",
          {
            class: "button quiet clip-more",
            type: "button",
            "aria-expanded": String(isOpen),
            onClick: () => page.model.setOpen(foldKey, !isOpen, item.id),
          },
          isOpen ? "Show less" : `Show all, ${count(text.length)} characters`,
        )
      : null,
  ];
}

function clipped(text) {
  const lines = text.split("\n", CLIP_LINES).join("\n");
  return lines.length > CLIP_CHARS ? `${lines.slice(0, CLIP_CHARS)}…` : lines;
}

function Instructions({ row, page, parts }) {
  const key = `${row.item.id}:system`;
  return h(
    Fold,
    {
      kind: "system",
      line: foldLine("Instructions", row.item.text ?? ""),
      open: page.model.isOpen(key, false),
      onToggle: (open) => page.model.setOpen(key, open, row.item.id),
      built: page.isWhole,
    },
    () => h(Content, { parts }),
  );
}

function Calls({ row, page, inputs }) {
  const tools = row.conversation
    ? row.item.tools.filter((each) => row.results.get(each.id)?.error)
    : (row.item.tools ?? []);
  return tools.map((call) =>
    h(ToolCall, {
      key: call.id,
      call,
      input: inputs.get(call.id),
      result: row.results.get(call.id),
      page,
      row,
      child: page.childOf(row.item, call),
    }),
  );
}

// -- what is no message

function Compaction({ row, page }) {
  const { item } = row;
  const entry = page.bodyOf(item);
  const key = `${item.id}:summary`;
  return h(
    "div",
    { class: "compacted" },
    h("p", { class: "rule" }, h("span", null, compactionWords(item, entry, page)), h(Marks, { item, page })),
    entry
      ? h(
          Fold,
          {
            kind: "summary",
            line: foldLine("Summary", item.text ?? ""),
            open: page.model.isOpen(key, false),
            onToggle: (open) => page.model.setOpen(key, open, item.id),
            built: page.isWhole,
          },
          () => h(EntryBody, { entry }),
        )
      : null,
  );
}

/** How much became how little, as far as it is known. */
function compactionWords(item, entry, page) {
  const left = page.summarizedBy(item, entry);
  const before = entry?.compaction?.tokens_before;
  const after = page.tokensAfter(item);
  const words = [
    left === null ? "Earlier entries summarized" : `${count(left)} ${left === 1 ? "entry" : "entries"} summarized`,
  ];
  if (before)
    words.push(after ? `${tokenCount(before)} to ${tokenCount(after)} tokens` : `${tokenCount(before)} tokens before`);
  return words.join(", ");
}

function Summary({ row, page }) {
  const entry = page.bodyOf(row.item);
  return [h(Head, { row, page }), entry ? h(EntryBody, { entry }) : h(Waiting, { row, page })];
}

function Note({ row, page }) {
  const { item } = row;
  const key = `${item.id}:data`;
  const isOpen = page.model.isOpen(key, false);
  const entry = isOpen ? page.bodyOf(item) : undefined;
  return h(
    "div",
    { class: "note-row" },
    h(
      "button",
      {
        class: "note-line",
        type: "button",
        "aria-expanded": String(isOpen),
        onClick: () => page.model.setOpen(key, !isOpen, item.id),
      },
      h(Icon, { name: "fold" }),
      h("span", { class: "note-kind" }, speaker(item)),
      item.text ? h("span", { class: "clip", dir: "auto" }, firstWords(item)) : null,
    ),
    h(Marks, { item, page }),
    isOpen ? h("div", { class: "note-data" }, entry ? h(EntryBody, { entry }) : h("p", { class: "soft" }, "…")) : null,
  );
}

function BranchPoint({ row, page }) {
  const { item } = row;
  const others = page.siblingsOf(item);
  const { app, session } = page;
  const go = (each) => app.href(path.entry(session, each.item.id));
  const place = others?.findIndex((each) => each.item.id === item.id) ?? -1;
  const unnamed = (others?.length ?? 0) - 1 - BRANCHES_NAMED;
  const [previous, next] = place < 0 ? [] : [others[place - 1], others[place + 1]];
  const step = (each, sign, words) =>
    each
      ? h(
          "a",
          {
            class: "branch-step",
            href: go(each),
            "aria-label": words,
            title: `${words}: ${firstWords(each.item).slice(0, 120)}`,
          },
          sign,
        )
      : h("span", { class: "branch-step is-off", "aria-hidden": "true" }, sign);
  return h(
    "div",
    { class: "branch-point" },
    h(Icon, { name: "branch" }),
    h("b", null, `branch ${item.branch} of ${item.branches}`),
    step(previous, "‹", "previous branch"),
    step(next, "›", "next branch"),
    h(
      "span",
      { class: "branch-others" },
      (others ?? [])
        .filter((each) => each.item.id !== item.id)
        .slice(0, BRANCHES_NAMED)
        .map((each) =>
          h(
            "a",
            { key: each.item.id, href: go(each), dir: "auto", title: entryCount(each.entries) },
            `“${firstWords(each.item).slice(0, 80)}”`,
          ),
        ),
      unnamed > 0
        ? h(
            "a",
            { class: "branch-more", href: `${app.href(path.tree(session))}?at=${encodeURIComponent(item.id)}` },
            `${count(unnamed)} more`,
          )
        : null,
    ),
    others && place >= 0 && others.length > 1
      ? h(
          "a",
          {
            class: "branch-compare",
            href: app.href(path.compare(session, others[place].leaf, (previous ?? next).leaf)),
          },
          "compare",
        )
      : null,
  );
}
