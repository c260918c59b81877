"""An embedding service at a real address that refuses every tenth request: both frameworks build 5,000 texts and lose nothing."""

import json
import threading
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from langchain_core.embeddings import Embeddings
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from graph_retrievers.errors import EmbeddingError
from graph_retrievers.signals import retries
from graph_retrievers.signals.vector_cache import PROBES
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import GraphRetriever as LlamaRetriever

COUNT = 5000
TEXTS = [f"Text number {number} of the archive." for number in range(COUNT)]


def vector(text):
    return [float(len(text)), float(sum(text.encode()) % 1009), 1.0]


class Service(ThreadingHTTPServer):
    """Answers a POST of texts with vectors: status 429 for every tenth request, 500 for all after `stop`."""

    daemon_threads = True
    # Connections that wait to be accepted.
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/embed"
        self.lock, self.stop = threading.Lock(), 10**9
        self.requests = self.refused = self.running = self.most = 0
        self.embedded, self.sizes = Counter(), Counter()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        texts, server = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server
        with server.lock:
            server.requests += 1
            server.running += 1
            server.most = max(server.most, server.running)
            status = 500 if server.requests > server.stop else 429 if server.requests % 10 == 0 else 200
            server.refused += status != 200
            if status == 200:
                server.embedded.update(set(texts) - set(PROBES))
                server.sizes[len(texts)] += 1
        # Long enough that requests meet.
        threading.Event().wait(0.005)
        with server.lock:
            server.running -= 1
        body = json.dumps([vector(text) for text in texts] if status == 200 else "try again").encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def posted(address, texts):
    request = urllib.request.Request(address, json.dumps(texts).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


class LangChainService(Embeddings):
    def __init__(self, url, chunk_size=100):
        self.url, self.chunk_size = url, chunk_size

    def embed_documents(self, texts):
        return posted(self.url, texts)

    def embed_query(self, text):
        return posted(self.url, [text])[0]


class LlamaService(BaseEmbedding):
    api_base: str

    def _get_text_embeddings(self, texts):
        return posted(self.api_base, texts)

    def _get_text_embedding(self, text):
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


def with_langchain(address):
    retriever = LangChainRetriever.from_texts(TEXTS, LangChainService(address), system="vector", metric="dot")
    return retriever.index


def with_llama_index(address):
    nodes = [TextNode(id_=f"n{number}", text=text) for number, text in enumerate(TEXTS)]
    model = LlamaService(api_base=address, model_name="archive", embed_batch_size=100, num_workers=4)
    return LlamaRetriever.from_defaults(nodes=nodes, embed_model=model, system="vector").index


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(retries, "_FIRST", 0.0)
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("build", "at_a_time"), [(with_langchain, 8), (with_llama_index, 4)])
def test_a_build_of_5000_texts_loses_nothing(service, caplog, build, at_a_time):
    index = build(service.address)
    wanted = torch.tensor([vector(text) for text in TEXTS])
    found = torch.nn.functional.normalize(index.dense.vectors, dim=1)
    assert torch.allclose(found, torch.nn.functional.normalize(wanted, dim=1), atol=1e-6)
    assert service.embedded == Counter(TEXTS) and service.refused >= 5
    # 50 requests, and one for the two fixed texts by which the cache knows the model.
    assert service.sizes == {100: 50, len(PROBES): 1} and 1 < service.most <= at_a_time
    loud = [record.getMessage() for record in caplog.records if "sent again" in record.getMessage()]
    assert len(loud) == 1 and "HTTPError: HTTP Error 429" in loud[0]


@pytest.mark.parametrize("build", [with_langchain, with_llama_index])
def test_a_build_that_fails_goes_on_where_it_was(service, tmp_path, build):
    service.stop = 25
    with pytest.raises(EmbeddingError, match=r"HTTP Error 500.* of 5,000 texts are embedded and kept in .*vectors-.*\.sqlite"):
        build(service.address)
    kept = sum(service.embedded.values())
    assert 1500 <= kept < COUNT
    service.stop = 10**9
    assert len(build(service.address)) == COUNT
    assert service.embedded == Counter(TEXTS), "a text was embedded twice"
    # A third build sends the fixed texts alone.
    before = service.sizes.copy()
    build(service.address)
    assert service.sizes - before == {len(PROBES): 1}
