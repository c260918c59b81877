"""What a language model as the relevance model costs, and the most that it can gain: calls, tokens and Recall of each retriever.

By default the judge is an oracle that reads the prompts, and knows which passages are relevant: what it reaches is the most that
any model can reach by reordering what a retriever judges. --language-model names a real one, a Python object, in its place. Tokens
are counted by the tokenizer of all-MiniLM-L6-v2, which cuts English about as those of language models do. Needs the extra offline.

    python benchmarks/language_model_relevance.py FOLDER_OF_DATASETS [--only python-docs,...] [--split dev] [--questions 40]
        [--language-model MODULE:NAME] > benchmarks/results/language-model-relevance/README.md
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import AutoTokenizer

from graph_retrievers.datasets import Query, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import query_metrics
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.language import as_language_model
from graph_retrievers.signals.language_model_relevance import LanguageModelRelevance
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems import read_system

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "walk-fusion, no judge": ("walk-fusion", {}),
    "path-reranking": ("path-reranking", {}),
    "path-reranking, weight=1": ("path-reranking", {"weight": 1.0}),
    "re2, depth=30": ("re2", {"depth": 30}),
    "gar, budget=30": ("gar", {"budget": 30}),
    "gar": ("gar", {}),
    "fastinsight, budget=30": ("fastinsight", {"budget": 30}),
    "fastinsight": ("fastinsight", {}),
}
_SEEN = 500


class Oracle:
    """A model that reads a prompt and grades relevant passages 10, others 0."""

    def __init__(self, graph: CorpusGraph, queries: Sequence[Query]) -> None:
        self.gold = {_plain(query.text): {_plain(graph.content(graph.row(node))) for node in query.gold} for query in queries}

    def __call__(self, prompt: str) -> str:
        """Return the answer in the form that the prompt asks for."""
        lines = prompt.splitlines()
        gold = self.gold[_plain(json.loads(next(line for line in lines if line.startswith("Question: "))[10:]))]
        schema = json.loads(next(line for line in lines if line.startswith('{"type"')))
        passages = [json.loads(line) for line in lines if line.startswith('{"id"')][: schema["properties"]["grades"]["minItems"]]
        rows = [{"id": each["id"], "grade": 10 * (_plain(each["text"]) in gold)} for each in passages]
        return json.dumps({"grades": rows})


class Counted:
    """A language model, and the tokens that it read and wrote."""

    def __init__(self, model: Any, tokens: Callable[[str], int]) -> None:
        self.model, self.tokens, self.read, self.wrote = as_language_model(model), tokens, 0, 0

    def complete(self, prompt: str, schema: Any = None) -> str:
        """Return the model's answer."""
        answer = self.model.complete(prompt, schema)
        self.read, self.wrote = self.read + self.tokens(prompt), self.wrote + self.tokens(answer)
        return answer


def _plain(text: str) -> str:
    """Return the begin of a text as the prompt shows it."""
    return " ".join(text.split())[:_SEEN]


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="wiki-multihop,python-docs,postgres-docs")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--language-model", metavar="MODULE:NAME")
    options = parser.parse_args()
    embedding = minilm()
    tokenizer = AutoTokenizer.from_pretrained(embedding._source)
    tokenizer.model_max_length = 1 << 30
    judge = options.language_model or "an oracle that knows the relevant passages"
    print("# A language model as the relevance model\n")
    print(f"Made by `benchmarks/language_model_relevance.py`: up to {options.questions} questions of {options.split};")
    print(f"all-MiniLM-L6-v2; the judge is {judge}. Calls and tokens are means per question.\n")
    print("| dataset | retriever | Recall@5 | Recall@10 | calls | tokens read | tokens written |\n|" + " --- |" * 7)
    for name in options.only.split(","):
        dataset = read_dataset(options.folder / name)
        graph = dataset.graph()
        queries = [query for query in dataset.queries if query.split == options.split and query.gold]
        queries = random.Random(0).sample(queries, min(options.questions, len(queries)))
        index = GraphIndex.from_graph(graph, embedding=embedding, cache=True)
        for row, (retriever, settings) in ROWS.items():
            if options.language_model:
                module, _, attribute = options.language_model.partition(":")
                model = getattr(import_module(module), attribute)
            else:
                model = Oracle(graph, queries)
            # One at a time, since counts are not kept apart by threads.
            counted = Counted(model, lambda text: len(tokenizer(text)["input_ids"]))
            relevance = LanguageModelRelevance(counted, workers=1)
            built = Retriever(index.with_models(relevance=relevance), read_system({"system": retriever, **settings}), k=10)
            found = evaluate(index, queries, {row: built}, k=10, timed_queries=0)
            lists = [(found.returned[row][query.id].ids, query.gold) for query in queries]
            recall = {k: fmean(query_metrics(ids, gold, k)[f"recall@{k}"] for ids, gold in lists) for k in (5, 10)}
            asked, read, wrote = (value / len(queries) for value in (relevance.calls, counted.read, counted.wrote))
            figures = f"{recall[5]:.3f} | {recall[10]:.3f} | {asked:.1f} | {read:,.0f} | {wrote:,.0f}"
            print(f"| {name} | {row} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
