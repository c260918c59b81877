"""LangChain models without weights, and a retriever that meets the engine's contract without being one of its classes."""

import asyncio

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatResult

from tests.helpers import HashEmbedding, WordOverlap


class LangChainHashEmbeddings(Embeddings):
    """The hashed embedding as LangChain's own class."""

    model = "hash-64"

    def __init__(self):
        self._hash = HashEmbedding()

    def embed_documents(self, texts):
        return self._hash.embed_documents(texts)

    def embed_query(self, text):
        return self._hash.embed_query(text)


class LangChainWordOverlap(BaseCrossEncoder):
    """The word-overlap model as LangChain's own class."""

    def __init__(self):
        self.overlap = WordOverlap()

    def score(self, text_pairs):
        return self.overlap(text_pairs)


class ScriptedChatModel(BaseChatModel):
    """Answers with the messages of a script, one a call, and keeps what it was sent and which tools it was given."""

    script: list
    seen: list = []
    tools: list = []

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        self.tools.extend(tools)
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.script[len(self.seen) - 1])])


class RemoteStore:
    """What a remote retriever is connected to."""

    def __repr__(self):
        return "RemoteStore(password='secret')"


class RemoteRetriever:
    """A retriever as one of a database is: it meets the contract, can be awaited, and derives from no class of the engine."""

    name = "RemoteRetriever"

    def __init__(self, engine):
        self.engine, self.k, self.inputs, self.database = engine, engine.k, engine.inputs, RemoteStore()
        self.calls = []

    def retrieve(self, query, k=None, *, vector=None, **options):
        options = {name: [value] if name in self.inputs else value for name, value in options.items()}
        return self.retrieve_batch([query], k, vectors=None if vector is None else [vector], **options)[0]

    def retrieve_batch(self, queries, k=None, **options):
        self.calls.append(("sync", len(queries)))
        return self.engine.retrieve_batch(queries, k, **options)

    async def aretrieve(self, query, k=None, *, vector=None, **options):
        options = {name: [value] if name in self.inputs else value for name, value in options.items()}
        return (await self.aretrieve_batch([query], k, vectors=None if vector is None else [vector], **options))[0]

    async def aretrieve_batch(self, queries, k=None, **options):
        self.calls.append(("async", len(queries)))
        await asyncio.sleep(0)
        return self.engine.retrieve_batch(queries, k, **options)


class RetrieverEvents(BaseCallbackHandler):
    """Keeps the events of retriever runs."""

    def __init__(self):
        self.started, self.ended, self.failed = {}, {}, {}

    def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, tags=None, metadata=None, **kwargs):
        run = {"query": query, "tags": tags, "metadata": metadata, "parent": parent_run_id}
        self.started[run_id] = run | {"name": kwargs.get("name")}

    def on_retriever_end(self, documents, *, run_id, **kwargs):
        self.ended[run_id] = documents

    def on_retriever_error(self, error, *, run_id, **kwargs):
        self.failed[run_id] = error
