"""SpreadingActivationPGRetriever takes the vectors that a property graph index has made, and says how it found its facts."""

from dataclasses import replace

import numpy as np
import pytest
from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError
from graph_retrievers.index import GraphIndex, IndexStore
from llama_graph_retrievers import GraphVectorStore, SpreadingActivationPGRetriever, provenance, to_context
from tests.integration.llama_corpus import HashEmbed, Known
from tests.integration.test_llama_stores import ListingStore

PASSAGES = {"p1": "Ada programmed Engine.", "p2": "Engine read Cards.", "p3": "Jacquard invented Cards."}
QUESTION = "Who invented what Ada worked with?"


def graph(**options):
    nodes = [TextNode(text=text, id_=name, metadata={"title": f"Page {name}"}) for name, text in PASSAGES.items()]
    made = {"embed_model": HashEmbed(), "kg_extractors": [Known()], "use_async": False, "llm": MockLLM()}
    return PropertyGraphIndex(nodes, property_graph_store=SimplePropertyGraphStore(), **made | options)


def own(kind, tmp_path):
    return (
        {"simple": SimpleVectorStore, "listing": ListingStore}[kind]()
        if kind != "graph"
        else GraphVectorStore(IndexStore(tmp_path))
    )


def vectors_of(retriever):
    index = retriever.engine.index
    return dict(zip(index.graph.ids, index.dense.vectors.tolist(), strict=True))


@pytest.mark.parametrize("kind", [None, "simple", "listing", "graph"])
def test_nothing_is_embedded_again(kind, tmp_path):
    model = HashEmbed()
    index = graph(embed_model=model, **({} if kind is None else {"vector_store": own(kind, tmp_path / "index")}))
    made = len(model.texts)
    # LlamaIndex embeds the entities as it writes them, with their properties.
    wanted = {name: HashEmbed().get_text_embedding(text) for name, text in zip_entities(index)}
    for retriever in (
        SpreadingActivationPGRetriever(index),
        SpreadingActivationPGRetriever(index.property_graph_store, vector_store=index.vector_store, embed_model=model),
    ):
        assert len(model.texts) == made
        assert retriever.retrieve(QUESTION) and model.queries[-1] == QUESTION and len(model.texts) == made
        found = vectors_of(retriever)
        assert found.keys() == wanted.keys() == {"Ada", "Engine", "Cards", "Jacquard"}
        assert all(np.allclose(found[name], np.array(v) / np.linalg.norm(v), atol=1e-6) for name, v in wanted.items())
    answers = index.as_retriever(sub_retrievers=[SpreadingActivationPGRetriever(index)]).retrieve(QUESTION)
    assert {node.node.node_id for node in answers} >= {"p1", "p2"}


def zip_entities(index):
    return [(node.id, str(node)) for node in index.property_graph_store.get() if isinstance(node, EntityNode)]


def test_entities_that_the_vector_store_does_not_hold_are_embedded():
    model = HashEmbed()
    index = graph(embed_model=model)
    index.property_graph_store.upsert_nodes([EntityNode(name="Loom")])
    index.property_graph_store.upsert_relations([Relation(label="read", source_id="Loom", target_id="Cards")])
    made = len(model.texts)
    assert "Loom -> read -> Cards" in [
        node.text for node in SpreadingActivationPGRetriever(index, include_text=False).retrieve("Loom")
    ]
    assert model.texts[made:] == ["Loom. Loom read Cards."]
    # An index without vectors of entities, and one that is given, are not asked for a vector store.
    model = HashEmbed()
    assert len(vectors_of(SpreadingActivationPGRetriever(graph(embed_kg_nodes=False), embed_model=model))) == len(model.texts) == 4
    given = GraphIndex.from_texts(["Ada", "Cards"], ids=["Ada", "Cards"], embedding=HashEmbed())
    standing = SpreadingActivationPGRetriever(index, index=given)
    assert standing.engine.index is given and standing.retrieve("Ada") == []
    assert given.embedding.library_model.queries == ["Ada"] and model.queries == []
    with pytest.raises(InvalidArgumentError, match="index= has its vectors"):
        SpreadingActivationPGRetriever(index.property_graph_store, index=given, vector_store=index.vector_store)


