"""`hb.prune`: the model without some heads, smaller, in memory and in a folder.

One description of where heads lie in the weights serves both forms: the smaller model leaves these
rows and columns out, the full shape holds zeros in W_O's.
"""

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headbook.looking.naming import named
from headbook.looking.ours import SOURCE, TARGET, WEIGHTS, OurEncoder, OurModel
from headbook.looking.weights import NAMES
from headbook.models import checkpoint
from headbook.models.capture import Capturable, Point
from headbook.models.gates import closed
from headbook.models.loaded import Loaded
from headbook.models.transformer import HeadCounts, Transformer
from headbook.released import firefox, pruned
from headbook.released.hugging_face import HuggingModel
from headbook.released.hugging_files import quiet
from headbook.released.network import HuggingNetwork
from headbook.types import HeadId, Kind, UserError

SMALL, FULL = "small", "full"
SIDE_BY_SIDE = ("c_attn", "qkv_proj", "qkv", "Wqkv")
"""One projection of all queries, then all keys, then all values."""
INTERLEAVED = ("query_key_value",)
"""One projection, head by head, of its query, key and value."""
BIAS = "relative_attention_bias"
"""T5's table of one bias per distance and head, which all layers share."""
WIDTHS = ("all_head_size", "split_size", "inner_dim")
COUNTS = ("heads", "num_heads", "num_attention_heads", "n_heads")
GROUPS, GROUP_SIZE = ("key_value_heads", "num_key_value_heads"), "num_key_value_groups"
"""What a module may call its heads' width together, their number, and their groups."""
PROBE = ("one two three", "a b")
"""Sentences on which the smaller model is compared with the one in which heads are silent."""
GRAINS = 1000
"""Roundings of the largest number that two ways to compute the same may differ by."""


@dataclass(frozen=True)
class Part:
    """Where heads, or groups that share keys, lie in a layer: rows or columns of each, by the axis
    of its weight."""

    layer: nn.Module
    axis: int
    places: Int[Tensor, "head place"]

    @classmethod
    def of(cls, layer: nn.Module, count: int, output: bool = False, places: Any = None) -> "Part":
        """So many equal shares of a layer's outputs, or of its inputs, in order."""
        # GPT-2's layers and embeddings lie the other way round than linear ones
        axis = int(output == isinstance(layer, nn.Linear))
        own = torch.arange(layer.weight.shape[axis]) if places is None else places
        return cls(layer, axis, own.view(count, -1))

    def names(self) -> dict[str, int]:
        """The parameters that have these places, each with its axis; W_O's bias is of no head."""
        of_rows = self.axis == (0 if isinstance(self.layer, nn.Linear) else 1)
        biased = of_rows and getattr(self.layer, "bias", None) is not None
        return {"weight": self.axis} | ({"bias": 0} if biased else {})


