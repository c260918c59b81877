"""Recall and precision of the links of random vaults of Obsidian, Logseq and Dendron, by kind of link and by reader.

    python benchmarks/vaults.py [--notes 200] [--seed 0] [--only obsidian,logseq,dendron]

The vaults and their links are those of tests/vaults.py. Documents are read as text, as LangChain's ObsidianLoader and LlamaIndex'
ObsidianReader return them, and cut by LangChain's splitter of Markdown. An edge is right if a link explains it: the two notes, the
relation, and the section or the block in the chunk to which it leads. ObsidianReader drops the addresses of ordinary links of
Markdown, which are not counted for it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from langchain_text_splitters import RecursiveCharacterTextSplitter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graph_retrievers.construction import Links, build_edges, read_folder
from graph_retrievers.construction.documents import to_nodes
from tests.pages import written
from tests.vaults import dendron, logseq, obsidian, obsidian_documents, obsidian_nodes, score, text_documents

MAKERS = {"obsidian": obsidian, "logseq": logseq, "dendron": dendron}


def main() -> None:
    """Print a line for each reader and a table of the kinds of links."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--notes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(MAKERS))
    args = parser.parse_args()
    cut = RecursiveCharacterTextSplitter.from_language("markdown", chunk_size=800, chunk_overlap=0, add_start_index=True)
    for name in args.only.split(","):
        vault = MAKERS[name](args.seed, args.notes)
        with tempfile.TemporaryDirectory() as folder:
            root = written(Path(folder).resolve() / "vault", vault.pages)
            readers = {
                "read_folder": read_folder(root),
                "texts": to_nodes(text_documents(root)),
                "ObsidianLoader": to_nodes(obsidian_documents(root)),
                "ObsidianReader": to_nodes(obsidian_nodes(root)),
                "splitter": to_nodes(cut.split_documents(text_documents(root))),
            }
            kinds: dict[str, dict[str, str]] = {}
            for reader, nodes in readers.items():
                lost = ("Markdown", "shown ") if reader == "ObsidianReader" else ()
                links = [link for link in vault.links if not (lost and link.kind.startswith(lost))]
                edges = build_edges(nodes, Links(field="links" if reader == "read_folder" else None))
                found, wrong, count = score(edges, nodes, vault._replace(links=links), root)
                recall = sum(right for right, _ in found.values()) / len(links)
                precision = 1 - len(wrong) / max(count, 1)
                print(f"{name}, {reader}: recall {recall:.3f} of {len(links)}, precision {precision:.3f} of {count}")
                for kind, (right, total) in found.items():
                    kinds.setdefault(kind, {})[reader] = f"{right / total:.3f}"
        print(f"\n| {name} | {' | '.join(readers)} |\n| --- {'| --- ' * len(readers)}|")
        for kind, told in kinds.items():
            print(f"| {kind} | {' | '.join(told.get(reader, '') for reader in readers)} |")
        print()


if __name__ == "__main__":
    main()
