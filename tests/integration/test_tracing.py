"""What is told of a search while it runs: spans of OpenTelemetry, and callbacks of both frameworks."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from graph_retrievers import Operator, Retriever, tracing
from graph_retrievers.core.requests import Degree
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, TimeLimitError
from graph_retrievers.operators import BM25Search, OperatorKind, Pipeline
from graph_retrievers.systems import BM25, GAR, SpreadingActivation
from langchain_graph_retrievers import SpreadingActivationRetriever
from llama_graph_retrievers import GraphSearchEvent
from llama_graph_retrievers import SpreadingActivationRetriever as LlamaSpreadingActivation
from tests.apples import index

INDEX = index()


@pytest.fixture
def spans():
    """What is told to OpenTelemetry within a test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    exporter.provider = provider
    tracing.instrument(provider)
    yield exporter
    tracing.uninstrument()


def test_a_question_and_each_of_its_calls_have_a_span(spans):
    hits = Retriever(INDEX, SpreadingActivation(), k=3).retrieve("Which apple?")
    *calls, question = spans.get_finished_spans()
    assert question.name == "retrieval SpreadingActivation" and question.instrumentation_scope.name == "graph_retrievers"
    assert dict(question.attributes) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.top_k": 3,
        "graph_retrievers.questions": 1,
        "graph_retrievers.hits": len(hits),
        "graph_retrievers.steps": hits.trace[-1].step,
        "graph_retrievers.notes": len(hits.notes),
    }
    told = [
        (span.name, *(span.attributes[f"graph_retrievers.{name}"] for name in ("step", "operators", "questions", "nodes")))
        for span in calls
    ]
    assert told == [(f"ask {call.request.__name__}", call.step, call.operators, call.questions, call.nodes) for call in hits.trace]
    assert len(told) > 1 and all(span.parent.span_id == question.context.span_id for span in calls)


def test_a_batch_is_one_call_and_lies_in_the_span_of_its_caller(spans):
    tracer = spans.provider.get_tracer("application")
    with tracer.start_as_current_span("answer"):
        Retriever(INDEX, GAR(), k=2).retrieve_batch(["Which apple?", "Which house?"])
        asyncio.run(Retriever(INDEX, GAR(), k=2).aretrieve("Which apple?"))
    finished = {span.name: span for span in spans.get_finished_spans()}
    assert finished["retrieval GAR"].parent.span_id == finished["answer"].context.span_id
    questions = [s.attributes["graph_retrievers.questions"] for s in spans.get_finished_spans() if s.name == "retrieval GAR"]
    assert questions == [2, 1]


def test_a_batch_tells_how_many_it_found_in_all_and_no_texts(spans):
    tracing.instrument(spans.provider, content=True)
    found = Retriever(INDEX, BM25(), k=2, backfill=False).retrieve_batch(["Which apple?", "Which house?", "xyzzy"])
    assert Retriever(INDEX, BM25()).retrieve_batch([]) == []
    question, *nothing = [span.attributes for span in spans.get_finished_spans() if span.name == "retrieval BM25"]
    assert question["graph_retrievers.hits"] == sum(map(len, found)) > len(found[0])
    assert question["graph_retrievers.notes"] == sum(len(hits.notes) for hits in found) > len(found[0].notes)
    assert not {"gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"} & question.keys()
    assert all(attributes["graph_retrievers.hits"] == attributes["graph_retrievers.steps"] == 0 for attributes in nothing)


async def test_the_span_of_a_search_that_is_cancelled_says_so(spans):
    begun = threading.Event()

    class Slow(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, found):
            for _ in range(1000):
                begun.set()
                time.sleep(0.01)
                yield Degree(found.nodes)
            return found

    searching = asyncio.ensure_future(Retriever(INDEX, Pipeline(BM25Search(1), Slow())).aretrieve("Which apple?"))
    assert await asyncio.to_thread(begun.wait, 20)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    for _ in range(500):
        if spans.get_finished_spans()[-1].name == "retrieval Retriever":
            break
        await asyncio.sleep(0.02)
    assert spans.get_finished_spans()[-1].attributes["error.type"] == "CancelledError"


@pytest.mark.parametrize("content", [False, True])
def test_texts_are_told_only_where_they_are_asked_for(spans, content):
    tracing.instrument(spans.provider, content=content)
    hits = Retriever(INDEX, BM25(), k=2).retrieve("Which apple?")
    with pytest.raises(InvalidVectorError, match="NaN"):
        Retriever(INDEX, GAR()).retrieve("A secret apple", vector=[float("nan")] * 6)
    with pytest.raises(TimeLimitError):
        Retriever(INDEX, BM25(), time_limit=1e-9).retrieve("A secret apple")
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert ("Which apple?" in told) == content
    question = next(span for span in spans.get_finished_spans() if span.name == "retrieval BM25")
    found = [{"id": hit.id, "score": hit.score} for hit in hits]
    assert question.attributes.get("gen_ai.retrieval.documents") == (json.dumps(found) if content else None)
    failed = spans.get_finished_spans()[-1]
    assert failed.attributes["error.type"] == "TimeLimitError" and failed.status.status_code == StatusCode.ERROR
    assert (failed.status.description is not None) == content and bool(failed.events) == content
    assert not any(hit.text in told for hit in hits)


def test_nothing_is_told_before_it_is_asked_for_and_after_it_is_ended(spans):
    tracing.uninstrument()
    Retriever(INDEX, BM25()).retrieve("Which apple?")
    assert spans.get_finished_spans() == ()
    tracing.instrument()
    # The provider of the process, which tells nobody.
    Retriever(INDEX, BM25()).retrieve("Which apple?")
    assert not trace.get_current_span().is_recording() and spans.get_finished_spans() == ()


