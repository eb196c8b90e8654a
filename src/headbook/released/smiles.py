"""Tokens of molecules and reactions in SMILES, of models whose tokenizer is no class of
`transformers` (RXNMapper, Schwaller et al. 2021)."""

from pathlib import Path
from typing import Any

TOKEN = (
    r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$"
    "|%[0-9]{2}|[0-9]"
)
"""An atom, a bond, a branch, the end of a ring, or the arrow of a reaction."""
SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]")


def tokenizer(folder: Path | None) -> Any:
    """The tokenizer of a folder with vocab.txt, a token of SMILES on each line; None for others.

    What is no SMILES becomes [UNK], spaces apart, which separate tokens and are none.
    """
    file = (folder or Path()) / "vocab.txt"
    if folder is None or not file.is_file() or (folder / "tokenizer.json").is_file():
        return None
    vocabulary = {token: at for at, token in enumerate(file.read_text("utf-8").splitlines())}
    if not vocabulary.keys() >= {">>", *SPECIAL}:  # of words, an arrow would be two signs
        return None
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(TOKEN), "isolated")]
    )
    ends = [(name, vocabulary[name]) for name in SPECIAL[:2]]
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, ends)
    named = {f"{each[1:-1].lower()}_token": each for each in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **named)