@dataclass(frozen=True)
class Pruned:
    """A model without some heads; it can do all that a loaded model can."""

    whole: Loaded
    without: tuple[HeadId, ...]

    @cached_property
    def model(self) -> Loaded:
        """The smaller model, made when it is first needed."""
        network = smaller(self.whole.network, self.without)
        name = f"{self.whole.name} without {', '.join(each.label for each in self.without)}"
        found = replace(self.whole, network=network, name=name)
        _compare(self.whole, found, self.without)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def save(self, folder: str | Path, shape: str = SMALL) -> str:
        """Writes a folder that `hb.load` reads, and says in a sentence who else reads it.

        Hugging Face models, Firefox's students and models trained here can be written.
        Plain `transformers` reads it where its format has a head width of its own and every layer
        keeps as many heads (Llama, Qwen, Mistral, T5). With `shape="full"` it always does: zeros
        stand where the heads were, which makes nothing smaller. UserError for a format without
        either, and a folder that holds files already.
        """
        folder = Path(folder).expanduser()
        if shape not in (SMALL, FULL):
            raise UserError(f"shape is {shape!r}; use {SMALL!r} or {FULL!r}")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} is not empty; name a new folder")
        whole = self.whole
        if not isinstance(whole, HuggingModel | OurModel | OurEncoder | firefox.FirefoxModel):
            raise UserError(f"{whole.name}: its format cannot be written; hb.close silences heads")
        model = self.model if shape == SMALL else replace(whole, network=self._silent())
        folder.mkdir(parents=True, exist_ok=True)
        plain = False
        if isinstance(whole, HuggingModel):
            left = self._left() if shape == SMALL else None
            with quiet():
                plain = pruned.save(model.network.model, folder, left)
            whole.text.tokenizer.save_pretrained(folder)
        elif isinstance(whole, firefox.FirefoxModel):
            firefox.save(model, folder)
        else:
            _save_ours(model, folder)
        if shape == FULL:
            return f"{folder}: zeros in place of {len(self.without)} heads; it is not smaller"
        readers = "headbook and transformers read it" if plain else "only headbook reads it"
        return f"{folder}: without {len(self.without)} heads; {readers}"

    def _silent(self) -> Any:
        network = copy.deepcopy(self.whole.network)
        network.load_state_dict(silenced(self.whole.network, self.without))
        return network

    def _left(self) -> list[tuple[int, int]]:
        """Heads, and groups that share keys, of every block."""
        return [(block.heads, block.heads // _shared(block))
                for _, _, block in self.model.network.attentions()]  # fmt: skip


def prune(model: Loaded, heads: str | Collection[str]) -> Pruned:
    """The model without these heads, to measure and to save.

    It computes what the model does with them silent (`hb.close`), is smaller and faster, and counts
    the heads that are left anew in each layer. A layer that loses all of them keeps its first, or
    its first group of keys, with zeros in W_O. `heads` are names such as "L6H5" or "cross L2H1".

    UserError, when it is first used or saved, where heads that share keys are left in unequal
    numbers and for an architecture that cannot do without; `.save(folder, shape="full")` can save
    these. And where a layer that is used several times (ALBERT) would lose different heads.
    """
    return Pruned(model, tuple(named(model.network, heads)))


def silenced(network: Capturable, heads: Collection[HeadId]) -> dict[str, Tensor]:
    """All weights in their shape, with zeros in W_O where these heads lie."""
    weights = dict(network.state_dict())
    names = {module: name for name, module in network.named_modules()}
    for block, gone in _losing(network, heads):
        part = _output(block)
        name = f"{names[part.layer]}.weight"
        places = part.places[sorted(gone)].flatten().to(weights[name].device)
        weights[name] = weights[name].index_fill(part.axis, places, 0)
    return weights


def smaller(network: Capturable, heads: Collection[HeadId]) -> Capturable:
    """A copy of the network without these heads; UserError as of `prune`."""
    cuts = [_cut(block, gone) for block, gone in _losing(network, heads)]
    names = {module: name for name, module in network.named_modules()}
    copied = copy.deepcopy(network)
    copied.load_state_dict(silenced(network, heads))
    for parts, sizes, module in cuts:
        for layer in dict.fromkeys(part.layer for part, _ in parts):
            _shrink(copied.get_submodule(names[layer]),
                    [(part, left) for part, left in parts if part.layer is layer])  # fmt: skip
        target = copied.get_submodule(names[module])
        for name, size in sizes.items():
            setattr(target, name, size)
    if isinstance(copied, Transformer):
        counts: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        for kind, _, block in copied.attentions():
            counts[kind].append(block.heads)
        copied.config = replace(
            copied.config, head_counts=HeadCounts(*(tuple(counts[kind]) for kind in Kind))
        )
    # its blocks know their numbers of heads
    return HuggingNetwork(copied.model) if isinstance(copied, HuggingNetwork) else copied


def _losing(network: Capturable, heads: Collection[HeadId]) -> list[tuple[Any, set[int]]]:
    """Every module of attention that loses heads: one block that uses it, and these heads."""
    uses: dict[nn.Module, list[tuple[Any, set[int]]]] = {}
    for kind, layer, block in network.attentions():
        gone = {each.head for each in heads if (each.kind, each.layer) == (kind, layer)}
        uses.setdefault(getattr(block, "module", block), []).append((block, gone))
    for own in uses.values():
        if any(gone != own[0][1] for _, gone in own):
            raise UserError(
                f"{own[0][0].name} is used by {len(own)} layers, which can only lose the same "
                "heads: name these in each"
            )
    return [own[0] for own in uses.values() if own[0][1]]


def _shared(block: Any) -> int:
    """The number of heads that share their keys."""
    module = getattr(block, "module", block)
    if hasattr(module, GROUP_SIZE):
        return getattr(module, GROUP_SIZE)
    return block.heads // next((getattr(module, name) for name in GROUPS if hasattr(module, name)),
                               block.heads)  # fmt: skip


def _output(block: Any) -> Part:
    """Where heads lie in W_O; UserError where it cannot be told from other layers."""
    _ = block.output_weight  # says so
    layer = block.projection if hasattr(block, "projection") else block.output
    return Part.of(layer, block.heads, output=True)


