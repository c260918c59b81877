"""The code of the README and of docs/ runs as it stands there, and prints what the pages say."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from itertools import zip_longest
from pathlib import Path

import pytest
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.language_models import FakeListLLM

from graph_retrievers import tracing
from graph_retrievers.commands import cli
from graph_retrievers.signals import sentence_encoder
from graph_retrievers.systems import system

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# A fenced block, what may stand right above it ("<!-- not run: why -->"), and its language.
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(page):
    """The code of a page: language, text, the line it begins at, and the output that follows or None."""
    text = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    for match, after in zip_longest(found, found[1:]):
        skipped, language, code = match.groups()
        if skipped or language not in ("python", "console"):
            continue
        follows = after is not None and after[2] == "text" and not text[match.end() : after.start()].strip()
        line = text[: match.start(3)].count("\n")
        yield language, code, line, after[3] if follows else None


def check_output(printed, expected, place):
    same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
    assert same, f"{place} prints:\n{printed}\nThe page says:\n{expected}"


def run_page(page, capsys, change=lambda code: code):
    names = {}
    for language, code, line, output in blocks(page):
        place = f"{page.relative_to(ROOT)}, line {line}"
        capsys.readouterr()
        if language == "python":
            # Lines keep their numbers, so that a traceback names the line of the page.
            exec(compile("\n" * line + change(code), str(page), "exec"), names)
            if output is not None:
                check_output(capsys.readouterr().out, output, place)
            continue
        for command, said in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", change(code), re.MULTILINE):
            program, *arguments = shlex.split(command)
            assert program == "graph-retrievers", place
            assert cli.main(arguments) == 0, f"{place}: {capsys.readouterr().err}"
            check_output(capsys.readouterr().out, said or "...", f"{place}: {command}")


@pytest.fixture(autouse=True)
def working_folder(request, tmp_path, kept_vectors, monkeypatch):
    """Pages write into the working folder, and read the examples of the repository from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    # A page may define a system, whose name would then be known to other tests.
    monkeypatch.setattr(system, "SYSTEMS", dict(system.SYSTEMS))
    # What `graph-retrievers index` prints says how many texts were embedded before.
    own = "README.md" in request.node.name
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "vectors" if own else kept_vectors))
    # Pages print what float32 gives, whatever processor there is.
    monkeypatch.setattr(sentence_encoder, "fast_bfloat16", lambda device: False)
    os.symlink(ROOT / "examples", "examples")
    yield
    # The page on tracing leaves the spans on, as a program would.
    tracing.uninstrument()


WITH_SERVER = ["databases.md", "new-retriever.md", "scale-out.md"]
ON_POSTGRES = ["postgres.md", "postgres-tables.md"]
CODE = [page for page in PAGES if page.name not in (*WITH_SERVER, *ON_POSTGRES) and any(blocks(page))]
# It compares many retrievers.
SLOW = "evaluation.md"


def name(page):
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


@pytest.mark.parametrize("page", [pytest.param(p, marks=[pytest.mark.slow] * (p.name == SLOW)) for p in CODE], ids=name)
def test_the_code_of_a_page_prints_what_the_page_says(page, capsys):
    run_page(page, capsys)


@pytest.mark.parametrize("name", WITH_SERVER)
def test_the_code_of_a_page_on_databases_prints_what_the_page_says(name, cypher_server, capsys, monkeypatch):
    if cypher_server.process is None:
        pytest.skip("the page writes under a label that a database in use may hold already")
    server = f'"{cypher_server.uri}", {cypher_server.auth}, name="{cypher_server.name}"'
    address = '"bolt://localhost:7687", ("neo4j", "password"), name="neo4j"'
    assert address in (ROOT / "docs" / name).read_text(encoding="utf-8")
    given = {"USERNAME": cypher_server.auth[0], "PASSWORD": cypher_server.auth[1], "DATABASE": cypher_server.name}
    for variable, value in given.items():
        monkeypatch.setenv(f"NEO4J_{variable}", value)
    uri = "bolt://localhost:7687"
    run_page(ROOT / "docs" / name, capsys, lambda code: code.replace(address, server).replace(uri, cypher_server.uri))


@pytest.mark.database
@pytest.mark.parametrize("name", ON_POSTGRES)
def test_the_code_of_a_page_on_postgresql_prints_what_the_page_says(name, capsys):
    if name == "postgres-tables.md":
        pytest.importorskip("langchain_postgres", reason="langchain-postgres is not installed")
        pytest.importorskip("llama_index.vector_stores.postgres", reason="llama-index-vector-stores-postgres is not installed")
    # The user of the server must reach its folder, and nobody else reaches those of tests.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run_page(ROOT / "docs" / name, capsys, lambda code: code.replace('"postgres-data"', repr(f"{folder}/data")))


