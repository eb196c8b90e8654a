"""Trees from spaCy: one sentence per line, parsed once and cached as a DocBin."""

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Token
from spacy.vocab import Vocab
from tqdm import tqdm

from headbook.syntax.labels import LabelScheme, normalised, scheme
from headbook.trees import ROOT, Tree
from headbook.types import UserError

UNUSED = ("ner", "lemmatizer", "textcat")
ATTRIBUTES = ("ORTH", "SPACY", "HEAD", "DEP", "POS", "TAG", "SENT_START")


@dataclass(frozen=True)
class ParserRecord:
    """The pipeline behind a set of parses; `scheme` follows from the labels it gave."""

    name: str
    version: str
    spacy: str
    scheme: LabelScheme


@dataclass(frozen=True)
class Parses:
    """One spaCy document a sentence, in the sentences' order, and who made them."""

    docs: tuple[Doc, ...]
    record: ParserRecord

    def __len__(self) -> int:
        return len(self.docs)

    def trees(self) -> list[Tree]:
        return [to_tree(doc) for doc in self.docs]


def parse(sentences: Sequence[str], pipeline: str | Path, batch: int = 256) -> list[Tree]:
    """A tree for each sentence; `pipeline` is an installed spaCy pipeline's name or a folder.

    Each line is taken for one sentence, an empty one gives an empty tree, `batch` counts sentences.
    Raises UserError when the pipeline is missing or does not parse.
    """
    return parse_docs(sentences, pipeline, batch).trees()


def parse_docs(sentences: Sequence[str], pipeline: str | Path, batch: int = 256) -> Parses:
    """As `parse`, keeping spaCy's documents."""
    language = load_pipeline(pipeline)
    unparsed = (one_sentence(language, sentence) for sentence in sentences)
    parsed = language.pipe(unparsed, batch_size=batch)
    docs = tuple(tqdm(parsed, total=len(sentences), desc="parsing", unit="sentence"))
    if not all(doc.has_annotation("DEP") for doc in docs if len(doc)):
        raise UserError(f"spaCy pipeline {pipeline}: it sets no dependencies; name one that parses")
    return Parses(docs, _record(language, docs))


def load_pipeline(pipeline: str | Path) -> Language:
    """The pipeline without the parts no tree needs."""
    try:
        return spacy.load(pipeline, exclude=list(UNUSED))
    except OSError:
        raise UserError(
            f"spaCy pipeline {pipeline}: not found; install it (`python -m spacy download "
            "en_core_web_sm`) or give the path of a pipeline's folder"
        ) from None


def one_sentence(language: Language, sentence: str) -> Doc:
    """The tokens of a line, marked so that a parser cannot split it into several sentences."""
    doc = language.make_doc(sentence)
    for token in doc:
        token.is_sent_start = token.i == 0
    return doc


def _record(language: Language, docs: Iterable[Doc]) -> ParserRecord:
    return ParserRecord(
        name=f"{language.meta['lang']}_{language.meta['name']}",
        version=language.meta["version"],
        spacy=spacy.__version__,
        scheme=scheme(token.dep_ for doc in docs for token in doc),
    )


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


def save_docs(parses: Parses, path: str | Path) -> Path:
    """Writes the documents to `path` and their record beside it; returns the record's path."""
    path = Path(path)
    DocBin(attrs=list(ATTRIBUTES), docs=list(parses.docs)).to_disk(path)
    record = _record_path(path)
    record.write_text(json.dumps(asdict(parses.record), indent=2) + "\n", encoding="utf-8")
    return record


def load_docs(path: str | Path) -> Parses:
    """Documents written by `save_docs`; needs spaCy, not the pipeline."""
    path = Path(path)
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        docs = DocBin().from_disk(path).get_docs(Vocab())
        parses = Parses(
            tuple(docs), ParserRecord(**{**record, "scheme": LabelScheme(record["scheme"])})
        )
    except (OSError, ValueError, TypeError, KeyError, zlib.error) as error:
        raise UserError(f"{path}: no parses can be read ({error}); parse again") from error
    return parses


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
