"""Build time with a hosted embedding model: python benchmarks/hosted.py [--texts 5000] [--seconds 0.3] [--batch-size 100].

A server of this process stands for the service: it waits before each answer, and answers 429 to every tenth request. Printed are
the seconds that a build takes, the requests that were answered and refused, and the most that ran at the same time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from graph_retrievers import GraphIndex


class Service(ThreadingHTTPServer):
    """Answers a POST of texts with a vector for each."""

    daemon_threads, request_queue_size = True, 256

    def __init__(self, seconds: float, refuse: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seconds, self.refuse, self.lock = seconds, refuse, threading.Lock()
        self.requests = self.refused = self.running = self.most = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Service

    def do_POST(self) -> None:
        texts, service = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server
        with service.lock:
            service.requests += 1
            service.running += 1
            service.most = max(service.most, service.running)
            refused = bool(service.refuse) and service.requests % service.refuse == 0
            service.refused += refused
        time.sleep(service.seconds)
        with service.lock:
            service.running -= 1
        body = json.dumps([] if refused else [[float(len(text)), float(sum(text.encode()) % 1009), 1.0] for text in texts]).encode()
        self.send_response(429 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Client:
    """A model of LangChain's kind, with the address of its service and the size of its requests."""

    def __init__(self, url: str, chunk_size: int) -> None:
        self.url, self.chunk_size = url, chunk_size

    def embed_documents(self, texts: list[str]) -> Any:
        request = urllib.request.Request(self.url, json.dumps(texts).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a request (default: 0.3)")
    parser.add_argument("--batch-size", type=int, default=100, help="texts that the model says it takes (default: 100)")
    parser.add_argument("--refuse", type=int, default=10, help="every how manieth request gets 429, 0 for none (default: 10)")
    arguments = parser.parse_args()
    texts = [f"Text number {number} of the archive." for number in range(arguments.texts)]
    with Service(arguments.seconds, arguments.refuse) as service, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        model = Client(f"http://127.0.0.1:{service.server_port}", arguments.batch_size)
        started = time.perf_counter()
        try:
            GraphIndex.from_texts(texts, embedding=model, cache=folder, metric="cosine")
            outcome = "built"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        spent = time.perf_counter() - started
        answered = service.requests - service.refused
        told = f"{answered} requests answered, {service.refused} refused, at most {service.most} at a time"
        print(f"{len(texts)} texts, {arguments.seconds} s a request: {spent:.1f} s, {told}: {outcome}")
        service.shutdown()


if __name__ == "__main__":
    main()
