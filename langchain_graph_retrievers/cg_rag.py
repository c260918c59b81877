"""CG-RAG as a LangChain chain: retrieve chunks with their contexts, summarise the contexts, answer."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import LanguageModelLike
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import BasePromptTemplate, ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from graph_retrievers.errors import InvalidArgumentError
from langchain_graph_retrievers.documents import to_context
from langchain_graph_retrievers.graph_retriever import GraphRetriever

__all__ = ["create_cg_rag_chain"]

_PROMPT = (
    "Answer the question from the texts and the contexts below. If they do not hold the answer, say so.\n\n{context}\n\n"
    "Question: {input}"
)


def create_cg_rag_chain(
    retriever: BaseRetriever, llm: LanguageModelLike, prompt: BasePromptTemplate[Any] | None = None, *, summarize: bool = True
) -> Runnable[dict[str, Any], dict[str, Any]]:
    """Return a chain that answers questions as CG-RAG does, from retrieved chunks and summaries of their contexts.

    Parameters
    ----------
    retriever : BaseRetriever
        Usually a :class:`~langchain_graph_retrievers.LeSeGRRetriever`; documents without contexts are used unchanged. Contexts
        are in the metadata with ``provenance=True``, which this function sets for retrievers of this package.
    llm : BaseChatModel or LLM
        Writes the summaries, one call for each document with a context, and the answer.
    prompt : BasePromptTemplate, optional
        With the variables ``context`` and ``input``.
    summarize : bool, default True
        If False, the language model gets the texts of the contexts themselves, in one call per question.

    Returns
    -------
    Runnable
        From ``{"input": question}`` to ``{"input", "documents", "context", "answer"}``, as in LangChain's retrieval chains:
        ``documents`` are the retrieved documents, and ``context`` is the text that the language model read.

    References
    ----------
    Hu et al., "CG-RAG: Research Question Answering by Citation Graph Retrieval-Augmented LLMs", 2025, section 4.4.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListLLM
    >>> retriever = GraphRetriever.from_texts(["A loom weaves.", "A card has holes."], system="bm25", k=1)
    >>> chain = create_cg_rag_chain(retriever, FakeListLLM(responses=["It weaves."]))
    >>> chain.invoke({"input": "What does a loom do?"})["answer"]
    'It weaves.'
    """
    names = {"context", "input"}
    template = ChatPromptTemplate.from_template(_PROMPT) if prompt is None else prompt
    if not names <= set(template.input_variables):
        raise InvalidArgumentError(f"The prompt has the variables {sorted(template.input_variables)}; expected {sorted(names)}.")

    if isinstance(retriever, GraphRetriever):
        retriever = retriever.model_copy(update={"provenance": True})

    def question(values: dict[str, Any]) -> str:
        return str(values["input"])

    def context(values: dict[str, Any]) -> str:
        documents: list[Document] = values["documents"]
        return to_context(documents, question(values), llm if summarize else None)

    return (
        RunnablePassthrough.assign(documents=RunnableLambda(question) | retriever)
        .assign(context=RunnableLambda(context))
        .assign(answer=template | llm | StrOutputParser())
        .with_config(run_name="cg_rag_chain")
    )
