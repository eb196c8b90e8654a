"""A path is a path; adapters; models in memory; types, devices, revisions and languages."""

import importlib.util
import json
import shutil
from pathlib import Path

import peft
import pytest
import refusing
import torch
import transformers
from tiny_hugging import bert, built, gpt2, save

import headbook as hb
from headbook.models.capture import Point, capture
from headbook.types import Kind

SENTENCES = ["the dog sees a cat", "a cat"]


def refused(said: str, *given: object, **options: object) -> None:
    with refusing.refused(said):
        hb.load(*given, **options)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    save(gpt2(), SENTENCES, folder := tmp_path_factory.mktemp("decoder"))
    return folder


@pytest.mark.parametrize("name", ["minilm", "multi30k-de-128", "json", "openai-community/gpt2"])
def test_a_path_is_never_a_catalogue_s_name_or_a_package(
    name: str, decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for path in (Path(name), f"./{name}", f"{tmp_path}/{name}"):
        refused("there is no such folder", path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(decoder)
    for path in (Path(name), f"./{name}", f"{name}/", f"{tmp_path}/{name}"):
        assert hb.load(path).origin.endswith(name)
    refused("no such folder", "~nobody-here/minilm")
    refused("no such folder", "./" + "x" * 300)


def test_an_adapter_is_never_ignored(
    decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    found = importlib.util.find_spec
    without = lambda name, *rest: None if name == "peft" else found(name, *rest)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", without)
        refused("adapter.*pip install peft", tmp_path)
        shutil.copytree(decoder, tmp_path, dirs_exist_ok=True)  # beside a whole model too
        refused("adapter.*pip install peft", tmp_path)
    refused("does not name its model", tmp_path)


def test_an_adapter_is_merged_into_its_model(decoder: Path, tmp_path: Path):
    base = transformers.AutoModelForCausalLM.from_pretrained(decoder)
    config = peft.LoraConfig(r=2, target_modules=["c_attn", "c_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(base, config).eval()
    refused("merge_and_unload", adapted, hb.load(decoder).text.tokenizer)
    adapted.save_pretrained(tmp_path)
    model, plain = hb.load(tmp_path), hb.load(decoder)
    (batch,) = model.batches(SENTENCES)
    with torch.no_grad():
        expected = adapted(batch.target_in, attention_mask=batch.target_mask.long()).logits
        found, without = model.network(batch), plain.network(batch)
    real = batch.target_mask
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-5)
    assert (found - without).abs().max() > 1e-2 and str(tmp_path) in model.origin


def test_a_model_in_memory_is_what_its_folder_is(decoder: Path):
    original = transformers.AutoModelForCausalLM.from_pretrained(decoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(decoder)
    model, saved = hb.load(original, tokenizer), hb.load(decoder)
    (batch,) = model.batches(SENTENCES)
    assert torch.equal(model.network(batch), saved.network(batch))
    assert model.network.model is original
    refused("give a model of transformers with its tokenizer", original)
    refused("give a model of transformers with its tokenizer", torch.nn.Linear(1, 1), tokenizer)
    refused("brings its own tokenizer", decoder, tokenizer)


@pytest.mark.parametrize(("made", "dtype"), [(gpt2, "bfloat16"), (bert, torch.float16)])
def test_attention_of_half_a_precision_is_computed_in_float32(made, dtype, tmp_path: Path):
    torch.manual_seed(2)
    save(made(), SENTENCES, tmp_path)
    model = hb.load(tmp_path, dtype=dtype)
    assert {each.dtype for each in model.network.parameters()} <= {torch.bfloat16, torch.float16}
    (batch,) = model.batches(SENTENCES)
    kind = next(iter(model.network.attentions()))[0]
    with torch.no_grad(), capture(model.network, {Point.WEIGHTS, Point.QUERIES}) as tape:
        model.network(batch)
    for weights in tape[kind, Point.WEIGHTS]:
        assert weights.dtype == torch.float32
        real = (batch.source_mask if kind is Kind.ENCODER else batch.target_mask)[:, None, None]
        # bfloat16 would be 3e-3 off; padding has no weight whatever the type's smallest number.
        torch.testing.assert_close((weights * real).sum(-1)[:, :, 0], torch.ones(2, 2))
    single = hb.load(tmp_path).losses(batch)
    torch.testing.assert_close(model.losses(batch), single, rtol=0.02, atol=0.02)


def test_options_that_cannot_be_taken_are_one_line(decoder: Path, run_folder: Path):
    refused("is not run in int8", decoder, dtype="int8")
    refused("is not run in float16", run_folder, dtype="float16")
    refused("no device nowhere", decoder, device="nowhere")
    refused("has no revision", decoder, revision="v1")
    refused("no Hugging Face model: leave out languages", run_folder, languages=("en", "de"))
    refused("no languages to choose", decoder, languages=("en", "de"))


def test_a_model_of_many_languages_is_told_which(tmp_path: Path):
    words = ["<s>", "<pad>", "</s>", "<unk>", *"▁thedog"]
    tokenizer = transformers.NllbTokenizer(
        vocab={word: at for at, word in enumerate(dict.fromkeys(words))}, merges=[]
    )
    network = built(
        "M2M100ForConditionalGeneration", vocab_size=len(tokenizer), d_model=8, encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8,
        decoder_ffn_dim=8, max_position_embeddings=64, max_length=None,
    )  # fmt: skip
    refused("name source and target", network, tokenizer)
    refused("has no language 'en'", network, tokenizer, languages=("en", "deu_Latn"))
    model = hb.load(network, tokenizer, languages=("fra_Latn", "deu_Latn"))
    assert model.languages == ("fra_Latn", "deu_Latn")
    assert model.pieces("the dog")[0] == "fra_Latn"
    assert model.pieces("the dog", target=True)[0] == "deu_Latn"
    seen, german = [], tokenizer.convert_tokens_to_ids("deu_Latn")
    ids = torch.tensor([[2, german, 2]])
    model.network.generate = lambda batch, **options: seen.append(options) or ids
    model.translate(["the dog"])
    assert seen[0]["forced_bos_token_id"] == german
