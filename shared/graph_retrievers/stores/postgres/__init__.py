"""An index in PostgreSQL with pgvector: its graph, names, texts, metadata, vectors and words in plain tables.

The driver comes with the extra ``postgres``, and a server for tests and laptops with the extra ``postgres-embedded``.
"""

from graph_retrievers.stores.postgres.change import Written
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import PostgresDatabase
from graph_retrievers.stores.postgres.edge_vectors import PostgresEdgeVectors
from graph_retrievers.stores.postgres.graph import PostgresGraph
from graph_retrievers.stores.postgres.index import open_index
from graph_retrievers.stores.postgres.reading import read_index
from graph_retrievers.stores.postgres.sentences import PostgresSentences
from graph_retrievers.stores.postgres.update import update_index
from graph_retrievers.stores.postgres.vector_table import VectorTable
from graph_retrievers.stores.postgres.vectors import PostgresVectors, create_vector_index
from graph_retrievers.stores.postgres.words import PostgresWords
from graph_retrievers.stores.postgres.writer import write_index

__all__ = [
    "PostgresCorpus",
    "PostgresDatabase",
    "PostgresEdgeVectors",
    "PostgresGraph",
    "PostgresSentences",
    "PostgresVectors",
    "PostgresWords",
    "VectorTable",
    "Written",
    "create_vector_index",
    "open_index",
    "read_index",
    "update_index",
    "write_index",
]
