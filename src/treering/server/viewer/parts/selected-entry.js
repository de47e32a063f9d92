// The entry that is selected in the tree, with the path to it: what is read beside the tree.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { EntryBody } from "./content.js";
import { Failure, useLoad } from "./notices.js";
import { count, entries } from "./numbers.js";
import { path } from "./paths.js";
import { visible } from "./signs.js";
import { Time } from "./time.js";
import { Word, entryWord } from "./tree-canvas.js";
import { beginning } from "./tree-words.js";
import { VirtualList } from "./virtual.js";

/**
 * The path to an entry as a list, and the entry's body.
 * @param {{app: object, session: string, model: object, words: object, seq: number, version: number, phone: boolean,
 *   onSelect: (seq: number) => void, onOpen: (seq: number) => void}} props
 */
export function SelectedEntry({ app, session, model, words, seq, version, phone, onSelect, onOpen }) {
  const node = model.node(seq);
  const settled = useSettled(node?.id);
  const loaded = useLoad(
    (signal) =>
      settled
        ? app.server.get(`sessions/${encodeURIComponent(session)}/entries/${encodeURIComponent(settled)}`, { signal })
        : Promise.resolve(null),
    [session, settled],
  );
  if (!node) return null;
  const line = model.pathTo(seq);
  const leafId = model.node(model.leaf)?.id;
  const tip = model.node(model.tipBelow(seq)).id;
  const onLivePath = line.length && model.pathTo(model.leaf).includes(seq);
  const entry = loaded.value?.id === node.id ? loaded.value : null;
  const label = model.labelOf(seq);
  return html`<section class="tree-side" aria-label="The selected entry">
    <header class="tree-side-head">
      <h2>${seq === model.leaf ? "The live leaf" : "Selected"}</h2>
      <p class="meta">
        ${entryWord(node)}${entry ? html`${" · "}<${Time} at=${entry.timestamp} app=${app} />` : null}
        ${" · "}${entries(line.length)} on its path${onLivePath ? "" : ", on another branch"}
      </p>
      ${label ? html`<p><span class="pill" dir="auto">${visible(label)}</span></p>` : null}
      <p class="tree-side-links">
        <a class="button" href=${app.href(path.entry(session, node.id))}>Open in the session</a>
        <a href=${app.href(path.saw(session, node.id))}>What the model saw</a>
        ${leafId && !onLivePath ? html`<a href=${app.href(path.compare(session, leafId, tip))}>
          Compare with the live branch
        </a>` : null}
      </p>
    </header>
    <div class="tree-side-body">
      ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />` : null}
      ${entry ? html`<${EntryBody} entry=${entry} app=${app} compact />` : null}
    </div>
    ${phone ? null : html`<h3>The path to it</h3>
      <${PathList} line=${line} model=${model} words=${words} version=${version} seq=${seq} drawn=${entry?.id}
        onSelect=${onSelect} onOpen=${onOpen} />
      `}
  </section>`;
}

function PathList({ line, model, words, seq, drawn, onSelect, onOpen }) {
  const list = useRef(null);
  const [active, setActive] = useState(line.length - 1);
  useEffect(() => {
    setActive(line.length - 1);
    list.current?.show(line.length - 1);
  }, [seq, line.length, drawn]);
  const row = (place) => {
    const each = line[place];
    const node = model.node(each);
    words.want([each]);
    const said = words.get(each);
    return html`<button type="button" class="tree-path-row" aria-current=${each === seq ? "true" : undefined}
        onClick=${() => onSelect(each)} onDblClick=${() => onOpen(each)}>
      <span class="tree-path-place num soft">${count(place + 1)}</span>
      <${Word} node=${node} failed=${said?.error} />
      <span class="tree-said" dir="auto">${beginning(said?.text ?? "")}</span>
    </button>`;
  };
  return html`<${VirtualList} count=${line.length} rowHeight=${28} row=${row} keyOf=${(place) => line[place]}
    listRef=${list} label="The path to the selected entry" active=${active} onActive=${setActive} />`;
}

/** The value after it stayed the same for a moment, so that walking through a tree does not load every entry. */
function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 120);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