def test_a_vector_store_that_is_given_comes_before_that_of_the_index():
    index, store = graph(vector_store=SimpleVectorStore()), ListingStore()
    others = {name: np.eye(4)[place].tolist() for place, name in enumerate(["Ada", "Engine", "Cards", "Jacquard"])}
    store.add([TextNode(id_=name, text=name, embedding=vector) for name, vector in others.items()])
    assert vectors_of(SpreadingActivationPGRetriever(index, vector_store=store)) == others


def test_the_model_of_a_property_graph_index_embeds_for_an_index_without_one():
    model, own = HashEmbed(), HashEmbed()
    given = GraphIndex.from_texts(["Ada", "Cards"], ids=["Ada", "Cards"], vectors=np.eye(2, 64))
    SpreadingActivationPGRetriever(graph(embed_model=model), index=given).retrieve("Ada")
    assert model.queries == ["Ada"]
    SpreadingActivationPGRetriever(graph(embed_model=model), index=given, embed_model=own).retrieve("Cards")
    assert model.queries == ["Ada"] and own.queries == ["Cards"]


class Silent(BasePydanticVectorStore):
    """A store that gives nothing back but answers."""

    stores_text: bool = True

    @property
    def client(self):
        return None

    def add(self, nodes, **options):
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id, **options):
        raise AssertionError

    def query(self, query, **options):
        raise AssertionError


def test_stores_that_give_no_vectors_and_other_objects_are_refused():
    index = graph(vector_store=Silent())
    with pytest.raises(InvalidArgumentError, match="Silent does not list its nodes.*pass the graph store"):
        SpreadingActivationPGRetriever(index)
    assert SpreadingActivationPGRetriever(index.property_graph_store, embed_model=HashEmbed()).retrieve(QUESTION)
    store = index.property_graph_store
    with pytest.raises(InvalidArgumentError, match="vector_store is a dict"):
        SpreadingActivationPGRetriever(store, vector_store={}, embed_model=HashEmbed())
    with pytest.raises(InvalidArgumentError, match="VectorStoreIndex.*PropertyGraphIndex"):
        SpreadingActivationPGRetriever(VectorStoreIndex([], embed_model=HashEmbed()))
    with pytest.raises(InvalidArgumentError, match="index= takes a GraphIndex"):
        SpreadingActivationPGRetriever(store, index=index, embed_model=HashEmbed())
    # Vectors of another width cannot be compared with those of the questions.
    with pytest.raises(GraphRetrieverError, match="3"):
        SpreadingActivationPGRetriever(graph(), embed_model=lambda texts: [[1.0, 2.0, 3.0]] * len(texts)).retrieve(QUESTION)


@pytest.mark.parametrize("include_text", [False, True])
def test_hits_say_how_they_were_found(include_text):
    system = replace(SpreadingActivationPGRetriever.system, chains=None, gate="uniform", steps=3)
    retriever = SpreadingActivationPGRetriever(graph(), include_text, entities=lambda question: ["Ada"], system=system)
    hits = retriever.retrieve(QUESTION)
    told = [provenance(hit) for hit in hits]
    # The path to each fact begins at the entity of the question and ends with the fact.
    assert [said["path"]["nodes"] for said in told] == [
        ["Ada", "Engine"],
        ["Ada", "Engine", "Cards"],
        ["Ada", "Engine", "Cards", "Jacquard"],
    ]
    assert told[-1]["path"]["relations"] == ["programmed", "read", "invented"]
    assert told[-1]["path"]["forward"] == [True, True, False]
    assert [said["operator"] for said in told] == ["GatedPropagation"] * 3
    assert [said.get("kind") for said in told] == ([None] * 3 if include_text else ["fact"] * 3)
    if include_text:
        assert to_context(hits).startswith(
            "Paths:\nAda -[programmed]-> Engine -[read]-> Cards <-[invented]- Jacquard\n\nTexts:\n- Page p1: "
        )
    else:
        assert (
            to_context(hits) == "Facts:\n- Ada -> programmed -> Engine\n- Engine -> read -> Cards\n- Jacquard -> invented -> Cards"
        )
    # How a node was found is not part of what LlamaIndex tells nodes apart by.
    again = SpreadingActivationPGRetriever(graph(), include_text, entities=lambda question: ["Jacquard"], system=system)
    hashes = {hit.node.hash for hit in again.retrieve(QUESTION)}
    assert include_text or hashes == {hit.node.hash for hit in hits}
