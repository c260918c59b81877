"""The example service: tenants, wrong requests, and answers under load while documents change."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

ROOT = Path(__file__).resolve().parents[2]
ANA, BEN = {"Authorization": "Bearer ana"}, {"Authorization": "Bearer ben"}


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "tokens.json").write_text(json.dumps({"ana": "a", "ben": "b"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDEX", str(folder / "index"))
        patch.setenv("TOKENS", str(folder / "tokens.json"))
        with TestClient(loaded(ROOT / "examples" / "service" / "app.py").app) as client:
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


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({"q": "Which loom?"}, {}, 401),
        ({"q": "Which loom?"}, {"Authorization": "Bearer a"}, 401),
        ({"q": ""}, ANA, 422),
        ({"q": "  "}, ANA, 400),
        ({"q": "x" * 1001}, ANA, 422),
        ({"q": "Which loom?", "k": 0}, ANA, 422),
        ({"q": "Which loom?", "k": 51}, ANA, 422),
    ],
)
def test_a_wrong_request_is_refused(client, params, headers, status):
    assert client.get("/search", params=params, headers=headers).status_code == status


def test_figures_are_those_of_prometheus(client):
    client.get("/search", params={"q": "Which loom?"}, headers=ANA)
    client.get("/elsewhere")
    lines = client.get("/metrics").text.splitlines()
    assert any(line.startswith('answers_total{path="/search",status="200"}') for line in lines)
    assert any(line.startswith('answers_total{path="other",status="404"}') for line in lines)
    assert any(line.startswith("search_seconds_bucket") for line in lines)


@pytest.mark.process
def test_workers_answer_while_documents_change():
    seen = loaded(ROOT / "benchmarks" / "service.py").served(clients=6, seconds=15, workers=2, updates=4, documents=20)
    assert seen["failed"] == seen["mixed"] == seen["foreign"] == seen["unknown"] == 0, seen
    assert seen["answers"] == seen["counted"] > 6
