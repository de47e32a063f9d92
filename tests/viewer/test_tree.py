"""The tree page: large trees within a bounded document, folded, zoomed, walked by keys, growing while one looks."""

import json
import random
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from treering import SessionHost

from .conftest import Site
from .trees import grow, turns

pytestmark = pytest.mark.browser

ROWS = ".tree-row"
IMPORTS = """async () => {
  const app = document.querySelector("script[type=module]").src;
  const it = {};
  for (const name of ["tree-model", "tree-layout"]) Object.assign(it, await import(new URL(`parts/${name}.js`, app)));
  const given = GIVEN;
  return (SCRIPT)(it, given);
}"""

INVARIANTS = """({ TreeModel, layout, firstFolds, foldsAbove, OPEN_ROWS_MAX }, shapes) => shapes.map((columns) => {
  const model = new TreeModel(columns);
  const path = new Set(model.pathTo(model.leaf));
  const whole = layout(model);
  const covered = whole.rows.reduce((sum, row) => sum + row.count, 0);
  const atLeft = whole.rows.filter((row) => row.onPath).every((row) => row.lane === 0);
  const apart = whole.rows.filter((row) => row.kind === "run").every((row) => {
    for (let at = row.last; at !== row.seq; at = model.node(at).parent) {
      if (model.children(model.node(at).parent).length > 1) return false;
    }
    return path.has(row.seq) === path.has(row.last);
  });
  const folds = new Set(model.branchPoints());
  const folded = layout(model, { folded: folds });
  const hidden = folded.rows.reduce((sum, row) => sum + row.count + (row.hidden?.entries ?? 0), 0);
  const some = model.seqs[Math.floor(model.size / 3)];
  const opened = new Set([...folds].filter((seq) => !foldsAbove(model, some, folds).includes(seq)));
  const shown = layout(model, { folded: opened, pinned: new Set([some]) }).rows.some((row) => row.seq === some);
  const labels = layout(model, { only: "labels" });
  const branches = layout(model, { only: "branches" });
  const closed = whole.rows.filter((row) => row.kind === "run");
  const runs = layout(model, { openRuns: new Set(closed.map((row) => row.seq)) });
  return {
    covered, atLeft, apart, hidden, shown, size: model.size, rows: whole.rows.length, folded: folded.rows.length,
    foldedToPath: folded.rows.every((row) => row.lane === 0), starts: firstFolds(model).size,
    labels: labels.rows.filter((row) => row.kind === "node" && model.labelOf(row.seq)).length,
    branches: branches.rows.reduce((sum, row) => sum + row.count, 0),
    named: model.labels.size, single: runs.rows.length,
    most: OPEN_ROWS_MAX, points: folds.size,
  };
})"""


async def in_page(page: Page, script: str, given: Any) -> Any:  # noqa: ANN401  # any JSON
    """Run a function of the modules of the tree, and of what is given."""
    return await page.evaluate(IMPORTS.replace("GIVEN", json.dumps(given)).replace("SCRIPT", script))


