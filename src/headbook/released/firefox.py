"""Firefox Translations students, read from a folder with model, vocabulary and shortlist."""

import gzip
import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.models.attention import MemoryMask
from headbook.models.greedy import greedily
from headbook.models.loaded import Candidates, Ids, Span, there
from headbook.released import pruned
from headbook.released.catalogue import UNKNOWN, Entry
from headbook.released.marian_binary import read_marian
from headbook.released.marian_student import read_student
from headbook.released.pieces import Pieces
from headbook.released.shortlist import Shortlist, read_shortlist
from headbook.released.student import EOS, Shape, Student
from headbook.text.batches import Batch, collate, in_order
from headbook.types import UserError

END = "</s>"
LONGEST = 1_000  # pieces of a sentence, EOS included
GROWTH = 2.5  # a translation has at most so many times the source's pieces, as in Firefox
STUDENT = "student.json"
"""Where a folder that was written here says what its network is."""
LICENCE = "licence not stated here (Mozilla's own models: MPL-2.0)"


@dataclass(frozen=True)
class FirefoxModel:
    """A loaded student: see models/loaded.py. EOS (id 0) ends source and target; nothing starts."""

    name: str
    origin: str
    languages: tuple[str, str]
    network: Student
    source: Pieces
    target: Pieces
    shortlist: Shortlist | None
    folder: Path
    """Where its vocabularies and its shortlist are."""

    end = EOS
    batch_tokens = 512
    """The shortlists of more sentences have more candidates together."""

    @property
    def unknown(self) -> int:
        return self.source.unknown

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        """See `Loaded`. UserError for an empty sentence and for one of more than 1,000 pieces."""
        if targets is not None and len(targets) != len(sentences):
            raise UserError(f"{len(sentences)} sentences have {len(targets)} translations")
        sources = self._encoded(self.source, sentences)
        wanted = [[EOS]] * len(sources) if targets is None else self._encoded(self.target, targets)
        return list(in_order(list(zip(sources, wanted, strict=True)), tokens, batch_of))

    def _encoded(self, vocabulary: Pieces, sentences: Sequence[str]) -> list[list[int]]:
        rows = [[*ids, EOS] for ids in vocabulary.encode(sentences)]
        for number, row in enumerate(rows, start=1):
            if not 1 < len(row) <= LONGEST:
                raise UserError(
                    f"sentence {number} has {len(row) - 1:,} pieces and {self.name} takes 1 to "
                    f"{LONGEST - 1}: split it, or leave it out if it is empty"
                )
        return rows

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        return [*(self.target if target else self.source).spans(sentence), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        side = self.target if target else self.source
        return side.pieces([*side.encode([sentence])[0], EOS])

    def losses(self, batch: Batch, shortlist: bool = False) -> Float[Tensor, " token"]:
        """See `Loaded`. With the shortlist the choices are the batch's candidates and its targets,
        which takes a tenth of the time."""
        batch = there(self.network, batch)
        real = batch.target_mask
        wanted, states = batch.target_out[real], self.network.states(batch)[real]
        if not shortlist or self.shortlist is None:
            return cross_entropy(self.network.logits(states), wanted, reduction="none")
        among = torch.cat([self.candidates(batch).ids, wanted]).unique()
        logits = self.network.predictor(among)(states)
        return cross_entropy(logits, torch.searchsorted(among, wanted), reduction="none")

    def encoded(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        batch = there(self.network, batch)
        return self.network.encode(batch.source, batch.source_mask)[0]

    def candidates(self, batch: Batch) -> Candidates:
        """The target ids that each row's shortlist allows; all where the model has no list."""
        size = self.network.shape.target_vocabulary
        if self.shortlist is None:
            barred = torch.zeros(len(batch), size, dtype=torch.bool, device=batch.source.device)
            return Candidates(torch.arange(size, device=batch.source.device), barred)
        own = [
            torch.tensor(self.shortlist.candidates(ids[real].tolist(), size))
            for ids, real in zip(batch.source, batch.source_mask, strict=True)
        ]
        ids = torch.cat(own).unique()
        barred = torch.stack([~torch.isin(ids, each) for each in own])
        return Candidates(ids.to(batch.source.device), barred.to(batch.source.device))

    @torch.inference_mode()
    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Greedy translations, over each sentence's own shortlist, as the engine's are."""
        found = [""] * len(sentences)
        with tqdm(total=len(sentences), desc="translating", unit="sentence", mininterval=2) as bar:
            for batch in self.batches(sentences, tokens=2048):
                batch = there(self.network, batch)
                encoded = self.network.encode(batch.source, batch.source_mask)
                rows = self.greedy(batch, *encoded, self.candidates(batch))
                for index, ids in zip(batch.sentences.tolist(), rows, strict=True):
                    found[index] = self.text(ids)
                bar.update(len(batch))
        return found

    def text(self, ids: Ids) -> str:
        return self.target.decode(ids)

    def one_batch(self, pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
        return batch_of(pairs, sentences)

    def greedy(
        self,
        batch: Batch,
        memory: Float[Tensor, "batch source model"],
        mask: MemoryMask | None,
        allowed: Candidates,
    ) -> list[list[int]]:
        limits = (GROWTH * batch.source_mask.sum(1)).long()
        return greedily(self.network, memory, mask, limits, allowed, EOS)


def batch_of(pairs: Sequence[tuple[Ids, Ids]], sentences: Sequence[int]) -> Batch:
    """One batch of ids that end in EOS, which fills rows on the right too, in this order."""
    filled = collate(pairs, sentences)
    real = [
        torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in side])[:, None]
        for ids, side in zip(
            (filled.source, filled.target_out), zip(*pairs, strict=True), strict=True
        )
    ]
    return replace(filled, source_real=real[0], target_real=real[1])


def read_folder(folder: Path, entry: Entry | None = None) -> FirefoxModel:
    """The student in a folder: `model*.bin`, `vocab*.spm` (or one a side) and maybe `lex*.bin`.

    Files may be gzipped, as Mozilla publishes them. Raises UserError where a file is missing,
    damaged or of another architecture, where the model is another than the one of the `entry`, and
    where there is none and the file's name (`model.enpt.….bin`) does not say its languages.
    """
    if (folder / STUDENT).is_file():
        network, origin, languages = _written(folder)
    else:
        path = _only(folder, "model*.bin")
        content = _content(path)
        digest = hashlib.sha256(content).hexdigest()
        if entry and entry.sha256 not in (UNKNOWN, digest):
            raise UserError(
                f"{path} has sha256 {digest}, not that of data/models.toml: fetch it again"
            )
        network = read_student(read_marian(content, str(path)), str(path))
        origin = f"{entry.licence if entry else LICENCE}; {path.name}, sha256 {digest}"
        languages = entry.languages if entry else _languages(path)
    sizes = network.shape.source_vocabulary, network.shape.target_vocabulary
    sides = ("vocab*.spm",) if network.shape.shared else ("srcvocab*.spm", "trgvocab*.spm")
    read = [_vocabulary(_only(folder, side), size)
            for side, size in zip(sides, sizes, strict=False)]  # fmt: skip
    shortlist = None
    if any(folder.glob("lex*.bin*")):
        lexicon = _only(folder, "lex*.bin")
        shortlist = read_shortlist(_content(lexicon), str(lexicon), *sizes)
    name = entry.name if entry else str(folder)
    return FirefoxModel(name, origin, languages, network, read[0], read[-1], shortlist, folder)


def save(model: FirefoxModel, folder: Path) -> None:
    """Writes a folder that `read_folder` reads, also of a network whose layers are smaller."""
    pruned.write(model.network, folder)
    about = {"origin": model.origin, "languages": model.languages}
    about["shape"] = asdict(model.network.shape)
    (folder / STUDENT).write_text(json.dumps(about), "utf-8")
    for pattern in ("*vocab*.spm*", "lex*.bin*"):
        for file in model.folder.glob(pattern):
            shutil.copy(file, folder)


def _written(folder: Path) -> tuple[Student, str, tuple[str, str]]:
    """Network, origin and languages of a folder that `save` wrote."""
    try:
        about = json.loads((folder / STUDENT).read_text("utf-8"))
        student, (source, target) = Student(Shape(**about["shape"])), about["languages"]
        return pruned.fill(student, folder).eval(), about["origin"], (source, target)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder} is damaged ({error}); prune and save again") from None


def _only(folder: Path, pattern: str) -> Path:
    found = sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")])
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{folder} needs one {pattern} to be a Firefox model's, and has {names}")
    return found[0]


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


def _vocabulary(path: Path, size: int) -> Pieces:
    vocabulary = Pieces(_content(path), str(path))
    if len(vocabulary) != size or vocabulary.pieces([EOS]) != [END]:
        raise UserError(
            f"{path} has {len(vocabulary):,} pieces, the model {size:,}, and the first must be "
            f"{END}: it is another model's"
        )
    return vocabulary
