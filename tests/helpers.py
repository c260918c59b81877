"""A deterministic embedding model and a small corpus whose texts refer to each other."""

import re
import zlib

import torch

from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.graph.ragged import top_k
from graph_retrievers.hits import to_hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.signals.signal import Signal
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from tests.rankings import lists_of


class Given(Operator):
    """Finds what a ranking says: a list for each question, or the same for all."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, ranking):
        self.ranking = ranking

    def search(self, question, candidates):
        yield from ()
        lists, place = lists_of(self.ranking), question.place if len(self.ranking) > 1 else 0
        question.notes += self.ranking.notes[place] if self.ranking.notes else ()
        if self.ranking.touched is not None:
            question.touched = int(self.ranking.touched[place])
        return lists[place]


class HashEmbedding:
    """Unit vectors of word counts, each word hashed to a dimension and a sign. Counts its calls."""

    def __init__(self, dimension=64):
        self.dimension = dimension
        self.document_calls = 0
        self.query_calls = 0

    def _vector(self, text):
        vector = [0.0] * self.dimension
        for word in re.findall(r"\w+", text.lower()):
            code = zlib.crc32(word.encode())
            vector[code % self.dimension] += 1.0 if code & (1 << 20) else -1.0
        length = sum(x * x for x in vector) ** 0.5 or 1.0
        return [x / length for x in vector]

    def embed_documents(self, texts):
        self.document_calls += 1
        return [self._vector(t) for t in texts]

    def embed_query(self, text):
        self.query_calls += 1
        return self._vector(text)


# id, title, text, year, ids it links to
CORPUS = [
    ("ada", "Ada Lovelace", "She wrote a program for the Analytical Engine of Charles Babbage.", 1843, ["engine", "babbage"]),
    ("babbage", "Charles Babbage", "He designed the Difference and the Analytical Engine.", 1837, ["engine", "difference"]),
    ("engine", "Analytical Engine", "A design of a general mechanical computer, never finished.", 1837, ["jacquard"]),
    ("difference", "Difference Engine", "A mechanical calculator that tabulates polynomials.", 1822, []),
    ("jacquard", "Jacquard machine", "A loom driven by punched cards, shown in Lyon.", 1804, ["cards"]),
    ("cards", "Punched card", "Stiff paper that holds data by the presence of holes.", 1725, []),
    ("hollerith", "Herman Hollerith", "His tabulating machine counted the census by punched cards.", 1890, ["cards", "ibm"]),
    ("ibm", "IBM", "A company that grew out of tabulating machines.", 1911, []),
    ("turing", "Alan Turing", "He described a universal machine and broke ciphers at Bletchley Park.", 1936, ["bletchley"]),
    ("bletchley", "Bletchley Park", "The estate where British codebreakers worked.", 1938, ["colossus"]),
    ("colossus", "Colossus", "An electronic computer with valves, built to break a cipher.", 1943, []),
    ("loom", "Weaving", "Threads crossed at right angles make a cloth.", 1500, []),
]


def linked_nodes():
    """The corpus as nodes; metadata hold the year, a topic and the ids it links to."""
    war = {"turing", "bletchley", "colossus"}
    return [
        Node(name, text, title, metadata={"year": year, "topic": "war" if name in war else "machines", "links": list(links)})
        for name, title, text, year, links in CORPUS
    ]


def linked_edges():
    """Its edges: (source, target, "links")."""
    return [(name, target, "links") for name, _, _, _, links in CORPUS for target in links]


def as_edges(*tuples):
    """Edges without weight, text or metadata of their own, given as tuples."""
    return [Edge(*given) for given in tuples]


def linked_index(embedding=None, **signals):
    """An index of the corpus with hashed vectors and BM25."""
    return GraphIndex.from_nodes(linked_nodes(), linked_edges(), embedding=embedding or HashEmbedding(), **signals)


class WordOverlap:
    """A relevance model as a function of pairs: words of the query that the text holds. Counts the pairs."""

    def __init__(self):
        self.pairs = 0

    def __call__(self, pairs):
        self.pairs += len(pairs)
        return [float(len(_words(query) & _words(text))) for query, text in pairs]


def _words(text):
    return set(re.findall(r"\w+", text.lower()))


def tiny_seq2seq():
    """A sequence-to-sequence model with random weights, and a tokenizer of letters, as transformers objects."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    letters = {token: number for number, token in enumerate(["<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz()/"])}
    made = Tokenizer(models.WordLevel(letters, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    torch.manual_seed(0)
    shape = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    config = T5Config(vocab_size=len(letters), decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **shape)
    return T5ForConditionalGeneration(config).eval(), tokenizer


class Written(Signal):
    """A signal over words whose scores are written down: a function of a text and a row; 0 and less is not a match."""

    def __init__(self, size, value):
        self.size, self.value = size, value

    def __len__(self):
        return self.size

    def table(self, queries):
        return torch.tensor([[float(self.value(text, row)) for row in range(self.size)] for text in queries])

    def search(self, queries, k, allowed=None):
        table = self.table(queries)
        values, rows = top_k(table.masked_fill((table <= 0) | (False if allowed is None else ~allowed), float("-inf")), k)
        return values, rows.masked_fill(values == float("-inf"), -1)

    def scores(self, queries, batch, rows):
        return self.table(queries)[batch, rows]

    def state(self):
        raise NotImplementedError

    @classmethod
    def restore(cls, tensors, settings, device=None):
        raise NotImplementedError

    def to(self, device):
        return self


def listening(dimension, encoder="sum", **options):
    """A model of LeSeGR that hears its neighbours, as a trained one does."""
    torch.manual_seed(3)
    model = LeSeGRModel(dimension, encoder, **options)
    for layer in filter(None, (model.mlp[-1], model.out)):
        torch.nn.init.normal_(layer.weight)
    return model


def trajectories(reranker, queries, ranking):
    """What MoR's reranker reads of each query's candidates."""
    found = enumerate(lists_of(ranking))
    return run(
        MemoryBackend(queries), [reranker.trajectories(Question(MemoryBackend(queries), place), part) for place, part in found]
    )


def hits_of(ranking, graph, k, shown=None, plain=None):
    """Return the first `k` of each list of a ranking, with its chains, facts and notes, as hits."""
    found = [each.top(k) for each in lists_of(ranking)]
    return to_hits(found, graph, None if shown is None else shown.numpy(), plain, notes=ranking.notes)
