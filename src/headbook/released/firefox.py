"""Firefox Translations students, read from a folder with model, vocabulary and shortlist."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from headbook.models.attention import MemoryMask
from headbook.models.loaded import Span
from headbook.models.translator import Candidates, Ids
from headbook.released.catalogue import UNKNOWN, entry, folder_of
from headbook.released.greedy import greedy, greedy_from
from headbook.released.marian_binary import read_marian
from headbook.released.marian_student import read_student
from headbook.released.pieces import Pieces
from headbook.released.shortlist import Shortlist, read_shortlist
from headbook.released.student import EOS, Student
from headbook.text.batches import Batch, bucket, last
from headbook.types import UserError

END = "</s>"
LONGEST = 1_000  # pieces of a sentence, EOS included
LICENCE = "licence not stated here (Mozilla's own models: MPL-2.0)"


class FirefoxModel:
    """A loaded student: see models/loaded.py. EOS (id 0) ends source and target; nothing starts."""

    end = EOS
    batch_tokens = 512
    """The shortlists of more sentences have more candidates together."""

    def __init__(
        self,
        name: str,
        origin: str,
        languages: tuple[str, str],
        network: Student,
        vocabularies: tuple[Pieces, Pieces],
        shortlist: Shortlist | None,
    ):
        self.name, self.origin, self.languages = name, origin, languages
        self.network, self.shortlist = network, shortlist
        self._source, self._target = vocabularies

    @property
    def unknown(self) -> int:
        return self._source.unknown

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        """The sentences, with their translations if given, in length buckets.

        UserError for an empty sentence and for one of more than 1,000 pieces.
        """
        if targets is not None and len(targets) != len(sentences):
            raise UserError(f"{len(sentences)} sentences have {len(targets)} translations")
        sources = self._encoded(self._source, sentences)
        if targets is None:
            return batches_of(sources, [[EOS]] * len(sources), tokens)
        return batches_of(sources, self._encoded(self._target, targets), tokens)

    def _encoded(self, vocabulary: Pieces, sentences: Sequence[str]) -> list[list[int]]:
        rows = [[*ids, EOS] for ids in vocabulary.encode(sentences)]
        for number, row in enumerate(rows, start=1):
            if len(row) == 1:
                raise UserError(f"sentence {number} is empty: leave it out")
            if len(row) > LONGEST:
                raise UserError(
                    f"sentence {number} has {len(row):,} pieces and {self.name} takes "
                    f"{LONGEST:,}: split it"
                )
        return rows

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        """One span of characters per piece; None for EOS."""
        return [*self._side(target).spans(sentence), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        """The pieces as text, EOS last."""
        side = self._side(target)
        return side.pieces([*side.encode([sentence])[0], EOS])

    def _side(self, target: bool) -> Pieces:
        return self._target if target else self._source

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        """Nats of every predicted target piece, EOS included, row by row.

        With the shortlist the probabilities are over the batch's candidates and its own targets
        only, which takes a tenth of the time; without such a list nothing changes.
        """
        real = batch.target_mask
        wanted = batch.target_out[real]
        states = self.network.states(batch)[real]
        if not shortlist or self.shortlist is None:
            return functional.cross_entropy(self.network.logits(states), wanted, reduction="none")
        among = torch.cat([self.candidates(batch).ids, wanted]).unique()
        logits = self.network.logits(states, among)
        return functional.cross_entropy(logits, torch.searchsorted(among, wanted), reduction="none")

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        return self.network.encode(batch.source, batch.source_mask)[0]

    def candidates(self, batch: Batch) -> Candidates:
        """The target ids that the shortlist allows; UserError where the model has none."""
        if self.shortlist is None:
            raise UserError(f"{self.name} has no shortlist: put its lex….bin into the folder")
        size = self.network.shape.target_vocabulary
        own = [
            torch.tensor(self.shortlist.candidates(ids[real].tolist(), size))
            for ids, real in zip(batch.source, batch.source_mask, strict=True)
        ]
        ids = torch.cat(own).unique()
        barred = torch.ones(len(own), len(ids), dtype=torch.bool)
        for row, each in zip(barred, own, strict=True):
            row[torch.searchsorted(ids, each)] = False
        return Candidates(ids.to(batch.source.device), barred.to(batch.source.device))

    def translate(self, sentences: Sequence[str], shortlist: bool | None = None) -> list[str]:
        """Greedy translations; over each sentence's own shortlist unless that is said to be off.

        The engine always uses the list. Without it about one sentence in twelve comes out
        differently, each for a piece that the list lacks: a better word, or one put together from
        other pieces.
        """
        limited = self.shortlist is not None if shortlist is None else shortlist
        found = [""] * len(sentences)
        with tqdm(total=len(sentences), desc="translating", unit="sentence", mininterval=2) as bar:
            for batch in self.batches(sentences, tokens=2048):
                rows = self.translate_batch(batch, limited)
                for index, ids in zip(batch.sentences.tolist(), rows, strict=True):
                    found[index] = self.text(ids)
                bar.update(len(batch))
        return found

    def text(self, ids: Sequence[int]) -> str:
        """Target ids as text."""
        return self._target.decode(ids)

    def one_batch(self, pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
        return batch_of(pairs, sentences)

    def greedy(
        self, batch: Batch, memory: Float[Tensor, "batch source model"], mask: MemoryMask | None,
        allowed: Candidates,
    ) -> list[list[int]]:  # fmt: skip
        return greedy_from(self.network, memory, mask, batch.source_mask, allowed)

    def translate_batch(self, batch: Batch, shortlist: bool) -> list[list[int]]:
        """Greedy target ids of each row, EOS left off; the batch's own target is not read."""
        allowed = self.candidates(batch) if shortlist else None
        return greedy(self.network, batch, allowed)


