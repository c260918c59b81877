"""The cross-encoder against the logits of the models it splits."""

from __future__ import annotations

import copy
import gzip
import json
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from graph_retrievers.errors import DeviceError, InvalidArgumentError, ModelHeadError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, Pipeline, Rerank
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.systems import FastInsight

SHARED = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"))
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

WORDS = "a the of graph node edge tree path river city where what is was flows through born in small large".split()
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
COMMON = {"vocab_size": len(WORDS) + len(SPECIAL), "num_labels": 1, "initializer_range": 0.4, "pad_token_id": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**SIZES, "max_position_embeddings": 40}),
    "roberta": ("Roberta", {**SIZES, "max_position_embeddings": 41, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRoberta", {**SIZES, "max_position_embeddings": 41, "type_vocab_size": 1}),
    "camembert": ("Camembert", {**SIZES, "max_position_embeddings": 41, "type_vocab_size": 1}),
    "electra": ("Electra", {**SIZES, "embedding_size": 12, "max_position_embeddings": 40}),
    "mpnet": ("MPNet", {**SIZES, "max_position_embeddings": 42}),
    "distilbert": ("DistilBert", {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 40}),
    "deberta": ("Deberta", {**SIZES, "max_position_embeddings": 40, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "deberta-v2": (
        "DebertaV2",
        {**SIZES, "max_position_embeddings": 40, "relative_attention": True, "position_biased_input": False, "type_vocab_size": 0},
    ),
    "modernbert-cls": ("ModernBert", {**SIZES, "max_position_embeddings": 40, "classifier_pooling": "cls"}),
    "modernbert-mean": ("ModernBert", {**SIZES, "max_position_embeddings": 40, "classifier_pooling": "mean"}),
}
PACKED = ["bert", "roberta", "xlm-roberta", "camembert", "electra"]

QUERIES = [
    "what is a tree",
    "where was the river",
    "a",
    "what is a tree",
    "the small city in the large city",
    "of",
    "what is a tree",
]
TEXTS = [
    "a tree is a graph",
    "the river flows through the small city of unknown name and in the large city where a path is the edge of a graph",
    "",
    "node edge node",
    "a path " * 40,
    "born in a city",
    "the graph is small",
]


def tokenizer() -> Any:
    vocabulary = {word: i for i, word in enumerate([*SPECIAL.values(), *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    options: dict[str, Any] = {f"{role}_token": token for role, token in SPECIAL.items()}
    options["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **options)


def build(family: str, **changes: Any) -> Any:
    prefix, sizes = FAMILIES[family]
    extra = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3} if prefix == "ModernBert" else {}
    config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **sizes, **extra, **changes})
    torch.manual_seed(7)
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(config).eval()
    for name, parameter in model.named_parameters():  # these start as constants, which would hide a mistake in them
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 0.0 if name.endswith("bias") else 1.0, 0.3)
    return model


def save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def own_logits(model: Any, queries: list[str], texts: list[str], limit: int = 40) -> Tensor:
    """Return the model's logits, one unpadded pair at a time."""
    words, logits = tokenizer(), []
    for query, text in zip(queries, texts, strict=True):
        pair = words([query], [text], truncation="longest_first", max_length=limit, return_tensors="pt")
        if getattr(model.config, "type_vocab_size", 0) < 2:
            del pair["token_type_ids"]
        with torch.inference_mode():
            logits.append(model(**pair).logits[0, 0])
    return torch.stack(logits)


@pytest.mark.parametrize("from_folder", [True, False])
def test_a_copy_or_pickle_gives_the_same_scores(from_folder: bool, tmp_path: Path) -> None:
    model = build("bert")
    encoder = CrossEncoder(save(model, tmp_path) if from_folder else (model, tokenizer()))
    expected = encoder.encode(QUERIES, TEXTS)
    for twin in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):  # noqa: S301
        assert torch.equal(twin.encode(QUERIES, TEXTS), expected) and twin.name == encoder.name


def test_a_trainable_copy_is_whole_and_its_logits_have_gradients(tmp_path: Path) -> None:
    folder = save(build("bert"), tmp_path / "tiny")
    for source in (folder, (build("bert").half(), tokenizer())):
        rounded = CrossEncoder(source, dtype="bfloat16", max_length=33, batch_tokens=64)
        copied = rounded.trainable()
        assert {value.dtype for value in copied.module.parameters()} == {torch.float32}
        assert (copied.max_length, copied.batch_tokens, copied.name) == (33, 64, rounded.name)
        assert copied.module is copied.module and copied.module is not rounded.module
        # Read from the file, not rounded to the precision of the one that is copied.
        if source is folder:
            expected = CrossEncoder(folder, max_length=33)
            torch.testing.assert_close(copied.encode(QUERIES, TEXTS), expected.encode(QUERIES, TEXTS))
        logits = copied.logits(QUERIES, TEXTS)
        torch.testing.assert_close(logits, copied.score(copied.encode(QUERIES, TEXTS)), rtol=1e-4, atol=1e-4)
        assert logits.requires_grad and logits.shape == (7,) and rounded.logits(["a"], ["b"]).dtype == torch.float32
    frozen = CrossEncoder((build("bert").requires_grad_(False), tokenizer())).trainable()
    assert frozen.logits(["a"], ["b"]).requires_grad
    before = copied.score(copied.encode(["a"], ["b"]))
    with torch.no_grad():
        for value in copied.module.parameters():
            value.mul_(1.5)
    after = copied.reload().score(copied.encode(["a"], ["b"]))
    torch.testing.assert_close(after, copied.logits(["a"], ["b"]).detach(), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(before, after) and copied.logits([], []).shape == (0,)
    with pytest.raises(InvalidArgumentError, match="one query for each text"):
        copied.logits(["a"], [])


def test_a_saved_model_is_read_again_and_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    encoder = CrossEncoder((build("bert"), tokenizer()))
    encoder.save(tmp_path / "new" / "folder")
    torch.testing.assert_close(CrossEncoder(tmp_path / "new" / "folder").encode(QUERIES, TEXTS), encoder.encode(QUERIES, TEXTS))
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file" / "below", None):
        with pytest.raises(InvalidArgumentError, match="folder|written"):
            encoder.save(place)  # type: ignore[arg-type]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", {"num_hidden_layers": "3"}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"hidden_act": "nope"}),
        ("config.json", {"max_position_embeddings": -1}),
        ("config.json", {"hidden_size": 32}),
        ("config.json", []),
        ("tokenizer.json", []),
        ("tokenizer.json", {}),
        ("tokenizer_config.json", []),
        ("tokenizer_config.json", {"model_max_length": 3}),
    ],
)
def test_a_folder_with_settings_that_do_not_fit_is_refused(tmp_path: Path, file: str, change: Any) -> None:
    folder = save(build("bert"), tmp_path / "tiny")
    read = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(read | change if isinstance(change, dict) and change else change))
    with pytest.raises((InvalidArgumentError, ModelHeadError)):
        CrossEncoder(folder).load()


