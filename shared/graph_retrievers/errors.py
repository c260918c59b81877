"""Every error the package raises on purpose: one small tree under :class:`GraphRetrieverError`.

Each message names what was given, what was expected and how to mend it. Where Python has a
built-in class for the same mistake, the error derives from it too, so ``except ValueError`` works.
"""

from __future__ import annotations

__all__ = [
    "ConvergenceError",
    "CorruptIndexError",
    "DatabaseAuthError",
    "DatabaseError",
    "DatabaseUnreachableError",
    "DatasetError",
    "DeviceError",
    "DimensionMismatchError",
    "DuplicateNodeError",
    "EmptyGraphError",
    "GraphRetrieverError",
    "IndexVersionError",
    "InvalidArgumentError",
    "InvalidPlanError",
    "InvalidVectorError",
    "LanguageModelError",
    "MissingDatabaseFeatureError",
    "MissingDependencyError",
    "MissingSignalError",
    "ModelHeadError",
    "UnexpectedArgumentError",
    "UnknownNodeError",
]


class GraphRetrieverError(Exception):
    """Root of all errors of this package."""


class InvalidArgumentError(GraphRetrieverError, ValueError):
    """An argument lies outside what the operator, retriever or command accepts."""


class UnexpectedArgumentError(InvalidArgumentError, TypeError):
    """A keyword that a retriever does not read."""


class UnknownNodeError(GraphRetrieverError, KeyError):
    """A node id that the corpus graph does not hold."""

    def __str__(self) -> str:
        """Return the message as written, without the quotes KeyError would add."""
        return str(self.args[0]) if self.args else ""


class DuplicateNodeError(GraphRetrieverError, ValueError):
    """Two nodes were given the same id."""


class EmptyGraphError(GraphRetrieverError, ValueError):
    """An operation that needs at least one node was given none."""


class DimensionMismatchError(GraphRetrieverError, ValueError):
    """Vectors whose number or width differs from what the index holds."""


class InvalidVectorError(GraphRetrieverError, ValueError):
    """Vectors with NaN or infinite entries."""


class ConvergenceError(GraphRetrieverError, ArithmeticError):
    """An iteration that did not reach its tolerance."""


class MissingSignalError(GraphRetrieverError, ValueError):
    """An operator needs a signal (vectors, BM25, a relevance model) that the index was built without."""


class CorruptIndexError(GraphRetrieverError):
    """A saved index whose files are missing, cut short or do not match their checksums."""


class IndexVersionError(GraphRetrieverError):
    """A saved index written by a newer version of the format."""


class ModelHeadError(GraphRetrieverError, ValueError):
    """A model without a classification head, or with a head that cannot be split from its encoder."""


class DeviceError(GraphRetrieverError, RuntimeError):
    """A device that this machine does not have."""


class MissingDependencyError(GraphRetrieverError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class DatasetError(GraphRetrieverError, ValueError):
    """A dataset folder or file that cannot be read as one; the message names the file and the line."""


class InvalidPlanError(GraphRetrieverError, ValueError):
    """A reasoning plan that does not fit the graph's schema."""


class LanguageModelError(GraphRetrieverError):
    """A language model failed or answered in a form that could not be read."""


class DatabaseError(GraphRetrieverError):
    """A graph database refused a connection or a query."""


class DatabaseUnreachableError(DatabaseError, ConnectionError):
    """A graph database that does not answer: the server is gone, or the address is wrong."""


class DatabaseAuthError(DatabaseError):
    """A graph database that refused the user or the password."""


class MissingDatabaseFeatureError(DatabaseError):
    """A graph database without the index, function or procedure that a query needs."""