def test_the_last_call_of_instrument_holds_and_one_without_a_provider_is_refused(spans):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.instrument(provider, content=True)
    tracing.instrument(provider)
    with pytest.raises(InvalidArgumentError, match="expected a TracerProvider"):
        tracing.instrument("console")
    Retriever(INDEX, BM25()).retrieve("Which apple?")
    told = [span.name for span in exporter.get_finished_spans()]
    assert told.count("retrieval BM25") == 1 and spans.get_finished_spans() == ()
    assert "Which apple?" not in "".join(span.to_json() for span in exporter.get_finished_spans())
    tracing.uninstrument()
    tracing.uninstrument()


class Broken(SpanExporter):
    def export(self, spans):
        raise ConnectionError("no collector")


def test_an_exporter_that_fails_ends_no_search(spans):
    spans.provider.add_span_processor(SimpleSpanProcessor(Broken()))
    assert Retriever(INDEX, BM25(), k=2).retrieve("Which apple?")


def test_calls_of_tasks_and_threads_lie_in_the_spans_of_their_own_callers(spans):
    tracing.instrument(spans.provider, content=True)
    tracer, retriever = spans.provider.get_tracer("application"), Retriever(INDEX, SpreadingActivation(), k=2)

    async def later(name):
        with tracer.start_as_current_span(name):
            await retriever.aretrieve(f"Which apple of {name}?")

    def now(name):
        with tracer.start_as_current_span(name):
            retriever.retrieve(f"Which apple of {name}?")

    async def all_of_them():
        await asyncio.gather(*(later(f"task{n}") for n in range(8)))

    asyncio.run(all_of_them())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(now, [f"thread{n}" for n in range(8)]))
    finished = {span.context.span_id: span for span in spans.get_finished_spans()}
    calls = [span for span in finished.values() if span.name.startswith("retrieval")]
    named = [(finished[call.parent.span_id].name, call.attributes["gen_ai.retrieval.query.text"]) for call in calls]
    assert len(named) == 16 and all(question == f"Which apple of {name}?" for name, question in named)
    asks = [span for span in finished.values() if span.name.startswith("ask")]
    assert len(asks) > 16 and all(finished[ask.parent.span_id] in calls for ask in asks)


class Heard(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_custom_event(self, name, data, *, run_id, **kwargs):
        self.events.append((name, data, run_id))


class HeardLater(AsyncCallbackHandler):
    def __init__(self):
        self.events = []

    async def on_custom_event(self, name, data, *, run_id, **kwargs):
        self.events.append((name, data, run_id))


def test_callbacks_of_langchain_get_the_steps():
    retriever, heard, later = SpreadingActivationRetriever(index=INDEX, k=3), Heard(), HeardLater()
    documents = retriever.invoke("Which apple?", config={"callbacks": [heard]})
    asyncio.run(retriever.ainvoke("Which apple?", config={"callbacks": [later]}))
    (name, data, _), (_, other, _) = *heard.events, *later.events
    steps = Retriever(INDEX, SpreadingActivation(), k=3).retrieve("Which apple?").trace.records()
    plain = [{**step, "seconds": 0} for step in steps]
    assert name == "graph_retrievers.search" and (data["questions"], data["hits"]) == (1, len(documents))
    assert [{**step, "seconds": 0} for step in data["steps"]] == plain == [{**step, "seconds": 0} for step in other["steps"]]
    json.dumps(data)


def test_each_run_of_a_batch_of_langchain_gets_them_but_not_one_that_fails():
    heard = Heard()
    retriever = SpreadingActivationRetriever(index=INDEX, k=3)
    found = retriever.batch(["", "Which apple?", 5, "Which house?"], {"callbacks": [heard]}, return_exceptions=True)
    assert [isinstance(part, Exception) for part in found] == [False, False, True, False]
    assert [data["questions"] for _, data, _ in heard.events] == [3] * 3 and len({run for *_, run in heard.events}) == 3
    assert all(data["steps"] for _, data, _ in heard.events)


async def test_events_of_a_chain_of_langchain_show_them():
    retriever = SpreadingActivationRetriever(index=INDEX, k=3)
    names = [event["name"] async for event in retriever.astream_events("Which apple?") if event["event"] == "on_custom_event"]
    assert names == ["graph_retrievers.search"]


def test_handlers_of_llama_index_get_the_steps():
    heard = []

    class Handler(BaseEventHandler):
        @classmethod
        def class_name(cls):
            return "Handler"

        def handle(self, event, **kwargs):
            heard.append(event)

    dispatcher, handler = get_dispatcher(), Handler()
    dispatcher.add_event_handler(handler)
    try:
        nodes = LlamaSpreadingActivation(INDEX, similarity_top_k=3).retrieve("Which apple?")
        asyncio.run(LlamaSpreadingActivation(INDEX, similarity_top_k=3).aretrieve("Which apple?"))
    finally:
        dispatcher.event_handlers.remove(handler)
    events = [event for event in heard if isinstance(event, GraphSearchEvent)]
    steps = Retriever(INDEX, SpreadingActivation(), k=3).retrieve("Which apple?").trace.records()
    assert [(event.questions, event.hits) for event in events] == [(1, len(nodes))] * 2
    for event in events:
        assert [{**step, "seconds": 0} for step in event.steps] == [{**step, "seconds": 0} for step in steps]
