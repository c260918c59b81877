"""The example service: tenants, wrong requests, and answers under load while documents change."""

import asyncio
import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from graph_retrievers import Hits, StoreRetriever
from graph_retrievers.errors import CorruptIndexError

ROOT = Path(__file__).resolve().parents[2]
ANA, BEN, CID = ({"Authorization": f"Bearer {token}"} for token in ("ana", "ben", "cid"))


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "tokens.json").write_text(json.dumps({"ana": "a", "ben": "b", "cid": "a/b"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDEX", str(folder / "index"))
        patch.setenv("TOKENS", str(folder / "tokens.json"))
        app = loaded(ROOT / "examples" / "service" / "app.py").app
        with TestClient(app, raise_server_exceptions=False) as client:
            yield client


def test_each_tenant_has_its_own_documents(client):
    assert client.get("/ready").status_code == 503 and client.get("/health").json() == {"status": "alive"}
    assert client.get("/search", params={"q": "Which loom?"}, headers=ANA).json() == {
        "found": [],
        "notes": ["the store holds no documents"],
    }
    loom = {"id": "loom", "text": "A loom of wood.", "title": "Loom", "metadata": {"page": 1}}
    card = {"id": "card", "text": "A card drives a loom."}
    assert client.post("/documents", json={"documents": [loom, card]}, headers=ANA).json() == {"written": 2, "deleted": 0}
    iron = {**loom, "text": "A loom of iron.", "metadata": {"tenant": "a"}}
    assert client.post("/documents", json={"documents": [iron]}, headers=BEN).status_code == 200
    assert client.get("/ready").json() == {"documents": 3}
    own, other = (client.get("/search", params={"q": "Which loom?"}, headers=who).json()["found"] for who in (ANA, BEN))
    assert {each["id"] for each in own} == {"loom", "card"} and [each["text"] for each in other] == ["A loom of iron."]
    assert next(each for each in own if each["id"] == "loom")["metadata"] == {"page": 1} and other[0]["metadata"] == {}
    # Whose the document is cannot be given.
    assert client.post("/documents", json={"delete": ["card"]}, headers=BEN).status_code == 400
    assert client.post("/documents", json={"delete": ["card"]}, headers=ANA).json() == {"written": 0, "deleted": 1}
    assert len(client.get("/search", params={"q": "Which loom?"}, headers=ANA).json()["found"]) == 1


def asked(client, who, question="Which secret?"):
    return client.get("/search", params={"q": question}, headers=who).json()["found"]


def test_the_commands_of_the_page_on_services_work(client, monkeypatch):
    """What the page gives to a shell: the tokens, the options of the server, and two requests."""
    from uvicorn.main import main

    start, ask, _ = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "service.md").read_text(encoding="utf-8"), re.M | re.S)
    tokens = json.loads(re.search(r"echo '(.*)' > tokens.json", start)[1])
    for token, owner in tokens.items():
        monkeypatch.setitem(client.app.state.tenants, token, owner)
    command = shlex.split(start.splitlines()[-1].partition(" uvicorn ")[2])
    assert main.make_context("uvicorn", command).params["workers"] == 4
    answers = []
    for line in ask.replace("\\\n", "").splitlines():
        curl, *rest = shlex.split(line)
        options = [tuple(pair) for pair in zip(rest, rest[1:], strict=False) if pair[0] in ("-H", "-d")]
        headers = dict(value.split(": ") for name, value in options if name == "-H")
        (url,) = [each for each in rest if each.startswith("localhost:8000/")]
        body = next((value for name, value in options if name == "-d"), None)
        answers.append(client.request("POST" if body else "GET", url.removeprefix("localhost:8000"), headers=headers, content=body))
        assert curl == "curl" and answers[-1].status_code == 200
    assert answers[0].json() == {"written": 1, "deleted": 0}
    assert [found["id"] for found in answers[1].json()["found"]] == ["loom"]
    assert client.post("/documents", headers=headers, json={"delete": ["loom"]}).json() == {"written": 0, "deleted": 1}


def test_no_name_of_a_tenant_or_a_document_leads_to_those_of_another(client):
    secret = {"id": "x", "text": "The secret of the third tenant."}
    assert client.post("/documents", json={"documents": [secret]}, headers=CID).status_code == 200
    # The id of the other's document, if names were only joined by a slash.
    assert client.post("/documents", json={"delete": ["b/x"]}, headers=ANA).status_code == 400
    false = {"id": "b/x", "text": "A false secret.", "metadata": {"tenant": ["a/b", "b"]}}
    assert client.post("/documents", json={"documents": [false]}, headers=ANA).status_code == 200
    (own,), (other,) = asked(client, CID), [each for each in asked(client, ANA) if "secret" in each["text"]]
    assert (own["id"], own["text"], own["path"]) == ("x", secret["text"], "x")
    assert (other["id"], other["path"], other["metadata"]) == ("b/x", "b/x", {})
    assert asked(client, BEN) == [] or all("secret" not in each["text"] for each in asked(client, BEN))
    assert client.post("/documents", json={"delete": ["b/x"]}, headers=ANA).status_code == 200
    # What is told does not depend on what others have.
    answers = [client.post("/documents", json={"delete": [name]}, headers=BEN) for name in ("x", "nothing", "../a%2Fb/x")]
    assert len({answer.text for answer in answers}) == 1 and "3" not in answers[0].text


def test_no_score_depends_on_what_other_tenants_have(client):
    own = [{"id": name, "text": f"The gears of a mill, {name}."} for name in ("first", "second")]
    assert client.post("/documents", json={"documents": own}, headers=CID).status_code == 200
    before = asked(client, CID, "first gears")
    others = [{"id": f"n{n}", "text": f"The first gears of mill {n}.", "title": "first"} for n in range(30)]
    assert client.post("/documents", json={"documents": others}, headers=BEN).status_code == 200
    assert asked(client, CID, "first gears") == before and len(before) > 1


async def test_who_leaves_within_a_body_is_not_counted_as_a_failure(client, caplog):
    parts = [{"type": "http.request", "body": b'{"documents": [', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return parts.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"authorization", b"Bearer ana"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/documents", "headers": headers, "query_string": b"", "state": {}}
    await client.app({**scope, "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("x", 80)}, receive, send)
    assert all(message.get("status", 400) == 400 for message in sent) and not caplog.records


def test_a_body_is_read_after_the_token_and_no_further_than_its_bound(client, monkeypatch):
    monkeypatch.setattr(sys.modules["app"], "BYTES_AT_MOST", 1000)
    assert client.post("/documents", content=iter([b" " * 100] * 100)).status_code == 401
    answer = client.post("/documents", content=b" " * 1001, headers=ANA)
    assert answer.status_code == 413 and answer.json() == {"detail": "send at most 1,000 bytes at a time"}
    assert client.post("/documents", content=iter([b" " * 100] * 100), headers=ANA).status_code == 413
    assert client.post("/documents", content=b'{"documents": []}' + b" " * 983, headers=ANA).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"{", b"\xff", b"[]", b"null", b"[" * 100_000],
        *[b'{"documents": [{"id": "x"}]}', b'{"documents": [{"id": "", "text": ""}]}'],
        *[b'{"documents": [{"id": "x", "text": "half \\ud800"}]}', b'{"documents": [{"id": "\\ud800", "text": "half"}]}'],
        *[b'{"documents": [{"id": "x", "text": "%s"}]}' % (b"a" * 20_001), b'{"delete": ["%s"]}' % b'","'.join([b"a"] * 1001)],
    ],
)
def test_a_body_that_is_no_change_is_refused_without_being_repeated(client, content):
    answer = client.post("/documents", content=content, headers=ANA)
    assert answer.status_code == 422 and len(answer.text) < 1000 and "input" not in answer.json()["detail"][0]


@pytest.mark.parametrize("value", ["Infinity", "[" * 100 + "]" * 100, '"half \\ud800"'])
def test_metadata_that_cannot_be_kept_are_refused(client, value):
    body = f'{{"documents": [{{"id": "x", "text": "x", "metadata": {{"v": {value}}}}}]}}'
    assert client.post("/documents", content=body.encode(), headers=BEN).status_code in (400, 422)
    assert all(each["id"] != "x" for each in asked(client, BEN))


async def test_a_look_that_fails_is_not_the_last(monkeypatch):
    app, looks = sys.modules["app"], []
    monkeypatch.setattr(app, "SECONDS_BETWEEN_LOOKS", 0.01)

    class Store:
        folder = "folder"

        def reload(self):
            looks.append(1)
            raise OSError(5, "Input/output error") if len(looks) % 2 else CorruptIndexError("truncated")

    watching = asyncio.create_task(app.watch(Store()))
    await asyncio.sleep(0.5)
    assert not watching.done() and len(looks) > 2
    watching.cancel()


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({"q": "Which loom?"}, {}, 401),
        ({"q": "Which loom?"}, {"Authorization": "Bearer a"}, 401),
        ({"q": ""}, ANA, 422),
        ({"q": "x" * 1001}, ANA, 422),
        ({"q": "Which loom?", "k": 0}, ANA, 422),
        ({"q": "Which loom?", "k": 51}, ANA, 422),
    ],
)
def test_a_wrong_request_is_refused(client, params, headers, status):
    assert client.get("/search", params=params, headers=headers).status_code == status


