"""An extension of Markdown for the site: a link to a source file, which the site does not have, becomes its text."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor


class SourceLinks(Extension):
    """Make links to source files into text that shows the path as a hint."""

    def extendMarkdown(self, md: Markdown) -> None:  # the name that Markdown calls
        """Register the processor, behind the one that makes links and before the one that resolves them."""
        md.treeprocessors.register(_Processor(md), "source_links", 15)


class _Processor(Treeprocessor):
    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            path = link.get("href", "").partition("#")[0]
            if path.startswith("../") and path.endswith((".py", ".toml", "/")):
                link.tag = "span"
                link.attrib = {"title": path.removeprefix("../")}


def makeExtension() -> SourceLinks:  # the name that Markdown looks for
    """Return the extension."""
    return SourceLinks()