def columns(parents: list[int], leaf: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    seqs = list(range(1, len(parents) + 1))
    types = [["message", "user"], ["message", "assistant"]]
    ids = [f"e{seq}" for seq in seqs]
    kinds = [seq % 2 for seq in seqs]
    return {
        "ids": ids,
        "seqs": seqs,
        "parents": parents,
        "kinds": kinds,
        "types": types,
        "labels": labels or {},
        "leaf": leaf,
    }


def random_tree(size: int, rng: random.Random, branching: float) -> dict[str, Any]:
    parents = [0]
    for seq in range(2, size + 1):
        below = rng.randrange(0, seq) if rng.random() < branching else seq - 1
        parents.append(below)
    labels = {f"e{rng.randrange(1, size + 1)}": "here" for _ in range(3)}
    return columns(parents, rng.randrange(1, size + 1), labels)


async def test_any_tree_has_each_entry_in_one_row_and_the_path_to_its_leaf_at_the_left(site: Site, page: Page) -> None:
    rng = random.Random(5)
    shapes = [random_tree(rng.randrange(1, 60), rng, rng.choice((0.1, 0.4, 0.8))) for _ in range(150)]
    wide = columns([0] + [1] * 2500, 2)
    deep = columns(list(range(20_000)), 20_000)
    await page.goto(f"{site.url}sessions")
    found = await in_page(page, INVARIANTS, [*shapes, wide, deep])
    for each in found:
        assert each["covered"] == each["size"] == each["hidden"] == each["branches"] == each["single"]
        assert each["atLeft"]
        assert each["apart"]
        assert each["shown"]
        assert each["foldedToPath"] or each["points"] == 0
        assert each["labels"] >= each["named"]
        assert (each["starts"] > 0) == (each["rows"] > each["most"] and each["points"] > 0)
    assert (found[-2]["starts"], found[-2]["folded"]) == (1, 2)
    assert found[-1]["rows"] == 3  # its first entry, a run, its leaf


async def height_of(page: Page) -> float:
    """Return the height of a row."""
    # looked up and measured in one step: between two, the row may be drawn anew, and what is gone has no height
    found = await page.wait_for_function(f"() => document.querySelector('{ROWS}')?.getBoundingClientRect().height")
    height: float = await found.json_value()
    return height


@pytest.mark.feature("S-36")
async def test_a_tree_of_5000_entries_and_300_branches(site: Site, host: SessionHost, page: Page) -> None:
    session = await host.create("huge")
    path = await grow(session, entries=5000, branches=300)
    labelled = session.labels()
    await page.goto(f"{site.url}s/huge/tree")
    tree = page.get_by_role("tree")
    await expect(page.get_by_text("5,000 entries · 300 branches · 8 labels")).to_be_visible()
    # the live leaf is marked, in view, in the left lane, and selected
    leaf = page.get_by_role("treeitem", selected=True)
    await expect(leaf).to_contain_text("live leaf")
    assert await leaf.get_attribute("aria-level") == "1"
    assert await page.evaluate("document.querySelectorAll('.tree-lines .node.leaf').length") == 1
    assert await page.evaluate("document.querySelectorAll('*').length") < 1_500
    assert int(await leaf.get_attribute("aria-setsize") or 0) > 1_000
    # scrolled to any place, the document stays as small
    for share in (0.2, 0.6, 0.9):
        await tree.evaluate("(box, share) => { box.scrollTop = box.scrollHeight * share }", share)
        await expect(page.locator(ROWS).first).to_be_visible()
        assert await page.evaluate("document.querySelectorAll('*').length") < 1_500

    # zoom: buttons, keys, Ctrl with the wheel, and back
    size = page.get_by_role("button", name=re.compile("usual size"))
    height = await height_of(page)
    await page.get_by_role("button", name="Smaller").click()
    await expect(size).to_have_text("80 %")
    # a function: the page's policy forbids to evaluate a string again
    shown = f"document.querySelector('{ROWS}')?.offsetHeight ?? 0"
    await page.wait_for_function(f"() => Math.abs(({shown}) - {height * 0.8}) < 1")
    await page.keyboard.press("-")
    await expect(size).to_have_text("64 %")
    await tree.hover()
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -200)
    await page.keyboard.up("Control")
    await expect(size).not_to_have_text("64 %")
    await page.keyboard.press("0")
    await expect(size).to_have_text("100 %")
    top = await tree.evaluate("box => box.scrollTop")
    box = await tree.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 500, box["y"] + 200)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 500, box["y"] + 350, steps=4)
    await page.mouse.up()
    assert await tree.evaluate("box => box.scrollTop") == pytest.approx(top - 150, abs=12)

    # folded at a branch point with the number that is hidden; all at once; and back
    await page.get_by_role("button", name="Fold all", exact=True).click()
    first = page.locator(".tree-count", has_text="folded").first
    await expect(first).to_contain_text(re.compile(r"\d+ branch(es)? folded, [\d,]+ entr"))
    assert await page.evaluate("[...document.querySelectorAll('.tree-row')].every((row) => row.ariaLevel === '1')")
    rows = int(await page.locator(ROWS).first.get_attribute("aria-setsize") or 0)
    await first.click()
    await expect(page.locator(ROWS).first).not_to_have_attribute("aria-setsize", str(rows))
    await page.get_by_role("button", name="Unfold all").click()
    await expect(page.get_by_text("folded,")).to_have_count(0)

    # only labels, only branches
    await page.get_by_role("button", name="Only labels").click()
    await tree.evaluate("box => { box.scrollTop = 0 }")
    await expect(page.locator(".tree-row .pill")).to_have_count(len(labelled))
    await expect(page.get_by_text("branches without labels not shown")).to_be_visible()
    await page.locator(".tree-row .pill").first.click()
    await expect(page).to_have_url(re.compile("at="))
    where = re.search(r"at=([^&]+)", page.url)
    assert where is not None
    chosen = where[1]
    assert chosen in {entry for entry, _ in labelled}
    side = page.get_by_role("region", name="The selected entry")
    await expect(side).to_contain_text(f"{len(session.path(chosen)):,} entries on its path")
    await page.get_by_role("button", name="Only branches").click()
    await page.get_by_role("button", name="All entries").click()

    # a link opens the tree at that entry; Enter opens it in the session
    await page.reload()
    await expect(page.get_by_role("treeitem", selected=True)).to_be_in_viewport()
    await tree.focus()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.url}s/huge/e/{chosen}")
    await page.go_back()

    # back to the leaf, which moves as an entry arrives
    await page.get_by_role("button", name="Back to the leaf").click()
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("live leaf")
    await session.append_message("assistant", "This came while you looked.")
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("This came while you looked.")
    assert await page.locator(".tree-row", has_text="live leaf").count() == 1
    await expect(page.get_by_role("treeitem", selected=True)).to_be_in_viewport()
    await expect(page.get_by_text("5,001 entries")).to_be_visible()
    await expect(page).to_have_url(f"{site.url}s/huge/tree")
    await expect(side).to_contain_text(f"{len(path) + 1:,} entries on its path")
    # the leaf moves to an earlier entry without any: its path is the left lane then, what was below it a branch
    await session.branch(path[10])
    await expect(side).to_contain_text("11 entries on its path")
    await page.keyboard.press("l")
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("live leaf")
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("1 branch")
    assert len(session.path()) == 11


