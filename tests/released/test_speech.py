"""Whisper in CTranslate2's files: the network that was written, heads of three kinds, errors."""

from pathlib import Path

import numpy as np
import pytest
import tiny_whisper
import torch
from refusing import refuses

import headbook as hb
from headbook.experiments.speaking import speak

SOUND = np.sin(np.arange(8_000) / 20) / 2
HEARD = (SOUND, "cat at")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    tiny_whisper.write(tiny_whisper.whisper(), folder, "float16")
    return folder


@pytest.mark.parametrize(("kind", "far"), [("float16", 1e-3), ("int8", 1 / 250)])
def test_weights_are_those_that_were_written(kind: str, far: float, tmp_path: Path) -> None:
    original = tiny_whisper.whisper()
    tiny_whisper.write(original, tmp_path, kind)
    own = hb.load(tmp_path).network.model.state_dict()
    for name, values in original.state_dict().items():
        largest = float(values.abs().max())
        torch.testing.assert_close(own.pop(name), values, rtol=0, atol=far * largest)
    assert not own


def test_attention_is_between_tokens_and_frames(folder: Path) -> None:
    model = hb.load(str(folder))
    cross = hb.attention(model, HEARD, kind="cross")
    assert cross.weights.shape == (3, 4, 5, 25)  # half a second
    assert cross.words == (tiny_whisper.PLAIN, "▁cat", "▁", "at", tiny_whisper.END)
    assert cross.keys[:2] == ("0.00", "0.02") and cross.special.tolist() == [1, 0, 0, 0, 1]
    with torch.no_grad():
        model.network.model.set_attn_implementation("eager")
        weights = model.network.model(**model.batch([HEARD]), output_attentions=True)
        model.network.model.set_attn_implementation("headbook")
    expected = weights.cross_attentions[2][0, 3, :, :25]
    np.testing.assert_allclose(cross["cross L3H4"], expected, atol=1e-6)
    (decoder,) = hb.attention(model, [HEARD], kind="decoder")
    assert decoder.words == decoder.keys and decoder.words[0] == tiny_whisper.START
    assert hb.attention(model, HEARD).words == cross.keys


def test_what_cannot_be_asked_or_read_is_one_line(folder: Path, tmp_path: Path) -> None:
    model = hb.load(folder)
    text = hb.text(["The dog barks."])
    refuses(lambda: hb.measure(model, text), "hears sound", "words of a text")
    refuses(lambda: hb.attention(model, "The dog barks."), "a sound with its text")
    refuses(lambda: hb.attention(model, (np.zeros(480_001), "a")), "at most 30 s")
    refuses(lambda: hb.attention(model, (np.zeros((9, 2)), "a")), "one channel")
    content = (folder / "model.bin").read_bytes()
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for wrong in (content[:900], b"\5" + content[1:], content.replace(b"/fc", b"/fx"), b""):
        if wrong != content:
            (tmp_path / "model.bin").write_bytes(wrong)
            refuses(lambda: hb.load(tmp_path), "no whole Whisper", "fetch it again")
    (tmp_path / "model.bin").write_bytes(content)
    (tmp_path / "tokenizer.json").unlink()
    refuses(lambda: hb.load(tmp_path), "no whole Whisper")


@pytest.mark.slow
def test_whisper_writes_down_what_is_said() -> None:
    sound, begins = speak("The train to the mountains leaves at noon.")
    assert 2 < len(sound) / 16_000 < 4 and (np.diff(begins[~np.isnan(begins)]) > 0).all()
    model = hb.load("whisper-tiny-en")
    assert model.languages == ("en", None) and "MIT" in model.origin
    assert model.transcribe(sound) == "The train to the mountains leaves at noon."
    refuses(lambda: speak("a", "nobody"), "no voice")
