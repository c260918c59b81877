"""Vector stores of LangChain and LlamaIndex in PostgreSQL, with tables that no other test uses."""

import json
from itertools import count

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

from graph_retrievers.stores.postgres import PostgresDatabase
from langchain_graph_retrievers import GraphRetriever
from tests.helpers import HashEmbedding
from tests.integration.langchain_models import LangChainHashEmbeddings
from tests.integration.llama_corpus import HashEmbed

_numbers = count()
# Characters that end names, texts and statements.
HOSTILE = """o'clock "; -- $$ \\ %s {nodes} é"""
STORES = ["PGVector", "LangChain's PGVectorStore", "LlamaIndex's PGVectorStore"]


def free_name():
    """A name that no other test uses."""
    return f"own{next(_numbers)}"


def with_driver(url, driver):
    return url.replace("postgresql://", f"postgresql+{driver}://")


def run(url, text, *values):
    """Run a statement, with values for its %s."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text, values or None)
        return cursor.fetchall() if cursor.description else []


def pgvector(url, *documents, collection=None, embeddings=None, **options):
    """A collection in the tables that all stores of this class share."""
    pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")
    from langchain_postgres import PGVector

    made = PGVector(
        embeddings or LangChainHashEmbeddings(),
        connection=with_driver(url, "psycopg"),
        collection_name=collection or free_name(),
        **options,
    )
    if documents:
        made.add_documents(list(documents))
    return made


def pgvectorstore(url, *documents, table=None, id_type="TEXT", columns=(), embeddings=None, schema="public", **options):
    """A table of its own, with columns for metadata."""
    pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")
    from langchain_postgres import Column, PGEngine, PGVectorStore

    table, engine = table or free_name(), PGEngine.from_connection_string(with_driver(url, "asyncpg"))
    engine.init_vectorstore_table(
        table,
        64,
        schema_name=schema,
        id_column=Column("langchain_id", id_type, nullable=False),
        metadata_columns=[Column(name, kind) for name, kind in columns],
    )
    made = PGVectorStore.create_sync(
        engine,
        embeddings or LangChainHashEmbeddings(),
        table,
        schema_name=schema,
        metadata_columns=[name for name, _ in columns],
        **options,
    )
    if documents:
        made.add_documents(list(documents))
    return made


def llama_store(url, *nodes, table=None, embed_dim=64, **options):
    """A table of LlamaIndex."""
    pytest.importorskip("llama_index.vector_stores.postgres", reason="llama-index-vector-stores-postgres is not installed")
    from llama_index.vector_stores.postgres import PGVectorStore

    made = PGVectorStore.from_params(
        connection_string=with_driver(url, "psycopg2"),
        async_connection_string=with_driver(url, "asyncpg"),
        table_name=table or free_name(),
        embed_dim=embed_dim,
        **options,
    )
    if nodes:
        made.add(list(nodes))
    return made


class Stored:
    """A store of one of the three kinds with some documents, and what a test does with it."""

    def __init__(self, kind, url, documents, **options):
        self.kind, self.url = kind, url
        self.embeddings, self.model = LangChainHashEmbeddings(), HashEmbed()
        if kind == "PGVector":
            self.store = pgvector(url, *documents, embeddings=self.embeddings, **options)
            self.table = "langchain_pg_embedding"
            self.id, self.vector, self.text, self.metadata = "id", "embedding", "document", "cmetadata"
        elif kind == "LangChain's PGVectorStore":
            self.table = free_name()
            self.store = pgvectorstore(url, *documents, table=self.table, embeddings=self.embeddings, **options)
            self.id, self.vector, self.text, self.metadata = "langchain_id", "embedding", "content", "langchain_metadata"
        else:
            from llama_index.core.schema import TextNode

            name = free_name()
            given = [(d.id, d.page_content, d.metadata, self.embeddings.embed_query(d.page_content)) for d in documents]
            nodes = [TextNode(id_=i, text=text, metadata=metadata, embedding=v) for i, text, metadata, v in given]
            self.store = llama_store(url, *nodes, table=name, **options)
            self.store._initialize()
            self.table = f"data_{name}"
            self.id, self.vector, self.text, self.metadata = "node_id", "embedding", "text", "metadata_"

    def retriever(self, **options):
        """A retriever in memory on the contents of the store, of the package of its framework."""
        if not self.kind.startswith("Llama"):
            return GraphRetriever.from_vectorstore(self.store, **options)
        from llama_index.core import VectorStoreIndex

        from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever

        theirs = VectorStoreIndex.from_vector_store(self.store, embed_model=self.model)
        if "k" in options:
            options["similarity_top_k"] = options.pop("k")
        return LlamaGraphRetriever.from_defaults(theirs, **options)

    def index(self, **options):
        """The index of such a retriever."""
        return self.retriever(**options).index

    def set(self, column, value, name):
        """Change a column of the row of a document."""
        found = json.dumps(value) if isinstance(value, dict) else value
        run(self.url, f'UPDATE {self.table} SET "{getattr(self, column)}" = %s WHERE {self.id} = %s', found, name)

    def add(self, name, text):
        """Add a document by the store."""
        if self.kind.startswith("Llama"):
            self.store.add([TextNode(id_=name, text=text, embedding=HashEmbedding().embed_query(text))])
        else:
            self.store.add_documents([Document(text, id=name)])

    def delete(self, name):
        """Delete the row of a document."""
        run(self.url, f"DELETE FROM {self.table} WHERE {self.id} = %s", name)

    def open(self, **options):
        """A connection of ours to the database of the store, with a schema of its own."""
        return PostgresDatabase(self.url, schema=free_name(), **options)


def found_ids(retriever, question):
    """The ids that a retriever of either framework finds."""
    if hasattr(retriever, "invoke"):
        return [document.id for document in retriever.invoke(question)]
    return [scored.node.node_id for scored in retriever.retrieve(question)]
