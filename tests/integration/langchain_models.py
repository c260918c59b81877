"""LangChain models without weights: hashed embeddings, a word-overlap cross-encoder, a chat model that follows a script."""

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