@pytest.mark.slow
def test_a_cross_encoder_of_sentence_transformers_is_a_relevance_model(tmp_path: Path) -> None:
    theirs = pytest.importorskip("sentence_transformers").CrossEncoder(str(save(build("bert"), tmp_path)))
    model = as_relevance_model(theirs)
    expected = torch.as_tensor(theirs.predict(list(zip(QUERIES, TEXTS, strict=True))))
    assert model.name == "CrossEncoder" and expected.std() > 0.01
    torch.testing.assert_close(model.score(model.encode(QUERIES, TEXTS)), expected)
    reranked = Pipeline(BM25Search(4), Rerank())
    hits = Retriever(GraphIndex.from_texts(TEXTS, relevance=theirs), reranked, backfill=False).retrieve("what is a tree")
    pairs = [("what is a tree", hit.text) for hit in hits]
    assert [hit.score for hit in hits] == pytest.approx(theirs.predict(pairs).tolist(), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_of_latents_are_the_models_own_logits(family: str, device: str, tmp_path: Path) -> None:
    model = build(family)
    expected = own_logits(model, QUERIES, TEXTS)
    assert expected.std() > 0.02
    encoder = CrossEncoder(save(model, tmp_path), device=device)
    latent = encoder.encode(QUERIES, TEXTS)
    assert latent.shape == (len(TEXTS), 16)
    assert latent.dtype == torch.float32
    torch.testing.assert_close(encoder.score(latent).cpu(), expected, rtol=1e-5, atol=1e-5)


def test_loading_shows_no_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(build("bert"), tmp_path)
    monkeypatch.setattr(transformers.utils.logging, "_tqdm_active", True)
    capsys.readouterr()
    CrossEncoder(folder).load()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("family", PACKED)
@pytest.mark.parametrize("slack", [1.0, 0.75, 0.01])
def test_packed_latents_are_those_of_padded_batches(family: str, slack: float) -> None:
    encoder = CrossEncoder((build(family), tokenizer())).load()
    parts: Any = encoder._parts
    assert parts.encoder.packed is not None
    parts.encoder.packed._slack = slack  # how unequal rows may be that attend together: 1 on a CPU, less on a GPU
    packed = encoder.encode(QUERIES, TEXTS)
    parts.encoder.packed = None
    torch.testing.assert_close(packed, encoder.encode(QUERIES, TEXTS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(PACKED)))
def test_other_families_run_as_the_model_itself(family: str) -> None:
    parts: Any = CrossEncoder((build(family), tokenizer())).load()._parts
    assert parts.encoder.packed is None


def test_the_latent_is_the_state_before_the_whole_head() -> None:
    model = build("bert")
    pair = tokenizer()(QUERIES[:1], TEXTS[:1], return_tensors="pt")
    with torch.inference_mode():
        out = model.bert(**pair)
    latent = CrossEncoder((model, tokenizer())).encode(QUERIES[:1], TEXTS[:1])
    torch.testing.assert_close(latent, out.last_hidden_state[:, 0], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(latent, out.pooler_output, atol=1e-2)


def test_the_latent_of_a_mean_pooled_model_is_the_mean_over_its_own_tokens() -> None:
    model = build("modernbert-mean")
    encoder = CrossEncoder((model, tokenizer()))
    latent = encoder.encode(QUERIES, TEXTS)  # with padding
    pair = tokenizer()(QUERIES[:1], TEXTS[:1], return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        expected = model.model(**pair).last_hidden_state.mean(1)
    torch.testing.assert_close(latent[:1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "deberta-v2", "modernbert-mean"])
def test_a_batch_gives_each_pair_what_it_gets_alone(family: str) -> None:
    encoder = CrossEncoder((build(family), tokenizer()))
    together = encoder.encode(QUERIES, TEXTS)
    alone = torch.cat([encoder.encode([q], [t]) for q, t in zip(QUERIES, TEXTS, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    encoder.batch_tokens = 30
    torch.testing.assert_close(encoder.encode(QUERIES, TEXTS), alone, rtol=1e-5, atol=1e-5)
    assert torch.equal(encoder.encode(QUERIES, TEXTS), encoder.encode(QUERIES, TEXTS))


def test_a_padding_token_spelled_out_in_a_text_is_read_as_the_model_reads_it() -> None:
    model = build("xlm-roberta")
    queries, texts = ["what is [PAD] a tree", "a"], ["[PAD] a graph [PAD] [PAD] of the river", "the [PAD]"]
    encoder = CrossEncoder((model, tokenizer()))
    assert encoder.load()._parts.encoder.packed is not None  # type: ignore[union-attr]
    scores = encoder.score(encoder.encode(queries, texts))
    torch.testing.assert_close(scores, own_logits(model, queries, texts), rtol=1e-5, atol=1e-5)


def test_no_pairs_give_a_latent_of_no_rows_and_no_scores() -> None:
    encoder = CrossEncoder((build("bert"), tokenizer()))
    latent = encoder.encode([], [])
    assert latent.shape == (0, 16)
    assert encoder.score(latent).shape == (0,)


def test_scores_take_any_leading_dimensions() -> None:
    encoder = CrossEncoder((build("xlm-roberta"), tokenizer()))
    latent = encoder.encode(QUERIES[:6], TEXTS[:6])
    torch.testing.assert_close(encoder.score(latent.view(2, 3, 16)), encoder.score(latent).view(2, 3))
    assert encoder.score(latent[0]).shape == ()


def test_the_longer_of_query_and_text_is_cut_first() -> None:
    model = build("bert")
    encoder = CrossEncoder((model, tokenizer()), max_length=12)
    long = "river city graph node edge path " * 4
    scores = encoder.score(encoder.encode(["what is a tree", long], [long, "a tree"]))
    torch.testing.assert_close(scores, own_logits(model, ["what is a tree", long], [long, "a tree"], 12), rtol=1e-5, atol=1e-5)
    # 12 tokens less [CLS] and two [SEP]: the four of the question stay, five of the text are read.
    cut = encoder.score(encoder.encode(["what is a tree"], ["river city graph node edge"]))
    torch.testing.assert_close(scores[:1], cut)


def test_every_pair_is_counted() -> None:
    encoder = CrossEncoder((build("bert"), tokenizer()))
    encoder.encode(QUERIES, TEXTS)
    encoder.encode(QUERIES[:2], TEXTS[:2])
    encoder.score(torch.zeros(5, 16))
    assert encoder.pairs_encoded == len(TEXTS) + 2


def test_threads_share_one_model(tmp_path: Path) -> None:
    encoder = CrossEncoder(save(build("bert"), tmp_path))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: (encoder.encode(QUERIES, TEXTS), id(encoder._parts)), range(8)))
    assert len({parts for _, parts in results}) == 1
    assert all(torch.equal(latent, results[0][0]) for latent, _ in results)
    assert encoder.pairs_encoded == 8 * len(TEXTS)


def test_threads_share_a_retriever_with_a_cross_encoder() -> None:
    encoder = CrossEncoder((build("bert"), tokenizer()))
    edges = [(str(i), str(i + 1)) for i in range(len(TEXTS) - 1)]
    index = GraphIndex.from_texts(TEXTS, edges=edges, relevance=encoder)
    retriever = Retriever(index, FastInsight(first=BM25Search(3), nodes_per_round=2, beta=math.inf), k=5)
    expected = [retriever.retrieve(query) for query in QUERIES]
    together = retriever.retrieve_batch(QUERIES)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(retriever.retrieve, QUERIES * 3))
    assert results == expected * 3
    assert any(expected)
    for alone, found in zip(expected, together, strict=True):
        assert [hit.id for hit in found] == [hit.id for hit in alone]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in alone], abs=1e-5)


def test_half_precision_weights_are_raised_on_a_cpu(tmp_path: Path) -> None:
    model = build("bert").half()
    encoder = CrossEncoder(save(model, tmp_path))
    latent = encoder.encode(QUERIES, TEXTS)
    given = CrossEncoder((model, tokenizer())).encode(QUERIES, TEXTS)
    assert model.dtype == torch.float16  # the model that was given stays as it is
    torch.testing.assert_close(given, latent)
    torch.testing.assert_close(encoder.score(latent), own_logits(model.float(), QUERIES, TEXTS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "modernbert-mean"])
def test_bfloat16_comes_near_and_returns_float32(family: str, tmp_path: Path) -> None:
    folder = save(build(family, initializer_range=0.2), tmp_path)
    exact, fast = CrossEncoder(folder), CrossEncoder(folder, dtype="bfloat16")
    latent = fast.encode(QUERIES, TEXTS)
    assert latent.dtype == torch.float32
    expected = exact.encode(QUERIES, TEXTS)
    assert not torch.equal(latent, expected)
    torch.testing.assert_close(latent, expected, rtol=0.1, atol=0.1)
    torch.testing.assert_close(fast.score(expected), exact.score(expected), rtol=0.02, atol=0.02)


def test_a_checkpoint_without_a_head_is_refused(tmp_path: Path) -> None:
    build("bert").bert.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    encoder = CrossEncoder(tmp_path)  # nothing is read yet
    with pytest.raises(ModelHeadError, match=r"no weights for classifier\.bias, classifier\.weight"):
        encoder.load()


def test_a_model_of_two_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelHeadError, match="has 2 labels; expected one"):
        CrossEncoder(save(build("bert", num_labels=2), tmp_path)).load()


