"""Reactions in SMILES: their tokens, and a model saved as RXNMapper is."""

from pathlib import Path

import pytest
import torch
from refusing import refuses
from tiny_hugging import BERT, built

import headbook as hb
from headbook.released import smiles

ATOMS = ["C", "c", "O", "N", "Br", "Cl", "[Na+]", "[C@@H]", "%12", "(", ")", "=", "#", ".", "1"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
REACTION = "CC(=O)Cl.[Na+]>>[C@@H]C%12Br"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ALBERT, its weights a pickle of a state dictionary, its tokenizer vocab.txt alone."""
    folder = tmp_path_factory.mktemp("smiles")
    names = [*SPECIAL, *ATOMS, ">>"]
    (folder / "vocab.txt").write_text("\n".join(names) + "\n")
    size = {"vocab_size": len(names), "embedding_size": 4, "pad_token_id": 0}
    model = built("AlbertForMaskedLM", **BERT, **size)
    model.config.architectures = ["AlbertForMaskedLM"]
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def test_tokens_are_atoms_bonds_and_the_arrow(folder: Path):
    model = hb.load(folder)
    tokens = ["C", "C", "(", "=", "O", ")", "Cl", ".", "[Na+]", ">>", "[C@@H]", "C", "%12", "Br"]
    assert model.pieces(REACTION) == ["[CLS]", *tokens, "[SEP]"]
    assert [REACTION[a:b] for a, b in model.spans(REACTION)[1:-1]] == tokens
    assert model.pieces(" CC Br?")[1:-1] == ["C", "C", "Br", "[UNK]"]


def test_a_vocabulary_of_words_has_its_own_tokenizer(folder: Path, tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "a", ">"]))
    assert smiles.tokenizer(tmp_path) is smiles.tokenizer(None) is None
    assert smiles.tokenizer(folder).mask_token == "[MASK]"


def test_a_pickle_may_hold_weights_alone(folder: Path, tmp_path: Path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({"bias": pytest.raises}, tmp_path / "pytorch_model.bin")
    refuses(lambda: hb.load(tmp_path), "cannot read it")