async def test_the_tree_is_walked_by_keys_and_indented_on_the_phone(site: Site, host: SessionHost, page: Page) -> None:
    session = await host.create("s")
    ids = await session.append_many(turns(3, random.Random(2)))
    side = await session.append_many(turns(2, random.Random(3)), below=ids[5], aside=True)
    await session.append_message("user", "aside again", below=side[2], aside=True)
    await page.goto(f"{site.url}s/s/tree")
    chosen = page.get_by_role("treeitem", selected=True)
    await expect(chosen).to_contain_text("live leaf")
    await page.get_by_role("tree").focus()
    await page.keyboard.press("Home")
    await expect(chosen).to_have_attribute("aria-posinset", "1")
    await page.keyboard.press("b")
    await expect(chosen).to_contain_text("1 branch")
    await expect(chosen).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowLeft")
    await expect(chosen).to_contain_text("1 branch folded, 13 entries")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await expect(chosen).to_have_attribute("aria-level", "2")
    await page.keyboard.press("ArrowLeft")
    await expect(chosen).to_contain_text("1 branch")
    run = page.locator(".tree-row.is-run").first
    words = await run.locator(".tree-count").inner_text()
    rows = await page.locator(ROWS).count()
    await run.locator(".tree-count").click()
    number = int(words.split()[0])
    await expect(page.locator(ROWS)).to_have_count(rows + number - 1)
    await page.get_by_role("button", name="fold the run").click()
    await expect(page.locator(ROWS)).to_have_count(rows)
    await page.locator(ROWS, has_text="aside again").dblclick()
    await expect(page).to_have_url(re.compile(r"/s/s/e/"))
    await page.go_back()
    await page.locator(ROWS, has_text="aside again").click()
    await page.get_by_role("link", name="Compare with the live branch").click()
    await expect(page).to_have_url(re.compile(r"/s/s/compare/"))

    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(f"{site.url}s/s/tree")
    await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("live leaf")
    assert await page.locator(".tree-lines").count() == 0
    indents = await page.locator(ROWS).evaluate_all(
        "rows => rows.map((row) => [row.ariaLevel, parseFloat(getComputedStyle(row).paddingLeft)])"
    )
    assert len({level for level, _ in indents}) == 3
    assert len({indent for _, indent in indents}) == 3
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
