"""Trees from spaCy, one for each line of text."""

from collections.abc import Sequence
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Token
from tqdm import tqdm

from headbook.text.labels import normalised
from headbook.text.trees import ROOT, Tree
from headbook.types import UserError

UNUSED = ("ner", "lemmatizer", "textcat")
"""Parts of a pipeline that no tree needs."""


def parse(sentences: Sequence[str], pipeline: str | Path) -> list[Tree]:
    """A tree for each sentence; `pipeline` is an installed spaCy pipeline's name or a folder.

    Each line is taken for one sentence, an empty one gives an empty tree.
    Raises UserError when the pipeline is missing or does not parse.
    """
    try:
        language = spacy.load(pipeline, exclude=list(UNUSED))
    except OSError:
        raise UserError(
            f"spaCy pipeline {pipeline}: not found; install it (`python -m spacy download "
            "en_core_web_sm`) or give the path of a pipeline's folder"
        ) from None
    unparsed = (one_sentence(language, sentence) for sentence in sentences)
    parsed = language.pipe(unparsed, batch_size=256)
    docs = list(tqdm(parsed, total=len(sentences), desc="parsing", unit="sentence"))
    if not all(doc.has_annotation("DEP") for doc in docs if len(doc)):
        raise UserError(f"spaCy pipeline {pipeline}: it sets no dependencies; name one that parses")
    return [to_tree(doc) for doc in docs]


def one_sentence(language: Language, sentence: str) -> Doc:
    """The tokens of a line, marked so that a parser cannot split it into several sentences."""
    doc = language.make_doc(sentence)
    for token in doc:
        token.is_sent_start = token.i == 0
    return doc


def to_tree(doc: Doc) -> Tree:
    """A document as a tree, labels normalised; spaCy's whitespace tokens are left out."""
    words = [token for token in doc if not token.text.isspace()]
    place = {token.i: at for at, token in enumerate(words)}
    return Tree(
        text=doc.text,
        words=tuple((token.idx, token.idx + len(token)) for token in words),
        heads=tuple(_head(token, place) for token in words),
        relations=tuple(normalised(token.dep_, token.text) for token in words),
        tags=tuple(token.pos_ for token in words) if doc.has_annotation("POS") else (),
    )


def _head(token: Token, place: dict[int, int]) -> int:
    """The nearest word above that is not whitespace, by its index among the words kept."""
    above = next((word for word in token.ancestors if word.i in place), None)
    return ROOT if above is None else place[above.i]
