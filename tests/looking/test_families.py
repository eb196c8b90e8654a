"""Models of `transformers` through the whole interface: tiny random ones of three kinds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import headbook as hb
from headbook.artefacts.texts import Text
from headbook.looking.attention_graph import attention_graph, input_words
from headbook.looking.importance import by_gradient
from headbook.looking.influence import Outputs, blank_out, input_gradients
from headbook.looking.measured import measured
from headbook.looking.page import page
from headbook.types import Kind

SIZE = {"vocab_size": 400, "max_position_embeddings": 80}
BERT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}


def bert() -> transformers.PreTrainedModel:
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZE, **BERT, pad_token_id=0))


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=400, n_positions=80, n_embd=8, n_layer=2, n_head=2, bos_token_id=1,
        eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def bart() -> transformers.PreTrainedModel:
    config = transformers.BartConfig(
        **SIZE, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, pad_token_id=0,
        bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=1,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


@pytest.mark.parametrize(
    ("made", "kinds"),
    [(bert, ["encoder"]), (gpt2, ["decoder"]), (bart, ["encoder", "decoder", "cross"])],
)
def test_a_family_is_measured_and_shown(
    made: Callable, kinds: list[str], by_gates: Callable, sample: Text, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    text = replace(sample, sentences=sample.sentences[:5], trees=sample.trees[:5])
    save(made(), text, tmp_path)
    model = hb.load(tmp_path)
    monkeypatch.setattr(type(model), "translate", lambda self, given: [each[:9] for each in given])
    heads = hb.measure(model, text, nulls=1, ablated=2, progress=False)
    assert list(dict.fromkeys(heads["kind"])) == kinds
    for column in (
        "confidence",
        "special",
        "entropy",
        "importance_gradient",
        "importance_ablation",
    ):
        assert heads[column].notna().all(), column
    batches = model.batches(text.sentences, text.sentences if "cross" in kinds else None)
    torch.testing.assert_close(
        by_gradient(model, batches), by_gates(model, batches), rtol=1e-4, atol=1e-8
    )
    encoder = heads["kind"] == "encoder"
    assert encoder.any() == ("nsubj_head_to_dependent" in heads)
    assert not measured(heads).diversity.drop(columns=["kind", "layer"]).isna().all(axis=None)
    assert len(hb.roles(heads, held=False)) > 0
    html = page(model, text, heads, "heads.csv")
    assert "</html>" in html and f'"viewed": "{kinds[0]}"' in html


@pytest.mark.parametrize(("made", "kind"), [(bert, Kind.ENCODER), (gpt2, Kind.DECODER)])
def test_a_model_of_transformers_is_followed(made, kind, sample: Text, tmp_path: Path):
    text = replace(sample, sentences=sample.sentences[:2], trees=sample.trees[:2])
    save(made(), text, tmp_path)
    model = hb.load(tmp_path)
    (batch,) = model.batches([text.sentences[1]])
    outputs, words = Outputs(model, kind), input_words(kind, batch)
    changed, slopes = (each(outputs, batch, words) for each in (blank_out, input_gradients))
    graph = attention_graph(model.network, kind, batch)
    hidden = ~graph.seen
    assert hidden.any() == (kind is Kind.DECODER)
    rows = changed[graph.outputs][:, graph.inputs], slopes[graph.outputs][:, graph.inputs]
    for found in (*rows, *graph.rollout(), *graph.flow()):
        assert not found[hidden].any() and (found[graph.own] > 0).all()


def save(model: transformers.PreTrainedModel, text: Text, folder: Path) -> None:
    """With a tokenizer of words between spaces and an end-of-sentence token."""
    words = sorted({word for sentence in text.sentences for word in sentence.split()})
    vocabulary = {name: at for at, name in enumerate(["<pad>", "</s>", "<unk>", "<mask>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>",
        mask_token="<mask>", model_max_length=80,
    ).save_pretrained(folder)  # fmt: skip