def test_a_search_that_takes_too_long_is_the_fault_of_the_service(client, monkeypatch):
    assert client.post("/documents", json={"documents": [{"id": "loom", "text": "A loom."}]}, headers=ANA).status_code == 200
    monkeypatch.setitem(client.app.state._state, "retriever", StoreRetriever(client.app.state.store, time_limit=1e-9))
    answer = client.get("/search", params={"q": "Which loom?"}, headers=ANA)
    assert answer.status_code == 503 and "has no answer after" in answer.json()["detail"]


async def test_a_worker_answers_a_few_searches_at_a_time(client, monkeypatch):
    at_once, running, most = sys.modules["app"].AT_ONCE, [], []

    class Slow:
        async def aretrieve(self, *question, **options):
            running.append(1)
            most.append(len(running))
            await asyncio.sleep(0.02)
            running.pop()
            return Hits()

    monkeypatch.setitem(client.app.state._state, "retriever", Slow())
    monkeypatch.setitem(client.app.state._state, "places", asyncio.Semaphore(at_once))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://service", headers=ANA) as many:
        answers = await asyncio.gather(*(many.get("/search", params={"q": "Which loom?"}) for _ in range(4 * at_once)))
    assert {answer.status_code for answer in answers} == {200} and max(most) == at_once


def test_figures_are_those_of_prometheus(client):
    client.get("/search", params={"q": "Which loom?"}, headers=ANA)
    client.get("/elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(client.app.state._state, "retriever", None)
        assert client.get("/search", params={"q": "Which loom?"}, headers=ANA).status_code == 500
    lines = client.get("/metrics").text.splitlines()
    assert any(line.startswith('answers_total{path="/search",status="200"}') for line in lines)
    assert any(line.startswith('answers_total{path="other",status="404"}') for line in lines)
    assert 'answers_total{path="/search",status="500"} 1.0' in lines
    assert any(line.startswith("search_seconds_bucket") for line in lines)


@pytest.mark.process
def test_workers_answer_while_documents_change():
    seen = loaded(ROOT / "benchmarks" / "service.py").served(clients=6, seconds=15, workers=2, updates=4, documents=20)
    assert seen["failed"] == seen["mixed"] == seen["foreign"] == seen["unknown"] == 0, seen
    assert seen["answers"] == seen["counted"] > 6