def _parts(block: Any, groups: int) -> tuple[list[Part], list[Part]]:
    """Where every head, and every group that shares keys, lies in the layers of a block."""
    module, heads = getattr(block, "module", block), block.heads
    sizes = (heads, groups, groups)
    apart = next((each for each in NAMES if all(hasattr(module, name) for name in each)), None)
    fused = next((each for each in SIDE_BY_SIDE + INTERLEAVED if hasattr(module, each)), None)
    if getattr(block, "editable", ()) == (Point.CONTEXT,) or (apart is None and fused is None):
        raise UserError(
            f"{type(module).__name__}: where its heads lie in its weights is not known, so they "
            "cannot be taken out; hb.close silences them, and shape='full' saves them as zeros"
        )
    if apart:
        found = [Part.of(getattr(module, name), size)
                 for name, size in zip(apart, sizes, strict=True)]  # fmt: skip
    elif fused in INTERLEAVED:
        found = [Part.of(getattr(module, fused), heads)]
    else:
        layer = getattr(module, fused)
        whole = Part.of(layer, heads + 2 * groups).places
        found = [Part.of(layer, size, places=own)
                 for size, own in zip(sizes, whole.split(sizes), strict=True)]  # fmt: skip
    biases = [Part.of(getattr(module, BIAS), heads)] if hasattr(module, BIAS) else []
    return [found[0], *biases, _output(block)], found[1:]


def _cut(
    block: Any, gone: set[int]
) -> tuple[list[tuple[Part, list[int]]], Mapping[str, int], nn.Module]:
    """What is left of every part of a block, its module's new sizes, and the module."""
    module, each = getattr(block, "module", block), _shared(block)
    of_heads, of_groups = _parts(block, block.heads // each)
    kept = [head for head in range(block.heads) if head not in gone] or list(range(each))
    groups = {group: len([*own]) for group, own in groupby(kept, lambda head: head // each)}
    if len({*groups.values()}) > 1:
        raise UserError(
            f"{block.name}: {each} heads share their keys, and unequal numbers of them would be "
            "left; name whole groups, or save with shape='full'"
        )
    sizes = dict.fromkeys(COUNTS, len(kept)) | dict.fromkeys(GROUPS, len(groups))
    sizes[GROUP_SIZE] = len(kept) // len(groups)
    for name in WIDTHS:
        sizes[name] = getattr(module, name, 0) // block.heads * len(kept)
    parts = [(part, kept) for part in of_heads] + [(part, [*groups]) for part in of_groups]
    return parts, {name: size for name, size in sizes.items() if hasattr(module, name)}, module


def _shrink(layer: nn.Module, left: list[tuple[Part, list[int]]]) -> None:
    """The layer with these places alone, in their order; queries, keys and values may share it."""
    places = torch.cat([part.places[own].flatten() for part, own in left]).sort().values
    for name, axis in left[0][0].names().items():
        old = getattr(layer, name)
        cut = old.detach().index_select(axis, places.to(old.device))
        setattr(layer, name, nn.Parameter(cut, old.requires_grad))
    pruned.resize(layer)


@torch.no_grad()
def _compare(whole: Loaded, found: Loaded, heads: Collection[HeadId]) -> None:
    """Nothing is taken on trust: the smaller model computes what the one with silent heads does."""
    (batch,) = whole.batches(PROBE)
    try:
        with closed(whole.network, heads):
            wanted = whole.network(batch)
        apart = (found.network(batch) - wanted).abs().max()
        least = GRAINS * torch.finfo(wanted.dtype).eps * max(1.0, float(wanted.abs().max()))
        same, why = bool(apart <= least), f"its numbers differ by {float(apart):.2g}"
    except (RuntimeError, IndexError) as error:
        same, why = False, " ".join(str(error).split())[:80]
    if not same:
        raise UserError(
            f"{whole.name} cannot do without just these heads ({why}); T5 can lose the same heads "
            "of all its layers; hb.close silences heads, and shape='full' saves them as zeros"
        )


def _save_ours(model: OurModel | OurEncoder, folder: Path) -> None:
    checkpoint.save_model(model.network, folder / WEIGHTS)
    model.source.save(folder / SOURCE)
    if isinstance(model, OurModel):
        model.target.save(folder / TARGET)
    config = {"corpus": getattr(model, "corpus", "")}
    (folder / "run.json").write_text(json.dumps({"ingredients": {"config": config}}), "utf-8")
