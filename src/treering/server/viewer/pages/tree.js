// The tree of a session: every branch, with the path to the live leaf at the left edge.

import { html, useCallback, useEffect, useMemo, useReducer, useRef, useState } from "../vendor/preact.js";
import { copy } from "../parts/copy.js";
import { feedOf } from "../parts/feed.js";
import { useKeys } from "../parts/keys.js";
import { Empty, Failure, Skeleton, useLoad } from "../parts/notices.js";
import { count, counted, entries } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { usePhone } from "../parts/phone.js";
import { SelectedEntry } from "../parts/selected-entry.js";
import { SessionBar } from "../parts/session-bar.js";
import { TreeCanvas, ZOOM } from "../parts/tree-canvas.js";
import { firstFolds, foldsAbove, layout } from "../parts/tree-layout.js";
import { TreeModel } from "../parts/tree-model.js";
import { useWords } from "../parts/tree-words.js";

const ONLY = [["", "All entries"], ["branches", "Only branches"], ["labels", "Only labels"]];

/** The page `/s/ID/tree`; `?at=ENTRY` selects an entry. */
export default function TreePage({ params, query, app }) {
  const { session } = params;
  const loaded = useLoad(
    (signal) => app.server.get(`sessions/${encodeURIComponent(session)}/tree/columns`, { signal }),
    [session],
  );
  return html`<div class="page-tree fills">
    <${SessionBar} app=${app} session=${session} view="tree" entry=${loaded.value?.tree.ids.at(-1)} />
    ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`
      : loaded.value ? html`<${Tree} key=${loaded.value.cursor.replace(/^\d+-/, "")} app=${app} session=${session}
          loaded=${loaded.value} at=${query.get("at")} reload=${loaded.reload} />`
        : html`<${Skeleton} rows=${12} height=${28} />`}
  </div>`;
}

function Tree({ app, session, loaded, at, reload }) {
  const model = useMemo(() => new TreeModel(loaded.tree), [loaded]);
  const version = useGrowing(app, session, model, loaded.cursor, reload);
  const [folded, setFolded] = useState(() => firstFoldsFor(model, model.seqOf(at)));
  const [openRuns, setOpenRuns] = useState(new Set());
  const [only, setOnly] = useState("");
  const [zoom, setZoom] = useState(1);
  const [selected, setSelected] = useState(() => model.seqOf(at) || model.leaf);
  const [reveal, setReveal] = useState(() => ({ seq: model.seqOf(at) || model.leaf }));
  const phone = usePhone();
  const words = useWords(app, session);
  const drawn = useMemo(() => {
    const found = layout(model, { folded, openRuns, only });
    // An entry inside a run gets a row of its own when a link or the path leads to it.
    return found.rows.some((row) => row.seq === selected)
      ? found
      : layout(model, { folded, openRuns, only, pinned: new Set([selected]) });
  }, [version, model, folded, openRuns, only, selected]);
  const near = useMemo(() => new Set(model.pathTo(selected)), [version, model, selected]);
  const branchPoints = useMemo(() => model.branchPoints(), [version, model]);
  const sides = branchPoints.reduce((sum, seq) => sum + model.children(seq).length - (seq === model.leaf ? 0 : 1), 0);
  useFollowing(model, selected, version, (seq) => { setSelected(seq); setReveal({ seq, gently: true }); });

  const select = useCallback((seq, show = false) => {
    setFolded((before) => without(before, foldsAbove(model, seq, before)));
    setSelected(seq);
    app.setQuery({ at: seq === model.leaf ? null : model.node(seq).id }, { replace: true });
    if (show) setReveal({ seq });
  }, [model]);
  const open = (seq) => app.navigate(path.entry(session, model.node(seq).id));
  const toggle = (row, opening) => {
    if (row.branches) setFolded((before) => flipped(before, row.seq, opening === undefined ? !row.hidden : !opening));
    else if (row.kind === "run") setOpenRuns((before) => flipped(before, row.seq, true));
    else if (row.runOf) {
      setOpenRuns((before) => flipped(before, row.runOf, false));
      setSelected(row.runOf);
    }
  };
  const copyLink = (seq) =>
    copy(new URL(app.href(path.entry(session, model.node(seq).id)), document.baseURI).href, app, "link");
  const nextBranch = () => {
    const place = drawn.rows.findIndex((row) => row.seq === selected);
    const next =
      drawn.rows.find((row, other) => other > place && row.branches) ?? drawn.rows.find((row) => row.branches);
    if (next) select(next.seq, true);
  };
  const zoomBy = (factor) => setZoom((before) => Math.max(ZOOM.least, Math.min(ZOOM.most, before * factor)));
  useKeys([
    { keys: "b", label: "next branch point", run: nextBranch },
    { keys: "l", label: "back to the live leaf", run: () => select(model.leaf, true) },
    {
      keys: "w",
      label: "what the model saw there",
      run: () => app.navigate(path.saw(session, model.node(selected).id)),
    },
    { keys: "y", label: "copy the link to the selected entry", run: () => copyLink(selected) },
    { keys: "Escape", label: "back to the session", run: () => app.navigate(path.session(session)) },
    { keys: ["+", "="], label: "larger", run: () => zoomBy(ZOOM.step) },
    { keys: "-", label: "smaller", run: () => zoomBy(1 / ZOOM.step) },
    { keys: "0", label: "the usual size", run: () => setZoom(1) },
  ], { scope: "Tree" });

  if (!model.size) {
    return html`<${Empty} title="This session has no entries yet">The tree grows as they arrive.<//>`;
  }
  return html`
    <div class="toolbar tree-tools">
      <div class="segments" role="group" aria-label="Which entries have a line of their own">
        ${ONLY.map(([name, text]) => html`<button type="button" class="button" aria-pressed=${String(only === name)}
          onClick=${() => setOnly(name)}>${text}</button>`)}
      </div>
      <button type="button" class="button" disabled=${!branchPoints.length || folded.size === branchPoints.length}
        onClick=${() => setFolded(new Set(branchPoints))}>Fold all</button>
      <button type="button" class="button" disabled=${!folded.size && !openRuns.size}
        onClick=${() => { setFolded(new Set()); setOpenRuns(new Set()); }}>Unfold all</button>
      <button type="button" class="button" onClick=${() => select(model.leaf, true)}>Back to the leaf</button>
      ${phone ? null : html`<${Sizes} zoom=${zoom} zoomBy=${zoomBy} reset=${() => setZoom(1)} />`}
      <p class="meta tree-total">${entries(model.size)} · ${counted(sides, "branch", "branches")} · ${
        counted(model.labels.size, "label")}${folded.size ? ` · ${count(folded.size)} folded` : ""}${
        drawn.without ? ` · ${counted(drawn.without, "branch", "branches")} without labels not shown` : ""}</p>
    </div>
    <div class="tree-panes">
      <${TreeCanvas} ...${drawn} model=${model} words=${words} selected=${selected} path=${near} zoom=${zoom}
        phone=${phone} label=${`Entries of ${session}`} reveal=${reveal} onZoom=${setZoom}
        onSelect=${(row) => select(row.seq)}
        onOpen=${(row) => open(row.seq)} onToggle=${toggle} />
      <${SelectedEntry} app=${app} session=${session} model=${model} words=${words} seq=${selected} version=${version}
        phone=${phone} onSelect=${(seq) => select(seq, true)} onOpen=${open} />
    </div>`;
}

