"""The exceptions of the package; all of them derive from :class:`GraphRetrieverError`.

Each message says what was given, what was expected and how to fix it. If Python has a built-in exception for the same mistake,
the class also derives from it.
"""

from collections.abc import Collection
from itertools import islice
from typing import Any


def shown(value: Any, length: int = 80) -> str:
    """Return the repr of a value that a caller passed, cut to `length` characters, or its type if it has none.

    Deeply nested lists, numbers of thousands of digits and foreign objects may have none. A repr that is cut ends in "...".

    Examples
    --------
    >>> shown("k"), shown("kkkkkkkk", 8), shown(10**5000)
    ("'k'", "'kkkk...", '<int>')
    """
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= length else text[: length - 3] + "..."


def few(items: Collection[object], separator: str = ", ") -> str:
    """Return the first ten items as text, with "..." at the end if there are more.

    >>> few(range(10)), few(range(11))
    ('0, 1, 2, 3, 4, 5, 6, 7, 8, 9', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...')
    >>> few(["Anne, Anne of Austria", "Louis"], "; ")
    'Anne, Anne of Austria; Louis'
    """
    return separator.join([*map(str, islice(items, 10)), *(["..."] if len(items) > 10 else [])])


class GraphRetrieverError(Exception):
    """Base class of all errors of this package.

    Examples
    --------
    >>> from graph_retrievers.graph import CorpusGraph
    >>> try:
    ...     CorpusGraph(["a", "a"], ["one text", "another text"])
    ... except GraphRetrieverError as error:
    ...     print(type(error).__name__)
    DuplicateNodeError
    """


def reason(error: Exception) -> str:
    """Return the text of an error, after its type if the error is not of this package; only the type if it has no text.

    Examples
    --------
    >>> reason(KeyError("k")), reason(InvalidArgumentError("k must be 1."))
    ("KeyError: 'k'", 'k must be 1.')
    """
    try:
        return str(error) if isinstance(error, GraphRetrieverError) else f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


class InvalidArgumentError(GraphRetrieverError, ValueError):
    """An argument that the operator, retriever or command does not accept."""


class UnexpectedArgumentError(InvalidArgumentError, TypeError):
    """A keyword that a retriever does not have."""


class NothingToReadError(InvalidArgumentError):
    """A source of edges reads a metadata field, titles or relationships that no node has."""


class UnknownNodeError(GraphRetrieverError, KeyError):
    """A node id that is not in the corpus graph."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return str(self.args[0]) if self.args else ""


class DuplicateNodeError(GraphRetrieverError, ValueError):
    """Two nodes were given the same id."""


class EmptyGraphError(GraphRetrieverError, ValueError):
    """An operation that needs at least one node got none."""


class DimensionMismatchError(GraphRetrieverError, ValueError):
    """Vectors whose number or width does not fit the index."""


class InvalidVectorError(GraphRetrieverError, ValueError):
    """Vectors with NaN or infinite entries."""


class EmbeddingError(GraphRetrieverError, RuntimeError):
    """An embedding model that failed among many texts; the message says how many are kept, and ``__cause__`` has its own error."""


class TimeLimitError(GraphRetrieverError, TimeoutError):
    """A retriever has no answer when its ``time_limit`` ends; `trace` has the requests until then."""

    trace: Any = ()


class ConvergenceError(GraphRetrieverError, ArithmeticError):
    """An iteration that did not reach its tolerance."""


class MissingSignalError(GraphRetrieverError, ValueError):
    """An operator needs a signal (vectors, BM25, a relevance model) that the index does not have."""


class CorruptIndexError(GraphRetrieverError):
    """A saved index whose files are missing, truncated or do not match their checksums."""


class IndexWriteError(GraphRetrieverError, OSError):
    """An index that cannot be written: the disk is full, or the folder is not writable."""


class IndexVersionError(GraphRetrieverError):
    """A saved index in another version of the format."""


class ModelHeadError(GraphRetrieverError, ValueError):
    """A model without a classification head, or with a head that cannot be split from its encoder."""


class DeviceError(GraphRetrieverError, RuntimeError):
    """A device that this machine does not have."""


class MissingDependencyError(GraphRetrieverError, ImportError):
    """An optional package is not installed; the message names the extra to install."""


class DatasetError(GraphRetrieverError, ValueError):
    """A dataset folder or file that cannot be read; the message names the file and the line."""


class InvalidPlanError(GraphRetrieverError, ValueError):
    """A reasoning plan that does not fit the graph's schema."""


class LanguageModelError(GraphRetrieverError):
    """A language model failed, or its answer could not be parsed."""


class DatabaseError(GraphRetrieverError):
    """A graph database refused a connection or a query."""


class StaleIndexError(DatabaseError):
    """An index in a database that was written again since it was opened."""


class DatabaseUnreachableError(DatabaseError, ConnectionError):
    """A graph database that does not answer: the server is down, or the address is wrong."""


class DatabaseAuthError(DatabaseError):
    """A graph database that refused the user or the password."""


class MissingDatabaseFeatureError(DatabaseError):
    """A graph database without the index, function or procedure that a query needs."""
