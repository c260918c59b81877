"""The packed encoder under both heads: families, poolings, devices, threads."""

import logging
import re
import subprocess
import sys

import pytest
import torch
import transformers

from graph_retrievers.signals.encoder import Encoder, _side_by_side, fast_bfloat16
from graph_retrievers.signals.packed_encoder import PackedEncoder, onednn_bfloat16

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 30}
FAMILIES = {
    "Bert": {"max_position_embeddings": 24},
    "Roberta": {"max_position_embeddings": 26, "type_vocab_size": 1, "hidden_act": "relu"},
    "XLMRoberta": {"max_position_embeddings": 26, "type_vocab_size": 1},
    "Camembert": {"max_position_embeddings": 26, "type_vocab_size": 1, "hidden_act": "gelu_new"},
    "Electra": {"max_position_embeddings": 24, "embedding_size": 12, "hidden_act": "silu"},
}
LENGTHS = [3, 20, 7, 7, 19, 2, 20, 11]


def build(family, **more):
    torch.manual_seed(0)
    settings = {**SIZES, **FAMILIES[family], "initializer_range": 0.4, "pad_token_id": 1, **more}
    return getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**settings)).eval()


def rows():
    drawn = torch.Generator().manual_seed(1)
    return {"input_ids": [torch.randint(2, 30, (length,), generator=drawn).tolist() for length in LENGTHS]}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("slack", [1.0, 0.75, 0.01])
def test_packed_states_are_those_of_padded_batches(family, pooling, slack):
    encoder = Encoder(build(family), pooling, 1)
    expected = encoder(rows(), 1 << 20)
    encoder.pack(lambda: True)
    encoder.packed._slack = slack
    for budget in (1 << 20, 45):
        torch.testing.assert_close(encoder(rows(), budget), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_packed_states_in_bfloat16_are_near_those_of_float32(family, pooling):
    expected = Encoder(build(family), pooling, 1)(rows(), 1 << 20)
    encoder = Encoder(build(family).bfloat16(), pooling, 1)
    encoder.pack(lambda: True)
    encoder.release()
    found = encoder(rows(), 1 << 20)
    assert found.dtype == torch.float32
    assert float(torch.nn.functional.cosine_similarity(found, expected).min()) > 0.995


def refuse(*arguments):
    raise RuntimeError("bf16 path needs the cpu support avx512bw")


def other_numbers(rows, weight, *arguments):
    return torch.zeros((len(rows), len(weight)), dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("fast_path", "reason"),
    [
        ({}, "GRAPH_RETRIEVERS_PLAIN is set"),
        ({"_reorder_linear_weight": refuse}, "oneDNN cannot: bf16 path needs the cpu support avx512bw"),
        (
            {"_linear_pointwise": lambda rows: rows, "_reorder_linear_weight": lambda weight: weight},
            "oneDNN cannot: .* 6 were given",
        ),
        ({"_linear_pointwise": other_numbers, "_reorder_linear_weight": lambda weight: weight}, "oneDNN gives other numbers"),
    ],
    ids=["asked for", "no instructions", "other arguments", "other numbers"],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_where_onednn_has_no_bfloat16_the_states_are_the_same(monkeypatch, caplog, fast_path, reason, family):
    def states():
        onednn_bfloat16.cache_clear()
        encoder = Encoder(build(family).bfloat16(), "mean", 1)
        encoder.pack(lambda: True)
        return encoder(rows(), 1 << 20)

    usual = states()
    for name, replacement in fast_path.items():
        monkeypatch.setattr(torch.ops.mkldnn, name, replacement)
    if not fast_path:
        monkeypatch.setenv("GRAPH_RETRIEVERS_PLAIN", "1")
    else:
        monkeypatch.delenv("GRAPH_RETRIEVERS_PLAIN", raising=False)
    caplog.clear()
    with caplog.at_level(logging.INFO, "graph_retrievers"):
        plain = states()
    # Rounded where oneDNN rounds.
    torch.testing.assert_close(plain, usual, rtol=0.02, atol=0.02)
    (record,) = caplog.records
    assert record.levelno == logging.INFO and re.search(reason, record.getMessage())
    assert not fast_bfloat16(torch.device("cpu"))
    onednn_bfloat16.cache_clear()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_all_that_a_device_computes_is_on_the_device(pooling):
    packed = PackedEncoder(build("Roberta").to("meta"), pooling)
    assert packed._slack == 0.75
    ids = sorted(rows()["input_ids"], key=len, reverse=True)
    with torch.inference_mode():
        found = packed(ids, None)
    assert (found.device.type, found.shape, found.dtype) == ("meta", (len(ids), 16), torch.float32)


def test_a_decoder_is_not_packed():
    encoder = Encoder(build("Bert", is_decoder=True), "mean", 1)
    encoder.pack(lambda: True)
    assert encoder.packed is None


def test_a_packed_encoder_that_does_not_agree_is_not_used():
    encoder = Encoder(build("Bert"), "mean", 1)
    encoder.pack(lambda: False)
    assert encoder.packed is None
    encoder.release()
    assert encoder(rows(), 64).shape == (8, 16)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_batches_run_side_by_side_on_a_thread_each(threads):
    found = list(_side_by_side(lambda item: (item, torch.get_num_threads()), range(20)))
    assert found == [(item, 1) for item in range(20)]
    assert torch.get_num_threads() == 3
    assert list(_side_by_side(lambda item: torch.get_num_threads(), [0])) == [3]


def test_threads_give_what_one_thread_gives(threads):
    encoder = Encoder(build("Bert").bfloat16(), "mean", 1)
    encoder.pack(lambda: True)
    many = encoder(rows(), 25)
    torch.set_num_threads(1)
    assert torch.equal(encoder(rows(), 25), many)


def test_an_error_of_one_batch_ends_the_others(threads):
    done = []

    def work(item):
        if item == 2:
            raise ValueError("the third")
        done.append(item)

    with pytest.raises(ValueError, match="the third"):
        list(_side_by_side(work, range(1000)))
    assert len(done) < 1000 and torch.get_num_threads() == 3


ERRORS = """
import torch
from graph_retrievers.signals.encoder import _side_by_side

def work(item):
    raise ValueError

torch.set_num_threads(3)
ended = 0
for _ in range(200):
    try:
        list(_side_by_side(work, range(100)))
    except ValueError:
        ended += 1
print(ended)
"""


@pytest.mark.process
def test_errors_one_after_another_all_end():
    # In a process of its own, which can be stopped if an error leaves threads that wait for each other.
    done = subprocess.run([sys.executable, "-c", ERRORS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "200\n"
