"""Spreading activation inside a graph database (Neo4j, ArcadeDB) over Bolt; the driver comes with the extra ``neo4j``."""

from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.retriever import CypherSpreadingActivation
from graph_retrievers.stores.cypher.schema import GraphSchema
from graph_retrievers.stores.cypher.writer import create_vector_index, index_names, write_graph

__all__ = ["CypherDatabase", "CypherSpreadingActivation", "GraphSchema", "create_vector_index", "index_names", "write_graph"]