def test_a_head_of_unknown_form_is_refused_by_name() -> None:
    sizes: dict[str, Any] = {"vocab_size": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, "num_labels": 1, "pad_token_id": 0}
    config = transformers.GPT2Config(**sizes)
    with pytest.raises(ModelHeadError, match="GPT2ForSequenceClassification cannot be split.*PairScorer"):
        CrossEncoder((transformers.GPT2ForSequenceClassification(config), tokenizer())).load()


def test_a_head_that_does_more_than_it_seems_is_refused() -> None:
    class Calibrated(transformers.BertForSequenceClassification):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = super().forward(*args, **kwargs)
            out.logits = out.logits * 2 + 1
            return out

    with pytest.raises(ModelHeadError, match="Calibrated cannot be split.*does not give its logits"):
        CrossEncoder((Calibrated(build("bert").config), tokenizer())).load()


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    model = build("bert")
    save(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidArgumentError, match="model.safetensors"):
        CrossEncoder(tmp_path).load()


def test_code_in_a_model_folder_is_not_run(tmp_path: Path) -> None:
    folder = save(build("bert"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForSequenceClassification": "own.Own"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Own: pass\n")
    with pytest.raises(InvalidArgumentError, match="No cross-encoder could be loaded"):
        CrossEncoder(folder).load()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [None, "{", '{"model_type": "bert"}'])
