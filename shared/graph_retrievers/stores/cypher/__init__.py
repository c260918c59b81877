"""A graph in a database (Neo4j, ArcadeDB) over Bolt, and spreading activation inside it.

The driver comes with the extra ``neo4j``.
"""

from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.graph_store import CypherGraphStore
from graph_retrievers.stores.cypher.retriever import CypherSpreadingActivation
from graph_retrievers.stores.cypher.schema import GraphSchema
from graph_retrievers.stores.cypher.words import CypherWords
from graph_retrievers.stores.cypher.writer import create_vector_index, index_names, write_graph

__all__ = [
    "CypherDatabase",
    "CypherGraphStore",
    "CypherSpreadingActivation",
    "CypherWords",
    "GraphSchema",
    "create_vector_index",
    "index_names",
    "write_graph",
]