def test_the_readme_shows_the_engine_and_both_frameworks():
    shown = [code for language, code, _, output in blocks(ROOT / "README.md") if language == "python" and output]
    for package in ("graph_retrievers", "langchain_graph_retrievers", "llama_graph_retrievers"):
        assert any(f"from {package} import" in code for code in shown), package


def test_the_table_of_compositions_is_what_the_program_prints(capsys):
    cli.main(["taxonomy"])
    head, *rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    first, second = head.index("composition"), head.index("operators")
    groups = {}
    for row in rows:
        groups.setdefault(row[first:second].strip(), []).append(row[:first].strip())
    page = (ROOT / "docs" / "compose.md").read_text(encoding="utf-8")
    shown = page.partition("| composition | retrievers |\n| --- | --- |\n")[2].partition("\n\n")[0]
    expected = [f"| `{formula}` | {', '.join(f'`{name}`' for name in names)} |" for formula, names in groups.items()]
    assert shown.splitlines() == expected


def without_code(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    titles = HEADING.findall(without_code(page))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target in LINK.findall(without_code(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/langchain.md"])
def test_the_retriever_that_a_page_makes_first_merges_documents_of_several_questions(page):
    """Readers put the first retriever that they see into LangChain's own classes."""
    names = {}
    for language, code, _, _ in blocks(ROOT / page):
        if language == "python":
            exec(code, names)
        if "documents" in names:
            break
    found = names["retriever"].invoke(names["question"])
    several = MultiQueryRetriever.from_llm(names["retriever"], FakeListLLM(responses=["Iain Ballamy\nMirrorMask\nCountry music"]))
    merged = several.invoke(names["question"])
    assert len(merged) == len({document.id for document in merged}) > len(found) == 2


def test_every_page_of_the_docs_is_in_the_table_of_contents():
    listed = {target for target in LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))}
    assert {name(page) for page in DOCS.rglob("*.md")} - {"index.md"} <= listed


def test_every_name_of_the_package_has_a_line_in_the_docs_and_no_other_has():
    import graph_retrievers

    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", text.partition("## Names")[2], re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(graph_retrievers.__all__)


def test_the_readme_names_the_commands_that_are_run_to_check_a_checkout():
    run = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    readme, contributing = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    assert {"demo", "test-all"} <= set(run) <= set(made)
    assert all(f"`make {command}`" in readme or f"make {command} " in contributing for command in run)
    assert all(f"`make {command}`" in readme for command in ("demo", "test"))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("given", "first"), [([], True), (["TORCH_INDEX="], False)])
def test_an_environment_gets_torch_for_processors_before_all_else_unless_told_otherwise(tmp_path, given, first):
    """A build that is there is kept, so that pip does not fetch CUDA."""
    command = ["make", "-n", "demo", f"VENV={tmp_path / 'new'}", *given]
    # Whoever runs these tests may have told otherwise, also by an argument of the make that runs them.
    others = {name: value for name, value in os.environ.items() if name not in ("TORCH_INDEX", "MAKEFLAGS", "MAKEOVERRIDES")}
    told = subprocess.run(command, cwd=ROOT, env=others, capture_output=True, text=True, check=True).stdout
    installs = [line for line in told.splitlines() if "pip install" in line]
    assert ["/whl/cpu torch" in line for line in installs] == [True, False][not first :]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_a_page_names_only_what_there_is(page):
    """What a page writes in backquotes exists: dotted names of the engine, paths of files, and names said to be in them."""
    from pydoc import locate

    text = page.read_text(encoding="utf-8")
    for dotted in set(re.findall(r"`((?:langchain_|llama_)?graph_retrievers(?:\.\w+)+)(?:\([^`]*\))?`", text)):
        assert locate(dotted) is not None, f"{page.name}: {dotted}"
    for path in set(re.findall(r"`((?:shared|tests|benchmarks|examples|docs)/[\w/.\-]+)`", text)):
        assert (ROOT / path).exists(), f"{page.name}: {path}"
    for word, path in re.findall(r"`(\w+)` in `([\w/.]+\.py)`", text):
        assert (ROOT / path).exists() and word in (ROOT / path).read_text(encoding="utf-8"), f"{page.name}: {word} in {path}"
