"""Entities that texts name: extractors, and the nodes and edges that are made of them."""

from collections import Counter
from types import SimpleNamespace

import pytest

from graph_retrievers import BM25, GRAG, PPR, Fused, GraphIndex, HyDE, Node, Retriever, WalkFusion
from graph_retrievers.construction import EntityMentions, build_edges
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError
from graph_retrievers.graph.sentences import sentences
from graph_retrievers.signals.entities import CapitalizedNames, EntityExtractor, as_entity_extractor, entity_key
from graph_retrievers.systems import default_system
from graph_retrievers.systems.traits import names_lead
from tests.helpers import HashEmbedding


class Spacy:
    """A pipeline with spaCy's interface: capitalised words are persons, numbers cardinals."""

    def __init__(self):
        self.batches = []

    def __call__(self, text):
        return next(iter(self.pipe([text])))

    def pipe(self, texts, batch_size=1000):
        self.batches.append(batch_size)
        for text in texts:
            words = text.split()
            spans = [SimpleNamespace(text=word, label_="CARDINAL" if word.isdigit() else "PERSON") for word in words]
            yield SimpleNamespace(ents=tuple(span for span in spans if span.text[0].isupper() or span.text.isdigit()))


class GLiNER:
    """A model with GLiNER's interface: capitalised words, of the first label, with a score that falls with the word's length."""

    def predict_entities(self, text, labels, flat_ner=True, threshold=0.5, multi_label=False):
        found = [{"text": word, "label": labels[0], "score": 1 / len(word)} for word in text.split() if word[0].isupper()]
        return [entity for entity in found if entity["score"] >= threshold]


