"""Whether a GPU gives what the CPU gives, and how much sooner: synthetic graphs and models, made here.

Needs torch and transformers, no extra of this package. Without CUDA the operators run on the CPU alone, each batch being
checked against its queries one by one. Ends with status 1 where results differ.

    python benchmarks/gpu.py [--nodes 50000 --edges 500000 --queries 64]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from graphs import corpus_graph, power_law_pairs, unit_vectors

from graph_retrievers import Retriever
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.memory import ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.systems.fastinsight import FastInsight, GRanker, STeX
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.pagerank import PersonalizedPageRank
from graph_retrievers.systems.spreading.propagation import GatedPropagation

WIDTH = 384
TOLERANCE = 1e-4
TYPES, RELATIONS = ("work", "person", "place"), ("made", "near")
_SYLLABLES = (("ba", "do", "mi", "re"), ("ka", "lu", "no", "si"), ("ra", "te", "va", "zo"))
WORDS = ["".join(parts) for parts in itertools.product(*_SYLLABLES)]


def words(count: int, length: int, seed: int) -> list[str]:
    """Return texts of made-up words."""
    drawn = torch.randint(len(WORDS), (count, length), generator=torch.Generator().manual_seed(seed)).tolist()
    return [" ".join(WORDS[i] for i in row) for row in drawn]


def save_cross_encoder(folder: Path, hidden: int, layers: int) -> None:
    """Write a BERT cross-encoder of random weights, whose scores spread by about 1, and a tokenizer of the made-up words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, logging

    logging.disable_progress_bar()

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate(special + WORDS)}
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * hidden,
        max_position_embeddings=128,
        initializer_range=0.1,
    )
    config.num_labels = 1
    model = BertForSequenceClassification(config).eval()
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    named = {f"{name.strip('[]').lower()}_token": name for name in special}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=128, **named)
    probe = tokenizer(words(64, 8, 3), words(64, 24, 4), return_tensors="pt")
    with torch.inference_mode():
        logits = model(**probe).logits
        model.classifier.weight /= logits.std()
        model.classifier.bias.zero_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class MadeUpEmbedding:
    """A unit vector for each text, drawn with the text's checksum as seed."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        drawn = torch.randn(WIDTH, generator=torch.Generator().manual_seed(zlib.crc32(text.encode())))
        return torch.nn.functional.normalize(drawn, dim=0).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed_query(text) for text in texts]


class Setting:
    """The same graphs, vectors and questions on one device."""

    def __init__(self, options: argparse.Namespace, device: str, encoder: Path) -> None:
        size = options.nodes
        pairs = power_law_pairs(size, options.edges)
        vectors = unit_vectors(size, WIDTH)
        generator = torch.Generator().manual_seed(2)
        near = torch.randint(size, (options.queries,), generator=generator)
        noise = torch.nn.functional.normalize(torch.randn(options.queries, WIDTH, generator=generator), dim=1)
        self.questions = torch.nn.functional.normalize(vectors[near] + 0.7 * noise, dim=1)
        self.texts = words(options.queries, 8, 5)
        linked = corpus_graph(size, pairs, device, words(size, 24, 6))
        model = CrossEncoder(str(encoder), device=device)
        self.linked = GraphIndex.from_graph(linked, vectors=vectors, bm25=False, relevance=model)
        kinds = torch.randint(len(TYPES), (size,), generator=generator).tolist()
        names = torch.randint(len(RELATIONS), (len(pairs),), generator=generator).tolist()
        ids = [str(i) for i in range(size)]
        typed = CorpusGraph(
            ids,
            [""] * size,
            types=[TYPES[kind] for kind in kinds],
            titles=[f"title {i}" for i in ids],
            edges=[(ids[a], ids[b], RELATIONS[r]) for (a, b), r in zip(pairs.tolist(), names, strict=True)],
            device=device,
        )
        self.typed = GraphIndex.from_graph(typed, embedding=MadeUpEmbedding(), vectors=vectors, bm25=False)
        self.plans = [
            [
                {"type": TYPES[kinds[row]], "restriction": f"title {row}"},
                {"type": TYPES[row % 3], "relation": RELATIONS[row % 2]},
                {"type": TYPES[(row + 1) % 3]},
            ]
            for row in near.tolist()
        ]

    def batch(self, rows: slice, typed: bool = False) -> Queries:
        """Return fresh questions, so that nothing computed before is used."""
        index = self.typed if typed else self.linked
        inputs = {"plan": self.plans[rows]} if typed else None
        return Queries.of(index, self.texts[rows], vectors=self.questions[rows], inputs=inputs)


def cases(setting: Setting) -> dict[str, Callable[[slice], list[Candidates]]]:
    """Return what is run, by name: a function from the rows of questions to their candidates."""

    def linked(operator: Operator) -> Callable[[slice], list[Candidates]]:
        return lambda rows: ranked(operator, setting.batch(rows))

    traversal, insight = MixedTraversal(fill=False), Retriever(setting.linked, FastInsight(budget=50))
    return {
        "vector search": linked(VectorSearch(100)),
        "PageRank": linked(Pipeline(VectorSearch(20), PersonalizedPageRank(20))),
        "spreading activation, cosine gate": linked(Pipeline(VectorSearch(5), GatedPropagation())),
        "spreading activation, uniform gate": linked(Pipeline(VectorSearch(5), GatedPropagation(gate="uniform"))),
        "mixed traversal": lambda rows: ranked(traversal, setting.batch(rows, typed=True)),
        "GRanker": linked(Pipeline(VectorSearch(40), GRanker())),
        "STeX": linked(Pipeline(VectorSearch(10), GRanker(), STeX())),
        "FastInsight": lambda rows: insight.rank(insight.questions(setting.batch(rows))),
    }


def listed(parts: Sequence[list[Candidates]]) -> list[list[tuple[int, float]]]:
    """Return (node, score) of every query, best first."""
    return [list(zip(each.nodes.tolist(), each.scores.tolist(), strict=True)) for part in parts for each in part]


def disagreement(left: list[tuple[int, float]], right: list[tuple[int, float]], tolerance: float = TOLERANCE) -> str:
    """Return how two rankings of one query differ by more than rounding; "" where they do not.

    Scores may differ by `tolerance` (times the score where that is above 1). Two nodes may stand in each other's place, and a
    node may stand beyond the last place, only where their scores are that close.
    """
    if len(left) != len(right):
        return f"{len(left)} nodes against {len(right)}"
    scores = dict(right)
    for place, ((node, score), (other, against)) in enumerate(zip(left, right, strict=True), 1):
        allowed = tolerance * max(1.0, abs(score))
        if not abs(score - against) <= allowed:
            return f"place {place}: score {score:.6g} against {against:.6g}"
        if node != other and not abs(scores.get(node, right[-1][1]) - score) <= allowed:
            return f"place {place}: node {node} against {other}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return 1 where results differ, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=64, help="of one batch")
    parser.add_argument("--hidden", type=int, default=256, help="width of the cross-encoder")
    parser.add_argument("--layers", type=int, default=4, help="of the cross-encoder")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    if cuda:
        print(f"{torch.cuda.get_device_name()} against the CPU ({torch.get_num_threads()} threads)")
    else:
        print("There is no CUDA device here: nothing is said about GPUs. On the CPU, batches against single queries:")
    print(f"{options.nodes} nodes, {options.edges} edges, batches of {options.queries} queries; torch {torch.__version__}")
    # TF32 would round scores to about 1e-3.
    torch.set_float32_matmul_precision("highest")
    every = slice(0, options.queries)
    with tempfile.TemporaryDirectory() as folder:
        save_cross_encoder(Path(folder), options.hidden, options.layers)
        reference = cases(Setting(options, "cpu", Path(folder)))
        others = cases(Setting(options, "cuda", Path(folder))) if cuda else reference
        parts = [every] if cuda else [slice(row, row + 1) for row in range(options.queries)]
        failed = 0
        for name, run in reference.items():
            here, expected = _timed(run, [every], options.rounds)
            there, found = _timed(others[name], parts, options.rounds)
            failed += _report(name, listed(expected), listed(found), there / here if not cuda else here / there, cuda)
    return 1 if failed else 0


def _report(
    name: str, expected: list[list[tuple[int, float]]], found: list[list[tuple[int, float]]], ratio: float, cuda: bool
) -> bool:
    """Print a line; return whether results differ."""
    wrong = {query: text for query, pair in enumerate(zip(expected, found, strict=True)) if (text := disagreement(*pair))}
    verdict = "equal" if not wrong else f"DIFFERENT for {len(wrong)} queries; query {min(wrong)}: {wrong[min(wrong)]}"
    nodes = statistics.fmean(map(len, expected))
    print(f"{name:36} {'CPU / GPU' if cuda else 'single / batch'} x{ratio:.1f}  {nodes:5.0f} nodes/query  {verdict}", flush=True)
    return bool(wrong)


def _timed(run: Callable[[slice], list[Candidates]], parts: Sequence[slice], rounds: int) -> tuple[float, list[list[Candidates]]]:
    """Return the median of seconds for all parts, and what each part found; one more round runs first, untimed."""
    result, seconds = [run(part) for part in parts], []
    for _ in range(rounds):
        _wait()
        begin = time.perf_counter()
        result = [run(part) for part in parts]
        _wait()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