function Sizes({ zoom, zoomBy, reset }) {
  return html`<div class="segments" role="group" aria-label="Size">
    <button type="button" class="button" aria-label="Smaller" disabled=${zoom <= ZOOM.least}
      onClick=${() => zoomBy(1 / ZOOM.step)}>−</button>
    <button type="button" class="button num" aria-label=${`${Math.round(zoom * 100)} %, back to the usual size`}
      onClick=${reset}>${Math.round(zoom * 100)} %</button>
    <button type="button" class="button" aria-label="Larger" disabled=${zoom >= ZOOM.most}
      onClick=${() => zoomBy(ZOOM.step)}>+</button>
  </div>`;
}

const without = (set, gone) => (gone.length ? new Set([...set].filter((each) => !gone.includes(each))) : set);

/** A large tree begins folded, but for what is above the entry that a link names. */
function firstFoldsFor(model, seq) {
  const folds = firstFolds(model);
  return without(folds, foldsAbove(model, seq, folds));
}

function flipped(set, value, on) {
  const next = new Set(set);
  if (on) next.add(value);
  else next.delete(value);
  return next;
}

/** While the live leaf is selected, the selection moves on with it. */
function useFollowing(model, selected, version, move) {
  const leaf = useRef(model.leaf);
  useEffect(() => {
    if (selected === leaf.current && model.leaf !== leaf.current) move(model.leaf);
    leaf.current = model.leaf;
  }, [version]);
}

/** Follows the session, so that the tree grows; returns a number that changes with it, as often as its size allows. */
function useGrowing(app, session, model, cursor, reload) {
  const [version, redraw] = useReducer((number) => number + 1, 0);
  const timer = useRef(0);
  useEffect(() => {
    const changed = () => {
      timer.current ||= setTimeout(
        () => {
          timer.current = 0;
          redraw();
        },
        16 + model.size / 200,
      );
    };
    const stop = feedOf(app.server).session(session, { kinds: ["entry", "leaf"], since: cursor }, (event) => {
      if (event.event === "entry") {
        if (model.append(event.data)) changed();
      } else if (event.event === "leaf") {
        const leaf = model.seqOf(event.data.leaf);
        if (leaf !== model.leaf) {
          model.leaf = leaf;
          changed();
        }
      } else if (event.event === "reset") reload();
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [app.server, session, model]);
  return version;
}