class Fixed:
    """An extractor that gives the same for any texts."""

    def __init__(self, result):
        self.result = result

    def names(self, texts):
        return self.result


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One here. Two there! Three?  Four", ["One here.", "Two there!", "Three?", "Four"]),
        ("Dr. Holm and J. R. Tolkien met. They sang.", ["Dr. Holm and J. R. Tolkien met.", "They sang."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("It cost 3.5 lakh approx. in all. Done", ["It cost 3.5 lakh approx. in all.", "Done"]),
        ("A line\nanother\n\n  third ", ["A line", "another", "third"]),
        ("織機。紋紙!\u3000次", ["織機。", "紋紙!", "次"]),
        ("Wait... what? Yes", ["Wait...", "what?", "Yes"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_where_readers_see_an_end(text, found):
    assert sentences(text) == found


def test_sentences_of_long_texts_are_found_in_linear_time():
    assert len(sentences("a. " * 20_000)) == 1 and len(sentences("A b. " * 20_000)) == 20_000
    assert len(sentences("x" * 200_000 + ". Y")) == 2 and len(sentences("." * 50_000)) == 1


def test_capitals_tell_names_without_the_words_that_open_a_sentence():
    texts = ["In Lund, Ada Holm met Cleo. Did The Looms play? The Tower of London.", "no name", "", "Where Did It"]
    assert CapitalizedNames().names(texts) == [["Lund", "Ada Holm", "Cleo", "Looms", "Tower of London"], [], [], ["It"]]
    assert CapitalizedNames() == CapitalizedNames() and {CapitalizedNames(): 1}[CapitalizedNames()]
    assert [entity_key(name) for name in ("The Tower", "tower", "A", "the the")] == ["tower", "tower", "a", "the"]


def test_a_spacy_pipeline_reads_texts_in_batches_and_numbers_are_left_out():
    pipeline = Spacy()
    extractor = as_entity_extractor(pipeline)
    assert isinstance(extractor, EntityExtractor)
    assert extractor.names(["Ada met 3 of Ada and Otto", "12"]) == [["Ada", "Otto"], []] and pipeline.batches == [64]


def test_a_gliner_model_finds_what_it_scores_highly_enough():
    assert as_entity_extractor(GLiNER()).names(["Jo of Lyon", "", "Ed"]) == [["Jo"], [], ["Ed"]]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: as_entity_extractor(3), "extractor is 3; expected"),
        (lambda: as_entity_extractor(CapitalizedNames), "call it: CapitalizedNames"),
        (lambda: as_entity_extractor(lambda text: 1 / 0).names(["a"]), "extractor fails for 'a': ZeroDivisionError"),
        (lambda: as_entity_extractor(lambda text: "Ada").names(["a"]), "must be a list of strings, got 'Ada'"),
        (lambda: EntityMentions(min_texts=0), "min_texts"),
        (lambda: EntityMentions(entity_type=""), "entity_type"),
        (lambda: EntityMentions("spacy"), "extractor is 'spacy'"),
        (lambda: EntityMentions(entity_type="passage"), "entity_type is 'passage'"),
        (lambda: EntityMentions(max_share=2), "max_share"),
        (
            lambda: EntityMentions(Fixed([["Ada"]])).nodes([Node("a", "A."), Node("b", "B.")]),
            "gives 1 lists for 2 texts; expected one for each",
        ),
        (
            lambda: EntityMentions(Fixed([["Ada"], "Ada"])).nodes([Node("a", "A."), Node("b", "B.")]),
            "must be a list of strings, got 'Ada'",
        ),
        (
            lambda: EntityMentions(Fixed([["Ada"], [7]])).nodes([Node("a", "A."), Node("b", "B.")]),
            r"must be a list of strings, got \[7\]",
        ),
        (
            lambda: EntityMentions(Fixed(None)).nodes([Node("a", "A."), Node("b", "B.")]),
            "the result of extractor.names is None; expected a list",
        ),
        (lambda: EntityMentions().nodes([Node("a", "By Ada Holm.", type="entity")]), "All 1 documents have the type of entities"),
        (lambda: build_edges([Node(n, "By Ada Holm.") for n in "ab"], EntityMentions()), "make the entities first"),
        (lambda: build_edges([Node("a", "Ada Holm."), Node("b", "A loom.")], EntityMentions()), "No name stands in two texts"),
        (lambda: build_edges([Node("a", "ada holm"), Node("b", "ada holm")], EntityMentions()), "No name was found in the 2 texts"),
    ],
)
def test_what_cannot_be_read_is_told(make, told):
    with pytest.raises(InvalidArgumentError, match=told):
        make()


PEOPLE = [f"{first} {last}" for first in ("Ada", "Otto", "Cleo", "Ines") for last in ("Holm", "Veld", "Marsh", "Quist")]
PICTURES = [
    f"{first} {last}" for first in ("Silent", "Golden", "Frozen", "Painted") for last in ("Harbour", "Mirror", "Window", "Engine")
]
TEXTS = ["A film with Ada Holm.", "In Lund, Ada Holm met Cleo Marsh.", "The ADA HOLM trust of Lund.", "The Ada Holm of looms."]


def test_entities_are_nodes_that_the_texts_which_name_them_lead_to():
    names = EntityMentions()
    nodes = names.nodes([Node(str(n), text) for n, text in enumerate(TEXTS)])
    assert [(node.id, node.title, node.text, node.type) for node in nodes[4:]] == [
        ("entity:ada holm", "Ada Holm", "", "entity"),
        ("entity:lund", "Lund", "", "entity"),
    ]
    assert [node.type for node in nodes[:4]] == ["passage"] * 4 and nodes[0].text == TEXTS[0]
    edges = [(f"{n}", "entity:ada holm", "mentions") for n in range(4)]
    lund = [("1", "entity:lund", "mentions"), ("2", "entity:lund", "mentions")]
    assert build_edges(nodes, names) == [edges[0], lund[0], edges[1], edges[2], lund[1], edges[3]]
    # Once more: nothing is made twice, and types that are given stay.
    assert names.nodes(nodes) == nodes
    assert EntityMentions(min_texts=1, entity_type="name").nodes([Node("a", "By Ada Holm.", type="film")]) == [
        Node("a", "By Ada Holm.", type="film"),
        Node("entity:ada holm", "", "Ada Holm", "name", {"named_by_texts": True}),
    ]


@pytest.mark.parametrize("extractor", [Spacy(), lambda text: [word for word in text.split() if word[0].isupper()]])
def test_any_extractor_makes_the_graph(extractor):
    names = EntityMentions(extractor)
    nodes = names.nodes([Node("a", "Ada saw Lund"), Node("b", "Ada left"), Node("c", "Lund lies there")])
    index = GraphIndex.from_documents(nodes, edges=[names], embedding=HashEmbedding())
    assert [(edge.source, edge.target) for edge in index.graph.edges()] == [
        ("a", "entity:ada"),
        ("a", "entity:lund"),
        ("b", "entity:ada"),
        ("c", "entity:lund"),
    ]
    assert Counter(index.graph.types) == {"passage": 3, "entity": 2}


def test_entities_follow_changes_and_are_given_again_to_a_saved_index(tmp_path):
    names = EntityMentions()
    index = GraphIndex.from_documents(names.nodes([Node("a", "By Ada Holm."), Node("b", "For Ada Holm.")]), edges=names)
    more = [Node("c", "Ada Holm of Lund met Ada Holm."), Node("d", "He saw Lund.")]
    changed = index.with_changes(add=more, delete=["b"])
    assert [edge.source for edge in changed.graph.edges()] == ["a", "c"]
    # New entities come with the new texts.
    lund = [*map(index.graph.node, range(len(index))), *more, Node("e", "In Lund.")]
    both = index.with_changes(add=[node for node in names.nodes(lund) if node.id not in index.graph])
    assert [edge.source for edge in both.graph.edges() if edge.target == "entity:lund"] == ["d", "e"]
    index.save(tmp_path)
    loaded = GraphIndex.load(tmp_path, edges=names).with_changes(add=more)
    assert [edge.source for edge in loaded.graph.edges()] == ["a", "b", "c"]


def test_names_that_many_texts_hold_are_no_entities():
    documents = [Node(str(n), f"By Ada Holm {'and Otto Veld' if n < 11 else ''}.") for n in range(40)]
    ids = [node.id for node in EntityMentions(max_share=0.3).nodes(documents)[40:]]
    assert ids == ["entity:otto veld"]
    assert len(EntityMentions(max_share=1).nodes(documents)) == 42
    # Ten texts are not many, however few there are.
    assert len(EntityMentions(max_share=0).nodes(documents[:10])) == 12
    with pytest.raises(NothingToReadError, match="more than 0% of the texts do not count"):
        build_edges(documents[:11], EntityMentions(max_share=0))


FILMS = [f"{name} is a drama directed by {by}." for name, by in zip(PICTURES, PEOPLE, strict=True)]
BORN = [f"{name} was born in 19{n + 10} near a river and worked for the theatre." for n, name in enumerate(PEOPLE)]


@pytest.fixture(scope="module")
def named_and_plain():
    embedding = HashEmbedding()
    documents = [Node(str(n), text) for n, text in enumerate([*BORN, *FILMS])]
    names = EntityMentions()
    named = GraphIndex.from_documents(names.nodes(documents), edges=names, embedding=embedding)
    return named, GraphIndex.from_documents(documents, edges=[], embedding=embedding)


def found(retriever, question, **asked):
    return [hit.id for hit in retriever.retrieve(question, k=5, **asked)]


def test_the_default_finds_what_it_finds_without_entities(named_and_plain):
    named, plain = named_and_plain
    assert str(default_system(named)) == "walk-fusion"
    for title in PICTURES:
        question = f"When was the director of {title} born?"
        assert found(Retriever(named), question) == found(Retriever(plain), question)
        assert found(Retriever(named, types=["passage"]), question) == found(Retriever(plain), question)
    hits = Retriever(named).retrieve(f"When was the director of {PICTURES[0]} born?", k=5)
    assert {"0", str(len(BORN))} <= {hit.id for hit in hits}
    assert "(entity)" not in hits.to_context()


def test_whether_search_finds_more_does_not_depend_on_entities():
    # Passages that link to each other; only the entities, and no title, are in the texts of others.
    texts = [f"{text} {'word ' * 20}" for text in (*BORN, *FILMS)]
    documents = [Node(str(n), text, f"Zq{n}") for n, text in enumerate(texts)]
    names, edges = EntityMentions(), [(str(n), str(n + len(BORN)), "links") for n in range(len(BORN))]
    named = GraphIndex.from_documents(names.nodes(documents), edges=[names, *edges], embedding=HashEmbedding())
    plain = GraphIndex.from_documents(documents, edges=edges, embedding=HashEmbedding())
    assert names_lead(named) and not names_lead(plain), "the entities are names"
    assert PPR().finds_less(named) and PPR().finds_less(plain)


@pytest.mark.parametrize("system", [Fused(WalkFusion(), BM25()), HyDE(search=WalkFusion()), GRAG(first=WalkFusion())])
def test_a_composition_finds_what_it_finds_without_entities_where_its_walks_follow_names_themselves(named_and_plain, system):
    named, plain = named_and_plain
    for title in PICTURES:
        question = f"When was the director of {title} born?"
        assert found(Retriever(named, system), question) == found(Retriever(plain, system), question)
    # This walk needs them.
    assert system.skips_names(named) and not Fused(WalkFusion(), PPR()).skips_names(named)


@pytest.mark.parametrize("name", ["vector", "bm25", "hybrid", "ppr", "spreading", "fastinsight", "lightrag", "pathrag", None])
def test_entities_are_returned_where_they_are_asked_for(named_and_plain, name):
    named, _ = named_and_plain
    retriever, question = Retriever(named, name), f"Who directed {PICTURES[0]}, {PEOPLE[0]}?"
    asked = Retriever(named, name, types=["entity"])
    entities = [node for node in named.graph.ids if node.startswith("entity:")]
    assert not set(found(retriever, question)) & set(entities)
    assert set(found(asked, question)) <= set(entities) and found(asked, question)
    only = {"$type": "entity"}
    assert set(found(retriever, question, filter=only)) <= set(entities) and found(retriever, question, filter=only)
    assert set(found(retriever, question, scope=only)) <= set(entities) and found(retriever, question, scope=only)
    assert found(retriever, question, filter={"$id": "3"}) == ["3"]
