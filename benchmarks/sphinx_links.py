"""Links of the sources of a documentation made with Sphinx, compared to those of its built HTML.

    sphinx-build -b html doc /tmp/html
    python benchmarks/sphinx_links.py doc /tmp/html

Prints the links from page to page of both, the share of those of the HTML that the sources have, and the reverse; then the same for
pages into which no docstring and no file is inserted, which needs the code to run; then the first links that are missing.
"""

import argparse
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from graph_retrievers.construction import read_folder

INSERTED = re.compile(r"^\s*\.\. (?:py:)?(?:auto\w+|include|click|jinja)::|:members:", re.MULTILINE)


def links(folder):
    """Return the links between pages, named without their ending, and the pages."""
    nodes = read_folder(folder)
    pages = {node.metadata["path"] for node in nodes}
    found = set()
    for node in nodes:
        for link in [*node.metadata["links"], *node.metadata.get("contents", ())]:
            page = unquote(link[1:].partition("#")[0])
            if link.startswith("/") and page in pages and page != node.metadata["path"]:
                found.add((posixpath.splitext(node.metadata["path"])[0], posixpath.splitext(page)[0]))
    return found, {posixpath.splitext(page)[0] for page in pages}


def told(name, sources, html):
    both = len(sources & html)
    found, right = both / max(1, len(html)), both / max(1, len(sources))
    print(f"{name}: sources {len(sources)}, HTML {len(html)}, both {both}; found {found:.3f}, right {right:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("html", type=Path)
    args = parser.parse_args()
    (sources, pages), (html, built) = links(args.sources), links(args.html)
    sources, html = ({link for link in found if pages & built >= set(link)} for found in (sources, html))
    told("all pages", sources, html)
    texts = {page: (args.sources / f"{page}.rst") for page in pages}
    whole = {page for page, path in texts.items() if path.is_file() and not INSERTED.search(path.read_text(encoding="utf-8"))}
    sources, html = ({link for link in found if link[0] in whole} for found in (sources, html))
    told("pages without inserted text", sources, html)
    print("missing:", sorted(html - sources)[:10])


if __name__ == "__main__":
    main()
