"""Folders of pages, written for a test."""

from graph_retrievers.construction import read_folder

WORDS = "Some words about looms. "


def write(folder, **pages):
    """Write pages, whose names have ``__`` for a slash and ``_md`` for ``.md``; return the folder."""
    named = {
        name.replace("__", "/").replace("_html", ".html").replace("_md", ".md").replace("_txt", ".txt"): text
        for name, text in pages.items()
    }
    return written(folder, named)


def written(folder, pages):
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return folder


def read(folder, pages, **options):
    """Return the nodes of pages, whose names are paths."""
    return read_folder(written(folder, pages), **options)
