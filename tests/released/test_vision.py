"""Vision transformers: DINOv2 from ONNX, folders of `transformers`, and what can be wrong."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_onnx
import torch
import transformers
from refusing import refuses

import headbook as hb
from headbook.looking.pictures import HIGH
from headbook.released import catalogue, vision

PICTURE = np.random.default_rng(0).integers(0, 256, (30, 60, 3), "uint8")
FAMILIES = {
    "ViT": (1, {"image_size": 28, "patch_size": 14}),
    "DeiT": (2, {"image_size": 28, "patch_size": 14}),
    "Dinov2": (1, {"image_size": 28, "patch_size": 14, "mlp_ratio": 2}),
    "Dinov2WithRegisters": (5, {"image_size": 28, "patch_size": 14, "mlp_ratio": 2}),
}
"""Special tokens of each, and its settings."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("onnx") / "tiny.onnx"
    tiny_onnx.write(tiny_onnx.dinov2(), file)
    return file


def test_an_onnx_file_is_the_model_that_was_written(file: Path):
    model, original = hb.load(file), tiny_onnx.dinov2()
    pixels = model.batch([PICTURE, PICTURE[:, ::-1]])
    assert model.grid(PICTURE) == (2, 4) and pixels.shape == (2, 3, 28, 56)
    colour = (PICTURE[3, 5] / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(pixels[0, :, 3, 5], colour, rtol=1e-5)
    with torch.no_grad():
        states, expected = model.network(pixels), original(pixels).last_hidden_state
        torch.testing.assert_close(original.layernorm(states), expected, rtol=0, atol=1e-5)
    original.set_attn_implementation("eager")
    with torch.no_grad():
        weights = original(pixels[:1], output_attentions=True).attentions
    seen = hb.attention(model, PICTURE)
    np.testing.assert_allclose(seen["L3H2"], weights[2][0, 1], atol=1e-6)
    assert seen.words[:3] == ("<|class|>", "1, 1", "1, 2") and seen.words[-1] == "2, 4"
    assert seen.special.tolist() == [True] + [False] * 8


def test_measures_of_a_vision_model_are_what_they_say(file: Path):
    model = hb.load(file)
    pictures = [PICTURE, PICTURE[::-1], PICTURE.transpose(1, 0, 2)]
    heads = hb.measure(model, pictures)
    assert len(heads) == 6
    expected = []
    for picture in pictures:
        seen, size = hb.attention(model, picture)["L2H1"][1:], model.grid(picture)
        with torch.no_grad():
            norms = model.network(model.batch([picture]))[0, 1:].norm(dim=-1).numpy()
        places, own = np.indices(size).reshape(2, -1).T, seen[:, 1:]
        apart = np.linalg.norm(places[:, None] - places, axis=-1)
        far, high = (own * apart).sum(1) / own.sum(1), norms > HIGH * np.median(norms)
        expected.append(np.mean([far, seen[:, 0], own.max(1), own[:, high].sum(1)], axis=1))
    row = heads[(heads["layer"] == 2) & (heads["head"] == 1)].iloc[0]
    measured = row[["distance", "special", "confidence", "high_norm"]].astype(float)
    np.testing.assert_allclose(measured, np.mean(expected, 0), rtol=1e-4)


def test_a_picture_is_bright_where_the_class_token_looks(file: Path):
    model = hb.load(file)
    white = np.full((28, 56, 3), 255, "uint8")
    panels = hb.view(model, [white, white], {"L2H1": "a note", "L3H2": ""}).figure.axes
    assert len(panels) == 6 and panels[1].get_title() == "L2H1\na note"
    light = panels[1].images[0].get_array()[::14, ::14, 0].ravel()
    looked = hb.attention(model, white)["L2H1"][0, 1:]
    full = np.quantile(looked, 0.97)
    expected = 255 * (0.12 + 0.88 * (looked / full).clip(max=1))
    np.testing.assert_allclose(light, np.floor(expected), atol=8)


@pytest.mark.parametrize("family", FAMILIES)
def test_folders_of_transformers_are_read(family: str, tmp_path: Path):
    special, options = FAMILIES[family]
    torch.manual_seed(2)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = getattr(transformers, f"{family}Config")(**size, **options)
    original = getattr(transformers, f"{family}ForImageClassification")(config).eval()
    original.save_pretrained(tmp_path)
    refuses(lambda: hb.load(tmp_path), "AutoImageProcessor cannot read it")
    settings = '{"image_processor_type": "ViTImageProcessor", "image_mean": [0.5, 0.4, 0.3]}'
    (tmp_path / "preprocessor_config.json").write_text(settings)
    model = hb.load(tmp_path)
    assert model.mean == (0.5, 0.4, 0.3)
    square = model.batch([PICTURE[:28, :28]])
    with torch.no_grad():
        states = original.base_model(square).last_hidden_state
        torch.testing.assert_close(
            original.base_model.layernorm(model.network(square)), states, rtol=0, atol=1e-5
        )
    seen = hb.attention(model, PICTURE)
    assert seen["L2H2"].shape == (special + 8, special + 8) and seen.special.sum() == special
    np.testing.assert_allclose(seen["L2H2"].sum(-1), 1, rtol=1e-5)


def test_what_a_vision_model_cannot_do_is_one_line(file: Path):
    model = hb.load(file)
    for said, asked in (
        ("no text", lambda: hb.attention(model, "a dog")),
        ("no text", lambda: hb.attention(model, [PICTURE.astype(float)])),
        ("no text", lambda: hb.measure(model, [PICTURE[..., 0]])),
        ("no text", lambda: hb.prune(model, "L1H1").network),
        ("no picture", lambda: hb.measure(model, [])),
        ("one size", lambda: model.batch([PICTURE, PICTURE[:, :28]])),
        ("change its size", lambda: hb.attention(model, np.zeros((5, 5, 3), "uint8"))),
        ("change its size", lambda: hb.attention(model, np.zeros((700, 700, 3), "uint8"))),
        ("name the heads", lambda: hb.view(model, PICTURE)),
        ("image processor", lambda: hb.load(tiny_onnx.dinov2())),
    ):
        refuses(asked, said)


def test_what_is_wrong_with_an_onnx_file_is_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    damaged = tmp_path / "damaged.onnx"
    for content in (file.read_bytes()[:-50], b"no ONNX"):
        damaged.write_bytes(content)
        refuses(lambda: hb.load(damaged), "damaged")
    for left_out, said in (("layer.1.norm2.weight", "missing"), ("cls_token", "no DINOv2")):
        tiny_onnx.write(tiny_onnx.dinov2(), damaged, leave_out=left_out)
        refuses(lambda: hb.load(damaged), said)
    vision.message.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    refuses(lambda: hb.load(file), re.escape(catalogue.INSTALL))
