"""CG-RAG as a LlamaIndex query engine: retrieve chunks with their contexts, summarise the contexts, answer."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts import BasePromptTemplate, PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from graph_retrievers.errors import InvalidArgumentError
from llama_graph_retrievers.nodes import to_context

_PROMPT = PromptTemplate(
    "Answer the question from the texts and the contexts below. If they do not hold the answer, say so.\n\n{context_str}\n\n"
    "Question: {query_str}"
)


class CGRAGQueryEngine(BaseQueryEngine):
    """A query engine that answers as CG-RAG does, from retrieved chunks and summaries of their contexts.

    Parameters
    ----------
    retriever : BaseRetriever
        Usually a :class:`~llama_graph_retrievers.LeSeGRRetriever`; nodes without contexts are used unchanged.
    llm : LLM, optional
        Writes the summaries, one call for each node with a context, and the answer. ``Settings.llm`` by default.
    prompt : BasePromptTemplate, optional
        With the variables ``context_str`` and ``query_str``.
    summarize : bool, default True
        If False, the language model gets the texts of the contexts themselves, in one call per question.
    callback_manager : CallbackManager, optional

    Notes
    -----
    The source nodes of a response are the retrieved nodes; ``response.metadata["context"]`` is the text that the language model
    read.

    References
    ----------
    Hu et al., "CG-RAG: Research Question Answering by Citation Graph Retrieval-Augmented LLMs", 2025, section 4.4.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> from llama_index.core.schema import TextNode
    >>> from llama_graph_retrievers import GraphRetriever
    >>> nodes = [TextNode(id_="loom", text="A loom weaves."), TextNode(id_="card", text="A card has holes.")]
    >>> retriever = GraphRetriever.from_defaults(nodes=nodes, system="bm25", similarity_top_k=1)
    >>> engine = CGRAGQueryEngine(retriever, MockLLM(max_tokens=3))
    >>> response = engine.query("What does a loom do?")
    >>> [hit.node.node_id for hit in response.source_nodes], print(response.metadata["context"])
    Texts:
    - loom: A loom weaves.
    (['loom'], None)
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        prompt: BasePromptTemplate | None = None,
        *,
        summarize: bool = True,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        names = {"context_str", "query_str"}
        if prompt is not None and not names <= set(prompt.template_vars):
            raise InvalidArgumentError(f"The prompt has the variables {sorted(prompt.template_vars)}; expected {sorted(names)}.")
        self.retriever, self.summarize, self._prompt = retriever, summarize, prompt or _PROMPT
        self._llm = Settings.llm if llm is None else llm
        super().__init__(callback_manager)

    def _get_prompts(self) -> PromptDictType:
        return {"prompt": self._prompt}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        self._prompt = prompts.get("prompt", self._prompt)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the nodes from which an answer is made."""
        return self.retriever.retrieve(query_bundle)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}) as event:
            response = self._answer(self.retrieve(query_bundle), query_bundle.query_str)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}) as event:
            nodes = await self.retriever.aretrieve(query_bundle)
            # The summaries and the answer are requested one after another, without blocking the event loop.
            response = await asyncio.to_thread(self._answer, nodes, query_bundle.query_str)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _answer(self, nodes: list[NodeWithScore], question: str) -> Response:
        context = to_context(nodes, question, self._llm if self.summarize else None)
        answer: Any = self._llm.predict(self._prompt, context_str=context, query_str=question)
        return Response(str(answer), source_nodes=nodes, metadata={"context": context})
