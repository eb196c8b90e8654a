"""A pruned model computes what the whole one does with these heads silent, in memory and read."""

from pathlib import Path

import pytest
import tiny_hugging as tiny
import torch
from refusing import refused

import headbook as hb
from headbook.looking.ours import OurModel

SENTENCES = ["I saw two dogs in the park .", "She reads ."]
T5 = {"vocab_size": 400, "d_model": 16, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 4,
      "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}  # fmt: skip
MODELS = {
    "llama": ("LlamaForCausalLM", tiny.GROUPED),
    "qwen3": ("Qwen3ForCausalLM", tiny.GROUPED),
    "t5": ("T5ForConditionalGeneration", T5),
    "neox": ("GPTNeoXForCausalLM", tiny.DECODER),
    "phi3": ("Phi3ForCausalLM", tiny.DECODER | {"num_key_value_heads": 3}),
    "bert": ("BertForMaskedLM", tiny.SIZE | tiny.BERT),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 8, "n_layer": 2, "n_head": 2, **tiny.IDS}),
    "bart": ("BartForConditionalGeneration", tiny.bart().config.to_dict()),
}
WHOLE_GROUPS = ("L1H1", "L1H2", "L2H5", "L2H6")
EVERYWHERE = [f"{kind}L{layer}H2" for kind in ("", "decoder ", "cross ") for layer in (1, 2)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory):
    def make(family: str) -> object:
        name, config = MODELS[family]
        tiny.save(tiny.built(name, **config), SENTENCES, folder := tmp_path_factory.mktemp(family))
        return hb.load(folder)

    return make


def logits(model: object) -> torch.Tensor:
    (batch,) = model.batches(SENTENCES, SENTENCES if model.languages[1] else None)
    with torch.no_grad():
        return model.network(batch)


@pytest.mark.parametrize(
    ("family", "heads", "plain"),
    [
        ("llama", WHOLE_GROUPS, True),
        ("qwen3", ("L1H1", "L1H3", "L1H5", "L2H2", "L2H4", "L2H6"), True),
        ("llama", (*WHOLE_GROUPS, "L2H1", "L2H2"), False),
        ("t5", EVERYWHERE, True),
        ("neox", ("L1H2", "L2H6"), False),
        ("bert", ("L1H2",), False),
        ("bert", ("L1H1", "L1H2"), False),
        ("gpt2", ("L1H1", "L2H2"), False),
        ("bart", ("L1H1", "cross L1H2"), False),
    ],
)
def test_it_is_the_model_with_these_heads_silent_and_smaller(
    family: str, heads: tuple[str, ...], plain: bool, loaded, tmp_path: Path
):
    model, folder = loaded(family), tmp_path / "pruned"
    with hb.close(model, heads):
        wanted = logits(model)
    assert (wanted - logits(model)).abs().max() > 1e-2, "the heads do something"
    pruned = hb.prune(model, heads)
    said = pruned.save(folder)
    read = hb.load(folder)
    for each in (pruned, read):
        torch.testing.assert_close(logits(each), wanted, rtol=1e-5, atol=1e-5)
    sizes = [sum(each.numel() for each in one.network.parameters()) for one in (read, model)]
    assert sizes[0] < sizes[1] and plain == ("and transformers" in said)
    kind = type(model.network.model)
    if plain:
        again, own = kind.from_pretrained(folder).state_dict(), read.network.model.state_dict()
        assert again.keys() == own.keys() and all(torch.equal(again[k], own[k]) for k in own)
    else:
        with pytest.raises(Exception, match=r"size|mismatch|shape"):
            kind.from_pretrained(folder)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "llama"])
def test_in_the_full_shape_transformers_reads_it(family, loaded, tmp_path):
    model = loaded(family)
    with hb.close(model, ["L1H1"]):
        wanted = logits(model)
    hb.prune(model, "L1H1").save(tmp_path / "full", shape="full")
    torch.testing.assert_close(logits(hb.load(tmp_path / "full")), wanted, rtol=1e-5, atol=1e-5)
    type(model.network.model).from_pretrained(tmp_path / "full")
    assert (logits(model) - wanted).abs().max() > 1e-2, "the model itself stays"


def test_a_model_of_ours(ours: OurModel, tmp_path: Path):
    heads = ["L1H2", "decoder L2H1", "cross L2H1", "cross L2H2"]
    with hb.close(ours, heads):
        wanted = logits(ours)
    for shape in ("small", "full"):
        hb.prune(ours, heads).save(tmp_path / shape, shape=shape)
        torch.testing.assert_close(logits(hb.load(tmp_path / shape)), wanted, rtol=1e-5, atol=1e-5)
    sizes = [(tmp_path / shape / "best.safetensors").stat().st_size for shape in ("small", "full")]
    assert sizes[0] < sizes[1]


def test_what_cannot_be_done_is_one_line(loaded, planted, tmp_path: Path):
    llama, t5, phi3 = map(loaded, ("llama", "t5", "phi3"))
    impossible = [
        lambda: hb.prune(llama, ["L9H1"]),
        lambda: hb.prune(llama, ["L1H1"]).save(tmp_path / "uneven"),
        lambda: hb.prune(t5, ["L1H1", "L2H2"]).model,
        lambda: hb.prune(t5, ["L1H1"]).model,
        lambda: hb.prune(phi3, ["L1H1", "L1H2"]).model,
        lambda: hb.prune(llama, []).save(tmp_path / "x", shape="tiny"),
        lambda: hb.prune(llama, ["L1H1"]).save(Path(__file__).parent, shape="full"),
        lambda: hb.prune(planted, ["L1H1"]).save(tmp_path / "planted"),
    ]
    for each in impossible:
        with refused():
            each()
    assert not any(tmp_path.iterdir())