def batches_of(sources: Sequence[Ids], targets: Sequence[Ids], tokens: int) -> list[Batch]:
    """Ids that end in EOS as batches of at most `tokens` padded tokens a side."""
    pairs = list(zip(sources, targets, strict=True))
    indices = bucket(pairs, tokens, range(len(pairs)))
    return [batch_of([pairs[index] for index in each], each) for each in indices]


def batch_of(pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
    """One batch of ids that end in EOS, its rows in this order."""
    source, source_real = _padded([source for source, _ in pairs])
    target, target_real = _padded([target for _, target in pairs])
    start = torch.zeros(len(pairs), 1, dtype=torch.long)
    return Batch(
        source=source,
        target_in=torch.cat([start, target[:, :-1]], dim=1),
        target_out=target,
        sentences=torch.tensor(sentences, dtype=torch.long),
        source_real=source_real,
        source_special=last(source_real),
        target_real=target_real,
        input_special=(torch.arange(target.shape[1]) == 0).repeat(len(pairs), 1),
        output_special=last(target_real),
    )


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows as one matrix, filled with EOS on the right, and the mask of what is not filling."""
    ids = torch.full((len(rows), max(map(len, rows))), EOS)
    real = torch.zeros_like(ids, dtype=torch.bool)
    for row, (values, mask) in zip(rows, zip(ids, real, strict=True), strict=True):
        values[: len(row)] = torch.tensor(row)
        mask[: len(row)] = True
    return ids, real


def load_firefox(name: str) -> FirefoxModel:
    """A Firefox model of the catalogue by its name, or that of a folder by its path.

    Raises UserError where it is not known, not installed and not to be fetched, and as
    `read_folder` does.
    """
    if Path(name).is_dir():
        return read_folder(Path(name))
    known = entry(name, "firefox")
    source, target = known.languages
    digest = None if known.sha256 == UNKNOWN else known.sha256
    return read_folder(folder_of(known), name, (source, target), digest, known.licence)


def read_folder(
    folder: Path,
    name: str | None = None,
    languages: tuple[str, str] | None = None,
    sha256: str | None = None,
    licence: str = LICENCE,
) -> FirefoxModel:
    """The student in a folder: `model*.bin`, `vocab*.spm` (or one a side) and maybe `lex*.bin`.

    Files may be gzipped, as Mozilla publishes them. A `tokenizer.json` is used in place of the
    vocabulary. Raises UserError where a file is missing, damaged or of another architecture, where
    the model's digest is not `sha256`, and where neither `languages` nor the model file's name
    (`model.enpt.….bin`) says them.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name one that holds a Firefox model")
    path = _only(folder, "model*.bin")
    content = _content(path)
    digest = hashlib.sha256(content).hexdigest()
    if sha256 is not None and digest != sha256:
        raise UserError(f"{path} has sha256 {digest}, not {sha256}: install or fetch it again")
    network = read_student(read_marian(content, str(path)), str(path))
    vocabularies = _vocabularies(folder, network)
    return FirefoxModel(
        name or str(folder),
        f"{licence}; {path.name}, sha256 {digest}",
        languages or _languages(path),
        network,
        vocabularies,
        _shortlist(folder, network),
    )


def _only(folder: Path, pattern: str) -> Path:
    found = sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")])
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{folder} has no {pattern}: it is not the folder of a Firefox model")
    names = ", ".join(path.name for path in found)
    raise UserError(f"{folder} has more than one {pattern} ({names}): leave one there")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): copy or fetch it again") from None


def _languages(path: Path) -> tuple[str, str]:
    pair = re.match(r"model\.([a-z]{2})([a-z]{2})\.", path.name)
    if pair is None:
        raise UserError(
            f"{path.name} does not say its languages: name it model.enpt.bin for English to "
            "Portuguese"
        )
    return pair[1], pair[2]


def _vocabularies(folder: Path, network: Student) -> tuple[Pieces, Pieces]:
    sizes = (network.shape.source_vocabulary, network.shape.target_vocabulary)
    if network.shape.shared and (folder / "tokenizer.json").is_file():
        both = Pieces.from_json(folder / "tokenizer.json")
        vocabularies = (both, both)
    elif network.shape.shared:
        both = _vocabulary(_only(folder, "vocab*.spm"))
        vocabularies = (both, both)
    else:
        source, target = (_only(folder, f"{side}vocab*.spm") for side in ("src", "trg"))
        vocabularies = (_vocabulary(source), _vocabulary(target))
    for vocabulary, size in zip(vocabularies, sizes, strict=True):
        if len(vocabulary) != size or vocabulary.pieces([EOS]) != [END]:
            raise UserError(
                f"the vocabulary in {folder} has {len(vocabulary):,} pieces, the model {size:,}, "
                f"and the first must be {END}: it is another model's"
            )
    return vocabularies


def _vocabulary(path: Path) -> Pieces:
    return Pieces.from_sentencepiece(_content(path), str(path))


def _shortlist(folder: Path, network: Student) -> Shortlist | None:
    if not [*folder.glob("lex*.bin"), *folder.glob("lex*.bin.gz")]:
        return None
    path, shape = _only(folder, "lex*.bin"), network.shape
    return read_shortlist(
        _content(path), str(path), shape.source_vocabulary, shape.target_vocabulary
    )
