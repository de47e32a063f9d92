"""The pages of the site: their links lead somewhere, and the reference has every public name; `make docs` builds it."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import pytest

import treering
from treering.errors import ExtraMissing

from .test_samples import PROJECT

DOCS = PROJECT / "docs"
CONFIG = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))
SOURCES = (".py", ".toml", "/")
"""The ends of links that lead to no page, and that `docs.source_links` takes out of the site."""
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)[^)]*\)")


def pages(nav: object) -> Iterator[str]:
    """Yield the pages that the navigation of the site leads to."""
    match nav:
        case str(page):
            yield page
        case list(parts):
            for part in parts:
                yield from pages(part)
        case dict(titles):
            yield from pages(list(titles.values()))


def test_the_navigation_leads_to_every_page_once() -> None:
    assert sorted(pages(CONFIG["project"]["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_page_links_to_files_that_exist(page: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        target = (page.parent / link).resolve()
        assert target.exists(), link
        assert target.is_relative_to(DOCS) or link.endswith(SOURCES), f"{link} would be dead in the site"


def test_the_reference_has_every_public_name_once() -> None:
    shown = Counter[str]()
    for path in shown_paths():
        shown.update(import_module(path).__all__ if is_chapter(path) else [path.rpartition(".")[2]])
    assert [name for name, times in shown.items() if times > 1] == []
    assert [name for name in treering.__all__ if name not in {*shown, "__version__"}] == []


def test_the_reference_has_every_chapter() -> None:
    chapters = {f"treering.{each.name}" for each in iter_modules(treering.__path__) if not each.ispkg}
    assert chapters - set(shown_paths()) == set()


def is_chapter(path: str) -> bool:
    """Return whether a path is that of a module that offers names."""
    try:
        return find_spec(path) is not None and hasattr(import_module(path), "__all__")
    except (ExtraMissing, ModuleNotFoundError):  # the former for a framework that is not here; or a name in a module
        return False


def shown_paths() -> list[str]:
    """Return the modules and names that the pages of the reference show."""
    return [
        path
        for page in (DOCS / "reference").glob("*.md")
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
