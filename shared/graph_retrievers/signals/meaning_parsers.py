"""Abstract Meaning Representations as meaning graphs: from existing PENMAN notation, and by amrlib."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError, shown
from graph_retrievers.signals.meaning import MeaningGraph

__all__ = ["AmrlibParser", "PenmanParser"]


def penman_graph(text: str) -> MeaningGraph:
    """Return the graph of an AMR in PENMAN notation; InvalidArgumentError if it cannot be read.

    Variables are nodes in the order of the text, with their concepts as labels; constants (names, numbers, polarity) are separate
    nodes after them. Inverted roles (``:ARG0-of``) are reversed, so that every relation leads from its source. Names of roles are
    without the colon.

    >>> penman_graph('(w / write-01 :ARG0 (p / person :name (n / name :op1 "Ada")))').labelled_relations()
    (('write-01', 'ARG0', 'person'), ('person', 'name', 'name'), ('name', 'op1', 'Ada'))
    """
    penman = _penman()
    if not isinstance(text, str):
        raise InvalidArgumentError(f"An AMR in PENMAN notation is a string, got {shown(text)}.")
    try:
        # The AMR model distinguishes inverse roles from roles whose names also end in "-of", such as :consist-of.
        graph = penman.decode(text, model=penman.models.amr.model)
    except (penman.exceptions.PenmanError, RecursionError) as error:
        raise InvalidArgumentError(f"{shown(text)} is not an AMR in PENMAN notation: {error}") from error
    instances = {variable: str(concept or "") for variable, _, concept in graph.instances()}
    rows = {variable: row for row, variable in enumerate(instances)}
    concepts, relations = list(instances.values()), []
    for source, role, target in graph.edges():
        if source in rows and target in rows:
            relations.append((rows[source], role.removeprefix(":"), rows[target]))
    for source, role, value in graph.attributes():
        if source in rows and value is not None:
            relations.append((rows[source], role.removeprefix(":"), len(concepts)))
            concepts.append(str(value).strip('"'))
    return MeaningGraph.of(concepts, relations)


class PenmanParser:
    """Existing graphs of texts.

    Parameters
    ----------
    graphs : mapping of str to str, or str or Path
        The AMR of each text in PENMAN notation, or a file of AMRs with their texts in ``# ::snt`` lines, as written by corpora and
        parsers, with an empty line after each. Of several with the same text, the first counts.
    name : str, default "penman"
        Name of the original parser, if graphs of several parsers are kept in one file.

    Raises
    ------
    InvalidArgumentError
        If the file cannot be read, or no AMR in it has a ``::snt`` line.
    MissingDependencyError
        If the penman library is not installed.

    Notes
    -----
    A text that is not among them, or whose AMR is not well formed, has an empty graph. White space does not matter. G-RAG looks
    up documents by their contents, "<title>. <text>" if they have titles, and a question as ``question: <question>``. If only the
    question itself is among them, its graph gets a node ``question`` before its top.

    Examples
    --------
    >>> parser = PenmanParser({"She writes.": "(w / write-01 :ARG0 (s / she))"})
    >>> [graph.concepts for graph in parser.parse(["She writes.", "He reads."])]
    [('write-01', 'she'), ()]
    """

    def __init__(self, graphs: Mapping[str, str] | str | Path, name: str = "penman") -> None:
        _penman()
        if isinstance(graphs, str | Path):
            pairs = _read_pairs(Path(graphs))
        elif isinstance(graphs, Mapping):
            pairs = list(graphs.items())
        else:
            raise InvalidArgumentError(f"Expected AMRs by their texts or a file of them, got {shown(graphs)}.")
        for text, amr in pairs:
            if not isinstance(text, str) or not isinstance(amr, str):
                raise InvalidArgumentError(f"The AMR of {shown(text)} is {shown(amr)}; expected strings.")
        self.name, self._graphs = name, {" ".join(text.split()): amr for text, amr in reversed(pairs)}

    def parse(self, texts: Sequence[str]) -> list[MeaningGraph]:
        """Return the graph of each text."""
        return [self._graph(" ".join(text.split())) for text in texts]

    def _graph(self, text: str) -> MeaningGraph:
        if text in self._graphs:
            return _graph_or_empty(self._graphs[text])
        question = _graph_or_empty(self._graphs.get(text.removeprefix("question: ")))
        if not question.concepts:
            return question
        relations = ((source + 1, role, target + 1) for source, role, target in question.relations)
        return MeaningGraph.of(("question", *question.concepts), [(0, "topic", 1), *relations])


class AmrlibParser:
    """Graphs that a model of amrlib finds (``pip install 'graph-retrievers[amr]'``).

    Parameters
    ----------
    model : object
        The result of ``amrlib.load_stog_model(folder)``, or any object with ``parse_sents(texts)`` that returns PENMAN strings.
        amrlib's documentation lists where to get its models; nothing is downloaded here.
    name : str, default "amrlib"
        Name of the model, if graphs of several models are kept in one file.

    Raises
    ------
    InvalidArgumentError
        If the model has no ``parse_sents``.

    Notes
    -----
    A text is parsed as a whole, as in G-RAG, and cut by the model if it is too long. A text for which the model returns no
    well-formed AMR has an empty graph.

    Examples
    --------
    >>> class Model:
    ...     def parse_sents(self, texts, add_metadata=True):
    ...         return ["(w / write-01 :ARG0 (s / she))" for text in texts]
    >>> AmrlibParser(Model()).parse(["She writes."])[0].concepts
    ('write-01', 'she')
    """

    def __init__(self, model: Any, name: str = "amrlib") -> None:
        _penman()
        if isinstance(model, type) or not callable(getattr(model, "parse_sents", None)):
            raise InvalidArgumentError(
                f"Expected a model of amrlib, got {shown(model)}; load one with amrlib.load_stog_model(folder)."
            )
        self.model, self.name = model, name

    def parse(self, texts: Sequence[str]) -> list[MeaningGraph]:
        """Return the graph of each text."""
        return [_graph_or_empty(amr) for amr in self.model.parse_sents(list(texts), add_metadata=False)]


def _graph_or_empty(text: str | None) -> MeaningGraph:
    try:
        return penman_graph(text) if text else MeaningGraph()
    except InvalidArgumentError:
        return MeaningGraph()


def _read_pairs(file: Path) -> list[tuple[str, str]]:
    """Return the texts and AMRs of a file; the AMRs are not read yet, so that one that is broken does not spoil the others."""
    try:
        blocks = re.split(r"\n\s*\n", file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{file} cannot be read as AMRs in PENMAN notation: {error}") from error
    texts = ((re.search(r"^#.*?::snt[^\S\n]++(.*)", block, re.MULTILINE), block) for block in blocks)
    # Other fields of the line follow the text.
    pairs = [(re.split(r"::(?=\w)", text[1])[0].rstrip(), block) for text, block in texts if text is not None]
    if not pairs:
        raise InvalidArgumentError(f"{file} has no AMR with its text in a line '# ::snt ...'.")
    return pairs


def _penman() -> Any:
    try:
        import penman
        import penman.models.amr
    except ImportError as error:
        raise MissingDependencyError("penman is not installed; run pip install 'graph-retrievers[meaning]'.") from error
    return penman