def test_a_folder_that_holds_no_model_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(InvalidArgumentError, match="No cross-encoder could be loaded"):
        CrossEncoder(tmp_path).load()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Path("nowhere/at/all"), {}, "is not a folder"),
        ("/nowhere/at/all", {}, "is not a folder"),
        ("", {}, "is not a model"),
        (None, {}, "is not a model"),
        (("model", "tokenizer"), {}, "Expected \\(model, tokenizer\\)"),
        ("name", {"max_length": 7}, "at least 8"),
        ("name", {"batch_tokens": 0}, "at least 1"),
        ("name", {"dtype": "int8"}, "cannot be used on cpu"),
        ("name", {"dtype": "float16"}, "cannot be used on cpu"),
    ],
)
def test_bad_arguments_are_refused_at_construction(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        CrossEncoder(model, **options)


def test_a_device_that_is_not_there_is_refused_at_construction() -> None:
    with pytest.raises(DeviceError):
        CrossEncoder("name", device="cuda:99")


def test_unequal_lists_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(InvalidArgumentError, match="1 queries and 2 texts"):
        CrossEncoder("a-name-that-is-not-there").encode(["a"], ["b", "c"])


@pytest.mark.slow
def test_a_real_reranker_gives_its_own_logits() -> None:
    folder, data = SHARED / "models" / "minilm-reranker", SHARED / "data" / "wiki-multihop"
    if not folder.is_dir() or not data.is_dir():
        pytest.skip(f"{folder} or {data} is absent; set GRAPH_RETRIEVERS_SHARED")
    with gzip.open(data / "nodes.jsonl.gz", "rt") as lines:
        nodes = [json.loads(line) for line, _ in zip(lines, range(24), strict=False)]
    with gzip.open(data / "queries.jsonl.gz", "rt") as lines:
        queries = [json.loads(line)["query"] for line, _ in zip(lines, range(24), strict=False)]
    texts = [f"{node['title']}. {node['text']}" for node in nodes]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    batch = pieces(queries, texts, truncation="longest_first", max_length=160, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**batch).logits[:, 0]
    encoder = CrossEncoder(folder, max_length=160)
    scores = encoder.score(encoder.encode(queries, texts))
    assert (scores - expected).abs().max() < 1e-4 * expected.std()
