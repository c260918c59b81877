"""The server of the page and the page of one search: what they answer, what they refuse, and what hostile documents do there."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import date
from pathlib import Path

import networkx
import numpy as np
import pytest
from starlette.testclient import TestClient

from graph_retrievers import BM25, GAR, Edge, GraphIndex, Hits, Node, Operator, Retriever, SpreadingActivation, WalkFusion
from graph_retrievers.commands.cli import main
from graph_retrievers.core.limits import limit_over
from graph_retrievers.core.requests import Nearest, NearestByCosine, Scores, WithQuery
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.operators import OperatorKind
from graph_retrievers.serve import app as server
from graph_retrievers.serve import picture, search_page
from graph_retrievers.serve.app import available_retrievers, is_local_host, search_app
from graph_retrievers.serve.recording import recorded
from tests.helpers import HashEmbedding, linked_index
from tests.hostile_texts import HOSTILE
from tests.retrievers import on

# The package has a function of the same name.
drawing = sys.modules["graph_retrievers.serve.picture"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = {"origin": "http://127.0.0.1:8800"}


def small():
    nodes = [
        Node("mirrormask", "A fantasy film of 2005.", title="MirrorMask", type="film"),
        Node("mckean", "An English artist and film maker.", title="Dave McKean", type="person"),
        Node("ballamy", "A British saxophonist, born in 1964.", title="Iain Ballamy", type="person"),
        Node("coraline", "A dark children's book of 2002.", title="Coraline", type="book"),
    ]
    edges = [("mirrormask", "mckean", "directed by"), ("mirrormask", "ballamy", "music by"), ("coraline", "mckean", "drawn by")]
    return GraphIndex.from_nodes(nodes, edges)


def spreading(index, **options):
    return on(index, SpreadingActivation, gate="uniform", **{"steps": 2, "backfill": False, **options})


@pytest.fixture
def client():
    index = small()
    app = search_app(
        {"spreading": spreading(index), "bm25": Retriever(index, BM25(), backfill=False)}, title="films", needs={"gar": "a model"}
    )
    return TestClient(app, base_url="http://127.0.0.1:8800", headers=PAGE)


def test_a_search_tells_round_by_round_what_was_asked_and_found():
    index = small()
    drawn = picture(spreading(index), "Who wrote the music of MirrorMask?", 3)
    names = {node["row"]: node["name"] for node in drawn["nodes"]}
    calls = [(each["step"], call["asked"], call["found"]) for each in drawn["rounds"] for call in each["calls"]]
    told = [
        (step, asked, sorted((names[row], near is not None and names[near]) for row, _, near in found))
        for step, asked, found in calls
        if found
    ]
    # From the film to both persons; from them to the film again, and to the book.
    assert [entry[1:] for entry in told[:3]] == [
        ("the names in the question", [("MirrorMask", False)]),
        ("neighbours", [("Dave McKean", "MirrorMask"), ("Iain Ballamy", "MirrorMask")]),
        (
            "neighbours",
            [
                *[("Coraline", "Dave McKean"), ("Dave McKean", "MirrorMask"), ("Iain Ballamy", "MirrorMask")],
                *[("MirrorMask", "Dave McKean"), ("MirrorMask", "Iain Ballamy")],
            ],
        ),
    ]
    assert [step for step, *_ in told] == sorted(step for step, *_ in told)
    edges = {(names[e["source"]], e["relation"], names[e["target"]]): (e["step"], e["path"]) for e in drawn["edges"]}
    first, second = told[1][0], told[2][0]
    assert edges == {
        ("MirrorMask", "directed by", "Dave McKean"): (first, True),
        ("MirrorMask", "music by", "Iain Ballamy"): (first, True),
        ("Coraline", "drawn by", "Dave McKean"): (second, False),
    }
    # The step that found each first: the walk comes back to the film.
    steps = {names[node["row"]]: node["step"] for node in drawn["nodes"]}
    assert steps == {"MirrorMask": told[0][0], "Dave McKean": first, "Iain Ballamy": first, "Coraline": second}
    assert [hit["path"] for hit in drawn["hits"]] == [
        hit.path.text if len(hit.path.nodes) > 1 else ""
        for hit in spreading(index).retrieve("Who wrote the music of MirrorMask?", 3)
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("walk-fusion", "fastinsight", "gar", "ppr", "eager", "lightrag", "g-retriever", "lesegr", "mmr", "hipporag"),
        *("linear-rag", "path-reranking", "g-rag", "spreading", "pathrag", "mor(structure=False, rerank=False)"),
    ],
)
@pytest.mark.parametrize("edge_signals", [False, True])
def test_every_kind_of_search_can_be_drawn_and_finds_what_it_finds_without(name, edge_signals):
    # One of them reads signals of edges, and cannot do without.
    index, question = linked_index(edge_signals=edge_signals or name == "hipporag"), "Who improved the engine?"
    retriever = Retriever(index, name)
    drawn, hits = picture(retriever, question, 5), retriever.retrieve(question, 5)
    assert [hit["id"] for hit in drawn["hits"] if hit["kind"] == "node"] == [hit.id for hit in hits.nodes]
    rows = {node["row"] for node in drawn["nodes"]}
    assert {row for hit in drawn["hits"] for row in hit["rows"]} <= rows
    assert all(edge["source"] in rows and edge["target"] in rows for edge in drawn["edges"])
    found = [entry for each in drawn["rounds"] for call in each["calls"] for entry in call["found"]]
    assert found and {row for row, *_ in found} <= rows
    # The best of a call first.
    scores = [[score for _, score, _ in call["found"] if score is not None] for each in drawn["rounds"] for call in each["calls"]]
    assert all(listed == sorted(listed, reverse=True) for listed in scores)
    pairs = {frozenset((edge["source"], edge["target"])) for edge in drawn["edges"]}
    assert all(frozenset((row, near)) in pairs for row, _, near in found if near is not None and row != near)
    json.dumps(drawn, allow_nan=False)
    # Of few nodes that are drawn, the hits and their paths are the first.
    answer = {row for hit in drawn["hits"] for row in hit["rows"]}
    assert {node["row"] for node in picture(retriever, question, 5, most=len(answer))["nodes"]} == answer


def test_scores_of_edges_are_not_taken_for_scores_of_nodes():
    drawn = picture(Retriever(linked_index(edge_signals=True), "g-retriever"), "Who improved the engine?", 5)
    calls = {call["asked"]: call for each in drawn["rounds"] for call in each["calls"]}
    assert {"the best 3 edges by the vectors of edges", "scores of edges by the vectors of edges"} <= set(calls)
    assert calls["scores of edges by the vectors of edges"]["found"] == []


def test_calls_of_one_step_say_which_search_they_are():
    class Searches(Operator):
        kind = OperatorKind.VECTOR_SEARCH

        def search(self, question, candidates):
            yield (
                *(Nearest(3), Nearest(3, "bm25"), Nearest(1, "bm25", returned=True), Nearest(2, "bm25", text="a" * 100)),
                *(Nearest(2, "bm25", text="b"), Nearest(2, "bm25", text=question.text), Nearest(4, among="walk")),
                *(Nearest(1200, among="return", types=("film", "book")), WithQuery(NearestByCosine(1), "a loom")),
                *(Scores(np.arange(2), "bm25"), Nearest(1, "mine")),
            )
            return candidates

    index = linked_index()
    index = GraphIndex(index.graph, {**index.signals, "mine": index.signal("bm25")}, embedding=index.embedding)
    drawn = picture(Retriever(index, Searches(), backfill=False), "Who improved the engine?")
    calls = [call["asked"] for each in drawn["rounds"] for call in each["calls"] if call["operator"] == "Searches"]
    assert calls == [
        "the best 3 nodes by vectors, to start from",
        "the best 3 nodes by words, to start from",
        "the best node by words",
        f"the best 2 nodes by words for '{'a' * 76}... and 1 more, to start from",
        "the best 4 nodes by vectors, to walk to",
        "the best 1,200 nodes by vectors of the type 'film', 'book'",
        "the node most like the question for 'a loom'",
        "scores of nodes by words",
        "the best node by the signal 'mine', to start from",
    ]


def test_no_more_is_drawn_than_was_asked_for_and_the_hits_come_first(monkeypatch):
    edges = [("0", str(n), "r") for n in range(1, 50)]
    index = GraphIndex.from_texts([f"card {n}" for n in range(50)], titles=["Loom", *map(str, range(1, 50))], edges=edges)
    drawn = picture(spreading(index), "What is a Loom?", 3, most=10)
    assert len(drawn["nodes"]) == 10 and drawn["left_out"] == 40
    assert {hit["row"] for hit in drawn["hits"]} <= {node["row"] for node in drawn["nodes"]}
    monkeypatch.setattr(drawing, "_MOST_LISTED", 7)
    calls = [call for each in picture(spreading(index), "What is a Loom?", 3)["rounds"] for call in each["calls"]]
    assert max((len(call["found"]), call["count"]) for call in calls) == (7, 50)
    with pytest.raises(InvalidArgumentError, match="Expected a Retriever"):
        picture(object(), "a loom")


def test_edges_that_were_not_walked_are_drawn_among_few_nodes_only(monkeypatch):
    index = small()
    drawn = picture(Retriever(index, BM25()), "A film and a film maker", 2)
    assert [(edge["relation"], edge["step"], edge["path"], edge["edge"]) for edge in drawn["edges"]] == [
        ("directed by", None, False, True)
    ]
    monkeypatch.setattr(drawing, "_FEW_NODES", 1)
    assert picture(Retriever(index, BM25()), "A film and a film maker", 2)["edges"] == []


def test_a_name_that_two_texts_share_is_drawn_as_no_edge():
    texts = ["The music of the film Kismet is by Ada Holm.", "Ada Holm went to school in Lund.", "A loom."]
    drawn = picture(
        Retriever(GraphIndex.from_texts(texts, embedding=HashEmbedding(), edges=[]), WalkFusion(bridges=1)), "Kismet", 3
    )
    paths = [hit["path"] for hit in drawn["hits"] if hit["path"]]
    assert paths and all('-["Ada Holm"]-' in path for path in paths)
    assert {(edge["relation"], edge["path"], edge["edge"]) for edge in drawn["edges"]} == {('"Ada Holm"', True, False)}


def test_names_and_texts_of_any_length_are_cut_and_a_node_is_exported_once():
    long = "A loom of many words. " * 500
    index = GraphIndex.from_nodes([Node("a" * 1000, long, title=long, type=long), Node("b", "A card.")], [("a" * 1000, "b", long)])
    drawn = picture(Retriever(index, BM25()), "Which words of a card?", 2)
    assert len(drawn["hits"]) == 2
    assert len(json.dumps(drawn)) < 8_000
    client = TestClient(search_app({"spreading": spreading(index)}), base_url="http://127.0.0.1")
    found = [client.post("/api/search", json={"question": "A card"}), client.post("/api/neighbors", json={"row": 1})]
    assert all(answer.status_code == 200 and len(answer.content) < 10_000 for answer in found)
    assert len(client.post("/api/export", json={"rows": [1, 1, 0, 1]}).json()["nodes"]) == 2


def test_a_record_holds_the_steps_of_its_own_call_alone():
    index = small()
    retriever = Retriever(index, BM25(), share_batches=True, backfill=False)
    shared = []
    retriever._shared_calls = lambda *call: shared.append(call) or [Hits()]
    with recorded() as found:
        retriever.retrieve("fantasy film")
    assert not shared, "it would share a batch with the questions of others"
    retriever.retrieve("book")
    assert len(shared) == 1
    assert [call.entry.request.__name__ for call in found] == ["Nearest"]
    assert found[0].nodes.tolist()[0] == 0 and found[0].scores[0] > 0


def test_only_retrievers_that_run_are_offered_and_others_say_what_they_need():
    level = logging.getLogger("graph_retrievers").level
    runs, needs = available_retrievers(small(), time_limit=5)
    assert logging.getLogger("graph_retrievers").level == level
    assert set(runs) == {"bm25", "hipporag-1", "spreading(gate='uniform')"}
    assert all(each.time_limit == 5 for each in runs.values())
    assert "no vectors" in needs["walk-fusion"] and "language model" in needs["ircot"] and "plan" in needs["mor"]
    runs, needs = available_retrievers(linked_index())
    assert {"walk-fusion", "vector", "ppr"} <= set(runs) and "relevance model" in needs["gar"]
    # The default is chosen first on the page, wherever it stands in the list.
    with TestClient(search_app(runs), base_url="http://127.0.0.1") as client:
        assert client.get("/api/index").json()["best"] == "walk-fusion" != next(iter(runs))
    # A default with parameters is offered too.
    runs, _ = available_retrievers(linked_index(bm25=False))
    with TestClient(search_app(runs), base_url="http://127.0.0.1") as client:
        assert client.get("/api/index").json()["best"] == "fused(systems=['spreading', 'vector'])"


def test_the_page_gets_hits_texts_neighbours_and_subgraphs(client):
    about = client.get("/api/index").json()
    assert about["retrievers"] == ["spreading", "bm25"] and about["nodes"] == 4 and about["needs"] == {"gar": "a model"}
    found = client.post("/api/search", json={"question": "The music of MirrorMask", "retriever": "spreading", "k": 2}).json()
    assert [hit["name"] for hit in found["hits"]] == ["Dave McKean", "Iain Ballamy"]
    assert found["hits"][0]["path"] == "MirrorMask -[directed by]-> Dave McKean"
    row = found["hits"][0]["row"]
    read = client.post("/api/read", json={"row": row}).json()
    assert read["text"] == "An English artist and film maker." and read["next"] is None and read["type"] == "person"
    near = client.post("/api/neighbors", json={"row": row}).json()
    assert [(e["name"], e["relation"], e["direction"]) for e in near["edges"]] == [
        ("MirrorMask", "directed by", "in"),
        ("Coraline", "drawn by", "in"),
    ]
    assert near["relations"] == {"directed by": 1, "drawn by": 1} and near["count"] == 2
    near = client.post("/api/neighbors", json={"row": row, "relation": "drawn by", "direction": "in", "limit": 1}).json()
    assert [e["name"] for e in near["edges"]] == ["Coraline"]
    assert client.post("/api/neighbors", json={"row": row, "direction": "out"}).json()["edges"] == []


def test_a_subgraph_is_exported_as_node_link_json_and_graphml(client):
    plain = client.post("/api/export", json={"rows": [0, 1, 3]}).json()
    graph = networkx.node_link_graph(plain, edges="edges")
    assert set(graph) == {"mirrormask", "mckean", "coraline"}
    assert {(a, b, r) for a, b, r in graph.edges(data="relation")} == {
        ("mirrormask", "mckean", "directed by"),
        ("coraline", "mckean", "drawn by"),
    }
    answer = client.post("/api/export", json={"rows": [0, 1, 3], "format": "graphml"})
    graph = networkx.parse_graphml(answer.text)
    assert answer.headers["content-type"].startswith("application/xml")
    assert {data["title"] for _, data in graph.nodes(data=True)} == {"MirrorMask", "Dave McKean", "Coraline"}


def test_what_json_cannot_hold_is_exported_as_plain_values():
    metadata = {"year": float("nan"), "when": [date(2005, 1, 2), float("inf")], "deep": {"a": (1, None, True)}}
    part = Subgraph((Node("a", "x\x00y", "Ada", metadata=metadata), Node("a\x00", "")), (Edge("a", "a\x00", "r"),))
    plain = json.loads(json.dumps(part.to_node_link(), allow_nan=False))
    assert plain["nodes"][0]["metadata"] == {"year": None, "when": ["2005-01-02", None], "deep": {"a": [1, None, True]}}
    # XML has no NUL; nodes whose ids differ in one stay two.
    graph = networkx.parse_graphml(part.to_graphml())
    assert graph.order() == 2 and graph.nodes["n0"]["text"] == "x\ufffdy"
    assert json.loads(graph.nodes["n0"]["metadata"]) == plain["nodes"][0]["metadata"]


def test_an_export_has_a_bound(client, monkeypatch):
    monkeypatch.setattr(server, "_MOST_TEXT", 40)
    assert client.post("/api/export", json={"rows": [0, 0]}).status_code == 200
    answer = client.post("/api/export", json={"rows": [0, 1]})
    assert answer.status_code == 400 and "56 characters of text; expected at most 40" in answer.json()["error"]


def test_long_texts_are_read_in_parts(monkeypatch):
    index = GraphIndex.from_texts(["word " * 30_000])
    client = TestClient(search_app({"bm25": Retriever(index, BM25())}), base_url="http://127.0.0.1")
    text, start = "", 0
    while start is not None:
        part = client.post("/api/read", json={"row": 0, "start": start}).json()
        assert len(part["text"]) <= 20_000
        text, start = text + part["text"], part["next"]
    assert text == "word " * 30_000 and part["length"] == 150_000


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("search", {"question": ["a"]}, 400, "a query is a string"),
        ("search", {"question": "a" * 10_001}, 400, "10,001 characters; expected at most 10,000"),
        ("search", {"question": "a", "retriever": "gar"}, 400, "choose from 'spreading', 'bm25'"),
        ("search", {"question": "a", "retriever": ["bm25"]}, 400, "Unknown retriever"),
        ("search", {"question": "a", "k": 101}, 400, "k must be at most 100"),
        ("search", {"question": "a", "k": 0}, 400, "k must be an integer"),
        ("search", {"question": "a", "k": True}, 400, "k must be an integer"),
        ("search", {"query": "a"}, 400, "Expected an object with 'question'"),
        ("search", {"question": "a", "filter": {}}, 400, "Expected an object with 'question'"),
        ("search", ["a"], 400, "Expected an object"),
        ("read", {"row": 4}, 400, "from 0 to 3"),
        ("read", {"row": -1}, 400, "from 0 to 3"),
        ("read", {"row": "mckean"}, 400, "from 0 to 3"),
        ("read", {"row": True}, 400, "from 0 to 3"),
        ("read", {"row": 1.0}, 400, "from 0 to 3"),
        ("search", {"question": "a", "k": float("nan")}, 400, "k must be an integer"),
        ("read", {"row": 0, "start": -1}, 400, "start must be an integer"),
        ("neighbors", {"row": 0, "relation": "x"}, 400, "has no edge of the relation 'x'; it has: 'directed by', 'music by'"),
        ("neighbors", {"row": 0, "relation": 1}, 400, "expected text"),
        ("neighbors", {"row": 0, "direction": "up"}, 400, "direction"),
        ("neighbors", {"row": 0, "limit": 501}, 400, "limit must be at most 500"),
        ("export", {"rows": []}, 400, "0 rows; expected a list of 1 to 5,000"),
        ("export", {"rows": "0"}, 400, "expected a list"),
        ("export", {"rows": [0, None]}, 400, "from 0 to 3"),
        ("export", {"rows": [0], "format": "gexf"}, 400, "choose from 'json', 'graphml'"),
        ("export", {"rows": [1] * 200_000}, 413, "send less"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(client, path, body, status, told):
    answer = client.post(f"/api/{path}", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status and told in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"question": "a"', b"nan"])
def test_what_is_not_json_is_refused(client, content):
    answer = client.post("/api/search", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and ("not JSON" in answer.json()["error"] or "Expected an object" in answer.json()["error"])


def test_only_json_is_taken_so_that_no_form_of_another_site_can_ask(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = client.post("/api/search", content=b'{"question": "film"}', headers={"content-type": kind})
        assert answer.status_code == 415 and "expected 'application/json'" in answer.json()["error"]
    assert client.get("/api/search").status_code == 405
    assert client.get("/../pyproject.toml").status_code == client.get("/app.py").status_code == 404


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *[("127.0.0.1", True), ("127.0.0.1:8800", True), ("localhost:8800", True), ("[::1]:8800", True), ("192.168.1.5", True)],
        *[("box.local:8800", True), ("BOX.local", True), ("evil.example", False), ("evil.example:8800", False), ("", False)],
        *[
            ("127.0.0.1.evil.example", False),
            ("localhost.evil.example", False),
            ("evil.example@127.0.0.1.x", False),
            ("[::1", False),
        ],
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(host, own):
    assert is_local_host(host, ["Box.local"]) is own
    app = search_app({"bm25": Retriever(small(), BM25())}, hosts=["box.local"])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/api/index", headers={"host": host})
    assert answer.status_code == (200 if own else 403)
    assert own or "ask by 'localhost'" in answer.json()["error"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8800"])
def test_pages_of_other_origins_are_refused(client, origin):
    answer = client.post("/api/search", json={"question": "film"}, headers={"origin": origin})
    assert answer.status_code == 403 and "only the page of this server" in answer.json()["error"]
    assert "access-control-allow-origin" not in answer.headers


def test_every_answer_forbids_what_the_page_does_not_need(client):
    for answer in (
        client.get("/"),
        client.get("/page.js"),
        client.get("/api/index"),
        client.get("/nothing"),
        client.post("/api/read"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert "frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy
        assert answer.headers["cross-origin-resource-policy"] == "same-origin" and answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def test_a_search_that_takes_too_long_ends_and_a_model_that_fails_is_told():
    def slow(pairs):
        time.sleep(0.3)
        return [0.0] * len(pairs)

    def broken(pairs):
        raise RuntimeError("no connection")

    answers = []
    for model, limit in ((slow, 0.2), (broken, None)):
        index = GraphIndex.from_texts([f"loom {n}" for n in range(40)], vectors=[[1, n] for n in range(40)], relevance=model)
        index = index.with_models(embedding=lambda texts: [[1.0, 0.5] for _ in texts])
        gar = Retriever(index, GAR(nodes_per_round=1), time_limit=limit)
        client = TestClient(search_app({"gar": gar}), base_url="http://127.0.0.1", raise_server_exceptions=False)
        answers.append(client.post("/api/search", json={"question": "loom"}))
    assert answers[0].status_code == 504 and "has no answer after" in answers[0].json()["error"]
    assert answers[1].status_code == 500 and "no connection" in answers[1].json()["error"]


async def asked(app, path, body, gone=False):
    """One request as a server makes it, of a body or its parts, after which the client may be gone; returns the status."""
    parts = body if isinstance(body, list) else [{"body": json.dumps(body).encode()}]
    sent, status = [{"type": "http.request", **part} for part in parts], []
    leaves = asyncio.Event()
    if gone:
        leaves.set()

    async def receive():
        if sent:
            return sent.pop(0)
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        status.append(message.get("status"))

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": f"/api/{path}", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return status[0]


async def test_who_leaves_within_a_request_or_a_search_ends_it_without_an_error_in_the_log(monkeypatch, caplog):
    begun, over = threading.Event(), threading.Event()

    def slow(retriever, question, k):
        begun.set()
        while limit_over() is None:
            time.sleep(0.01)
        over.set()
        return {}

    monkeypatch.setattr(server, "picture", slow)
    app = search_app({"bm25": Retriever(small(), BM25())})
    whole = json.dumps({"question": "film"}).encode()
    for parts in ([{"body": whole[:9], "more_body": True}], [{"body": whole}]):
        assert await asked(app, "search", parts, gone=True) == 499
    assert begun.is_set() and await asyncio.to_thread(over.wait, 5)
    # Nobody is left waiting, and its place is free again.
    for _ in range(server._AT_A_TIME + 1):
        assert await asked(app, "search", [{"body": whole}], gone=True) == 499
    assert not caplog.records


async def test_slow_searches_hold_up_no_reader_and_too_many_are_turned_away(monkeypatch):
    free, started = threading.Event(), []

    def slow(retriever, question, k):
        started.append(question)
        assert free.wait(20)
        return {}

    monkeypatch.setattr(server, "picture", slow)
    monkeypatch.setattr(server, "_WAITING", 3)
    app = search_app({"bm25": Retriever(small(), BM25())})
    searches = [asyncio.ensure_future(asked(app, "search", {"question": f"q{n}"})) for n in range(server._AT_A_TIME + 3)]
    await asyncio.sleep(0.2)
    assert len(started) == server._AT_A_TIME
    assert await asked(app, "search", {"question": "one more"}) == 503
    assert await asyncio.wait_for(asked(app, "read", {"row": 0}), 5) == 200
    free.set()
    assert set(await asyncio.gather(*searches)) == {200} and len(started) == len(searches)


def test_hostile_documents_stay_data():
    index = GraphIndex.from_nodes(
        [Node(f"{n}{text[:40]}", text, title=text[:200], type=text[:60]) for n, text in enumerate(HOSTILE)],
        [(f"{n}{HOSTILE[n][:40]}", f"{n + 1}{HOSTILE[n + 1][:40]}", HOSTILE[n][:80] or "r") for n in range(len(HOSTILE) - 1)],
    )
    assert len(HOSTILE) >= 50
    retriever = spreading(index, k=100)
    client = TestClient(search_app({"s": retriever}), base_url="http://127.0.0.1")
    for row, text in enumerate(HOSTILE):
        read = client.post("/api/read", json={"row": row}).json()
        assert text.startswith(read["text"]) and (read["text"] == text or read["next"])
        assert client.post("/api/neighbors", json={"row": row}).status_code == 200
    rows = list(range(len(HOSTILE)))
    assert networkx.parse_graphml(client.post("/api/export", json={"rows": rows, "format": "graphml"}).text).order() == len(HOSTILE)
    page = search_page(retriever, "</script><script>alert(1)</script> " + HOSTILE[0], 100)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert data.isascii() and not re.search("[<>&]", data)
    assert json.loads(data)["picture"]["question"].startswith("</script>")
    # The page has its own scripts and no other.
    assert len(re.findall("<script", page, re.IGNORECASE)) == len(
        re.findall("<script", search_page(Retriever(small(), BM25()), "film"), re.IGNORECASE)
    )


def test_a_page_of_one_search_asks_nothing_of_the_network(monkeypatch):
    page = search_page(spreading(small()), "The music of MirrorMask", 2)
    head = page[: page.index("<style")]
    assert "default-src 'none'" in head and "unsafe" not in head and "connect-src" not in head
    assert "base-uri 'none'; form-action 'none'" in head
    assert not re.search(
        r"""(src|href)=["'](?!data:,|#)""", page.replace(re.search("<script>.*?</script>", page, re.DOTALL)[0], "")
    )
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["texts"]["1"] == "An English artist and film maker."
    assert {node["id"] for node in json.loads(data["exports"]["json"])["nodes"]} == {"mckean", "ballamy", "mirrormask"}
    assert networkx.parse_graphml(data["exports"]["graphml"]).number_of_edges() == 2
    monkeypatch.setattr(drawing, "_TEXT", 10)
    page = search_page(spreading(small()), "The music of MirrorMask", 2)
    assert json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["texts"]["1"] == "An English"


