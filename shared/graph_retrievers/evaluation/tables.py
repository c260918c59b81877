"""Plain-text tables of an evaluation, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.evaluation.significance import Comparison

__all__ = ["results_table"]


def results_table(evaluation: Evaluation, comparisons: Sequence[Comparison] = ()) -> str:
    """Return Recall@k (capped), nDCG@k, MRR, Hit@1, Hit@k and mean query time, with a line for each retriever.

    If most queries have several relevant nodes, Recall@2, Recall@5 and All@5 come first (``Evaluation.multi_hop``). If
    comparisons are given, a last column names the retrievers that are significantly worse.
    """
    k = evaluation.k
    names = [*evaluation.multi_hop, f"recall@{k}", f"ndcg@{k}", "mrr", *dict.fromkeys(["hit@1", f"hit@{k}"])]
    titles = [*evaluation.multi_hop.values(), f"Recall@{k}", f"nDCG@{k}", "MRR", *dict.fromkeys(["Hit@1", f"Hit@{k}"])]
    rows = [["retriever", *titles, "time/query"]]
    for retriever, values in evaluation.results().items():
        rows.append([retriever, *(f"{values[name]:.4f}" for name in names), format_seconds(values.get("seconds_per_query"))])
    lines = aligned(rows).split("\n")
    if comparisons:
        above = {name: " ".join(c.worse for c in comparisons if c.better == name and c.real) for name in evaluation.retrievers}
        width = max(map(len, lines))
        endings = ["really above", *(above[name] or "-" for name in evaluation.retrievers)]
        lines = [f"{line.ljust(width)}  {ending}" for line, ending in zip(lines, endings, strict=True)]
    return "\n".join(lines)


def source_rows(evaluation: Evaluation, retrievers: Sequence[str] | None = None) -> list[list[str]]:
    """Return a table of multi-hop questions by their source, as rows of cells, with the titles first.

    There is a row for each source and each of `retrievers` (all by default): Recall@2, Recall@5, All@5 (``Evaluation.multi_hop``)
    and Recall@k. Only multi-hop questions with a source have rows.
    """
    titles = evaluation.multi_hop | {f"recall@{evaluation.k}": f"Recall@{evaluation.k}"}
    groups = evaluation.sources() if evaluation.multi_hop else {}
    rows = [
        [source, str(len(queries)), name, *(f"{fmean(evaluation.column(name, metric, queries)):.3f}" for metric in titles)]
        for source, queries in groups.items()
        for name in (evaluation.retrievers if retrievers is None else retrievers)
    ]
    return [["source", "questions", "retriever", *titles.values()], *rows] if rows else []


def format_seconds(seconds: float | None) -> str:
    """Return a duration with its unit, "-" for None.

    >>> format_seconds(0.0008), format_seconds(0.035), format_seconds(2.414)
    ('0.8 ms', '35 ms', '2.41 s')
    """
    if seconds is None:
        return "-"
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines, the first column aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def join_names(names: Sequence[str]) -> str:
    """Return names as in a sentence: ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
