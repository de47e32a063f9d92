// Two branches side by side, from the entry that both have: what each did, turn by turn.

import { html, useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { CompareSide, loadSide } from "../parts/compare-side.js";
import { EntryBody } from "../parts/content.js";
import { copy } from "../parts/copy.js";
import { useKeys } from "../parts/keys.js";
import { Empty, Failure, Skeleton, useLoad } from "../parts/notices.js";
import { entries } from "../parts/numbers.js";
import { path } from "../parts/paths.js";
import { usePhone } from "../parts/phone.js";
import { SessionBar } from "../parts/session-bar.js";
import { TreeModel } from "../parts/tree-model.js";

/** The page `/s/ID/compare/A/B`: the paths that end at two entries. */
export default function ComparePage({ params, app }) {
  const { session, a, b } = params;
  const at = `sessions/${encodeURIComponent(session)}`;
  const loaded = useLoad(async (signal) => {
    const { tree } = await app.server.get(`${at}/tree/columns`, { signal });
    const model = new TreeModel(tree);
    const [one, other] = [model.seqOf(a), model.seqOf(b)];
    if (!one || !other) return { model, missing: one ? b : a };
    const common = model.commonAncestor(one, other);
    const commonId = model.node(common)?.id;
    const [left, right, entry] = await Promise.all([
      loadSide(app.server, at, model, common, one, signal),
      loadSide(app.server, at, model, common, other, signal),
      commonId ? app.server.get(`${at}/entries/${encodeURIComponent(commonId)}`, { signal }) : null,
    ]);
    return { model, common, entry, sides: [left, right] };
  }, [session, a, b]);
  useKeys([
    { keys: "t", label: "tree", run: () => app.navigate(path.tree(session)) },
    { keys: "y", label: "copy the link to this page", run: () => copy(location.href, app, "link") },
    { keys: "Escape", label: "back to the session", run: () => app.navigate(path.session(session)) },
  ], { scope: "Compare" });
  const value = loaded.value;
  return html`<div class="page-compare fills">
    <${SessionBar} app=${app} session=${session} view="compare" entry=${a} />
    ${loaded.error ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`
      : !value ? html`<${Skeleton} rows=${10} height=${44} />`
        : value.missing ? html`<${Empty} title="One of the two entries is not in this session">
            <span class="mono" dir="auto">${value.missing}</span> is unknown here;${" "}
            <a href=${app.href(path.tree(session))}>the tree</a> shows all that are.<//>`
          : html`<${Compared} key=${`${a} ${b}`} app=${app} session=${session} value=${value} />`}
  </div>`;
}

function Compared({ app, session, value }) {
  const { model, common, entry, sides } = value;
  const [together, setTogether] = useState(true);
  const [tab, setTab] = useState(0);
  const phone = usePhone();
  const boxes = [useRef(null), useRef(null)];
  const leading = useRef(-1);
  const turn = useRef(0);

  const follow = useCallback((side) => {
    turn.current = turnInView(boxes[side].current);
    if (!together || phone || leading.current !== side) return;
    align(boxes[1 - side].current, boxes[side].current);
  }, [together, phone]);
  const drawnTab = useRef(0);
  useEffect(() => {
    if (phone && drawnTab.current !== tab)
      boxes[tab].current?.querySelector(`[data-turn="${Math.floor(turn.current)}"]`)?.scrollIntoView();
    drawnTab.current = tab;
  }, [tab]);

  const count = model.pathTo(common).length;
  const same = sides.some((side) => side.total === 0);
  const drawn = sides.map((side, place) => html`<${CompareSide} key=${place} app=${app} session=${session}
    model=${model} side=${side} name=${"AB"[place]} box=${boxes[place]} hidden=${phone && tab !== place}
    onLead=${() => { leading.current = place; }}
    onScroll=${() => follow(place)} other=${sides[1 - place]} />`);
  return html`
    <section class="compare-common" aria-label="What both branches have">
      <details>
        <summary><span>${count ? `Both begin with the same ${entries(count)}` : "They have no entry in common"}</span>
          ${entry ? html`<span class="soft">show the last of them</span>` : null}</summary>
        ${entry ? html`<div class="compare-entry"><${EntryBody} entry=${entry} app=${app} />
          <p class="meta"><a href=${app.href(path.entry(session, entry.id))}>In the session</a></p></div>` : null}
      </details>
      ${phone ? null : html`<label class="compare-together"><input type="checkbox" checked=${together}
        onChange=${(event) => setTogether(event.target.checked)} /> scroll together</label>`}
    </section>
    ${same ? html`<p class="notice">
      One of the two entries is on the path to the other, so one side has nothing of its own.
    </p>` : null}
    ${phone ? html`<${Tabs} tab=${tab} onTab=${setTab} />` : null}
    <div class="compare-sides">${drawn}</div>`;
}

function Tabs({ tab, onTab }) {
  const onKeyDown = (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") onTab(1 - tab);
  };
  return html`<div class="segments compare-tabs" role="tablist" aria-label="Which branch" onKeyDown=${onKeyDown}>
    ${["A", "B"].map((name, place) => html`<button type="button" role="tab" class="button" id=${`tab-${name}`}
      tabindex=${tab === place ? 0 : -1} aria-selected=${String(tab === place)} aria-controls=${`side-${name}`}
      onClick=${() => onTab(place)}>
      Branch ${name}
    </button>`)}
  </div>`;
}

/** Which turn is at the top of a side, with how far it is scrolled through, as one number. */
function turnInView(box) {
  const top = box.getBoundingClientRect().top;
  let at = 0;
  for (const turn of box.querySelectorAll("[data-turn]")) {
    const rect = turn.getBoundingClientRect();
    if (rect.top > top + 1) break;
    at = Number(turn.dataset.turn) + Math.min(0.999, Math.max(0, (top - rect.top) / Math.max(1, rect.height)));
  }
  return at;
}

/** Scrolls one side to where the other is: to the same part of the same turn, or to its end if it has fewer. */
function align(box, like) {
  const at = turnInView(like);
  const turns = [...box.querySelectorAll("[data-turn]")];
  const turn = turns.find((each) => Number(each.dataset.turn) === Math.floor(at));
  if (turn) {
    const rect = turn.getBoundingClientRect();
    box.scrollTop += rect.top - box.getBoundingClientRect().top + (at % 1) * rect.height;
  } else {
    box.scrollTop = turns.length && Number(turns[0].dataset.turn) < at ? box.scrollHeight : 0;
  }
}