def test_an_application_needs_retrievers_on_one_index():
    for given in ({}, {"a": Retriever(small(), BM25()), "b": Retriever(small(), BM25())}):
        with pytest.raises(InvalidArgumentError, match="all on one index"):
            search_app(given)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "can be reached by other machines"),
        (["--host", "::"], "can be reached by other machines"),
        (["--host", "no-such-host.invalid"], "is not an address to listen at"),
        (["--port", "99999"], "--port must be at most 65,535"),
    ],
)
def test_the_command_listens_on_this_machine_alone(tmp_path, capsys, options, told):
    small().save(tmp_path / "index")
    assert main(["serve", str(tmp_path / "index"), *options]) == 2
    assert told in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(tmp_path, capsys):
    small().save(tmp_path / "index")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", str(tmp_path / "index"), "--port", str(taken.getsockname()[1])]) == 2
    assert "is not free" in capsys.readouterr().err


def test_a_search_of_the_command_line_is_written_as_a_page(tmp_path, capsys):
    small().save(tmp_path / "films")
    file = tmp_path / "one.html"
    ask = ["search", str(tmp_path / "films"), "The music of MirrorMask", "--retriever", "spreading(gate='uniform')", "-k", "2"]
    assert main([*ask, "--html", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: the search by spreading(gate='uniform'), a page for any browser\n"
    drawn = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"))[1])["picture"]
    found = Retriever(small(), "spreading(gate='uniform')").retrieve("The music of MirrorMask", 2)
    assert [hit["id"] for hit in drawn["hits"]] == [hit.id for hit in found]
    assert main([*ask, "--html", str(tmp_path / "no" / "folder.html")]) == 2
    with pytest.raises(SystemExit):
        main([*ask, "--html", str(file), "--json"])


@pytest.mark.process
def test_the_command_serves_until_it_is_stopped(tmp_path):
    small().save(tmp_path / "films")
    command = [sys.executable, "-m", "graph_retrievers.commands.cli", "serve", str(tmp_path / "films"), "--port", "0"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        try:
            said = re.fullmatch(r"4 nodes, \d+ retrievers: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends\)\n", process.stdout.readline())
            with urllib.request.urlopen(f"{said[1]}api/index", timeout=20) as answer:
                assert json.load(answer)["title"] == "films"
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
            assert process.stdout.read() == ""
        finally:
            process.kill()
