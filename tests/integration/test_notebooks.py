"""The notebooks of examples/notebooks run, and print what is saved in them."""

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)
PAGES = sorted(notebooks.FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def environment(tmp_path, kept_vectors, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(kept_vectors))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def forms(notebook):
    """The forms of what each cell shows: a picture differs from one version of matplotlib to another, its form does not."""
    return [[sorted(output.get("data", {})) for output in cell.get("outputs", [])] for cell in notebook.cells]


def check(path):
    saved, fresh = nbformat.read(path, as_version=4), notebooks.run(path)
    assert notebooks.texts(fresh) == notebooks.texts(saved)
    assert forms(fresh) == forms(saved)
    assert "image/png" in str(forms(saved))


@pytest.mark.process
@pytest.mark.parametrize("path", [path for path in PAGES if path.stem != "database"], ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_saved_in_it(path):
    check(path)


@pytest.mark.process
@pytest.mark.database
def test_the_notebook_on_a_database_prints_what_is_saved_in_it(cypher_server, monkeypatch):
    if cypher_server.process is None:
        pytest.skip("the notebook writes under a label that a database in use may hold already")
    user, password = cypher_server.auth
    for name, value in {"URI": cypher_server.uri, "USERNAME": user, "PASSWORD": password, "DATABASE": cypher_server.name}.items():
        monkeypatch.setenv(f"NEO4J_{name}", value)
    check(notebooks.FOLDER / "database.ipynb")


@pytest.mark.process
def test_a_cell_that_fails_ends_a_run(tmp_path):
    path = tmp_path / "failing.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    with pytest.raises(notebooks.CellExecutionError, match="ZeroDivisionError"):
        notebooks.run(path)


def test_what_differs_from_run_to_run_is_not_kept():
    output = nbformat.v4.new_output
    outputs = [
        output("stream", name=name, text=text) for name, text in (("stdout", "a\n"), ("stderr", "warned"), ("stdout", "b\n"))
    ]
    shown = {"image/png": "", "text/plain": "<Figure>"}
    outputs.append(output("execute_result", data=shown, metadata={"time": 1}, execution_count=3))
    cell = nbformat.v4.new_code_cell("1", outputs=outputs, execution_count=3, metadata={"execution": {"started": "now"}})
    made = notebooks.plain(nbformat.v4.new_notebook(cells=[cell], metadata={"machine": "this"}))
    nbformat.validate(made)
    assert made.metadata == notebooks.METADATA
    kept = made.cells[0]
    assert (kept.id, kept.metadata, kept.execution_count) == ("cell-0", {}, None)
    assert [each.get("text") or each for each in kept.outputs] == [
        "a\nb\n",
        {"output_type": "execute_result", "data": {"image/png": ""}, "metadata": {}, "execution_count": None},
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_says_nothing_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 300_000
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    # Saved again without a run, it is the same file.
    assert json.loads(nbformat.writes(notebooks.plain(nbformat.reads(text, as_version=4)))) == json.loads(text)
    said = "".join(notebooks.texts(notebook))
    assert not re.search(r"/(?:home|root|tmp|usr|venv)/|site-packages| at 0x[0-9a-f]+", said)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_to_files(path):
    links = [
        link
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "markdown"
        for link in re.findall(r"\]\(([^)\s#]+)", cell.source)
        if "://" not in link
    ]
    assert links and all((path.parent / link).exists() for link in links)
