"""A model of `transformers` as a network whose attention blocks can be recorded and gated."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.capture import Point
from headbook.released import tap
from headbook.released.hooked import HookedBlock, projections
from headbook.released.tap import Call, TappedBlock
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

PROBE = (5, 3)
"""Tokens of source and target in the pass that finds the blocks: unequal, so that each kind of
attention has a shape of its own."""

RECURRENT = ("rwkv", "xlstm")
"""Families that call something else attention, by `model_type`."""


class Stacks(StrEnum):
    """The parts of a model."""

    ENCODER = "encoder"
    DECODER = "decoder"
    BOTH = "encoder-decoder"


class HuggingNetwork(nn.Module):
    """Any model of `transformers` in evaluation mode, its attention tapped.

    The blocks are found by running the model once and listing its attention calls: no architecture
    is known by name but those of hooked.py, and a layer used several times (ALBERT) is several
    blocks. Kind follows from the shapes of that pass, and a lone stack is a decoder if no token saw
    a later one. Of a hybrid, layers without attention keep their number and are blocks of no head,
    which are never recorded; `without` holds their numbers. UserError for an architecture without
    attention, for one in which not every layer's can be reached, and for whatever its first pass
    raises.

    Called with a batch it gives logits [batch token vocabulary] of the target, or of the source for
    a masked language model, or the last states [batch token model] where it has no such head.
    """

    reads = "input_ids"

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval()
        model.config.use_cache = False
        model.set_attn_implementation(tap.NAME)
        tapped = model.config._attn_implementation == tap.NAME
        self._options = {} if tapped else {"output_attentions": True}
        found = self._found()
        self.blocks = nn.ModuleList(block for _, block in found)
        self._kinds = [kind for kind, _ in found]
        self._uses: dict[nn.Module, list[TappedBlock]] = {}
        self.without = [block.name for _, block in found if not block.heads]
        for _, block in found:
            self._uses.setdefault(block.module, []).append(block)
        if model.config.is_encoder_decoder:
            self.stacks = Stacks.BOTH
        else:
            self.stacks = Stacks.DECODER if Kind.DECODER in self._kinds else Stacks.ENCODER
        self.eval()  # itself too: measuring restores the mode that it finds

    @property
    def device(self) -> torch.device:
        """Where the weights are; batches are moved there."""
        return next(self.parameters()).device

    @property
    def predicts(self) -> bool:
        """Whether the model has a head that predicts tokens."""
        return self.model.get_output_embeddings() is not None

    def attentions(self) -> Iterator[tuple[Kind, int, TappedBlock]]:
        """Every block in the order of calls, layers counted from zero within each kind."""
        layers = dict.fromkeys(Kind, 0)
        for kind, block in zip(self._kinds, self.blocks, strict=True):
            yield kind, layers[kind], block
            layers[kind] += 1

    def forward(self, batch: Batch) -> Float[Tensor, "batch token width"]:
        output = self._run(self.model, set(Kind), **self._inputs(batch))
        return output.logits if "logits" in output else output.last_hidden_state

    def states(self, batch: Batch) -> Float[Tensor, "batch token model"]:
        """The last states, from which `forward` makes logits where it predicts."""
        return self._run(self.model.base_model, set(Kind), **self._inputs(batch))[0]

    def _inputs(self, batch: Batch) -> dict[str, Tensor]:
        batch = batch.to(self.device)
        read, real = batch.source, batch.source_mask
        if self.stacks is Stacks.DECODER:
            read, real = batch.target_in, batch.target_mask
        inputs = {"input_ids": read, "attention_mask": real.long()}
        if self.stacks is Stacks.BOTH:
            inputs["decoder_input_ids"] = batch.target_in
            inputs["decoder_attention_mask"] = batch.target_mask.long()
        return inputs

    def encode(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        """The encoder's last states, or those of a decoder without a language head (an embedder);
        UserError for a language model."""
        if self.stacks is Stacks.DECODER:
            if not self.predicts:
                return self.states(batch)
            raise UserError("this model has a decoder only; states of sentences need an encoder")
        batch = batch.to(self.device)
        encoder = self.model.get_encoder() if self.stacks is Stacks.BOTH else self.model.base_model
        inputs = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
        return self._run(encoder, {Kind.ENCODER}, **inputs).last_hidden_state

    @torch.no_grad()
    def generate(self, batch: Batch, **options: Any) -> Tensor:
        """Greedy output ids for the batch's sources, gates applied; UserError where the settings do
        not say how."""
        batch = batch.to(self.device)
        options |= {"num_beams": 1, "do_sample": False, "use_cache": True}
        given = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
        try:
            with tap.listening(self._hear):
                return self.model.generate(**given, **options)
        except ValueError as error:  # such as no token to start with
            why = " ".join(str(error).split())[:160]
            raise UserError(f"{type(self.model).__name__} cannot translate ({why})") from None

    def _run(self, model: Callable[..., Any], kinds: set[Kind], **inputs: Any) -> Any:
        """Runs the model and makes sure that each block of these kinds was called once."""
        for block in self.blocks:
            block.calls = 0
        kept = any(
            block.edits
            or (block.record and Point.WEIGHTS in getattr(block.record, "points", Point))
            for block in self.blocks
        )
        with tap.listening(self._hear, again=not kept):
            output = model(**inputs, **self._options)
        if self._options:
            for block, weights in zip(self.blocks, output.attentions, strict=True):
                if block.record is not None:
                    block.record(
                        Point.WEIGHTS, weights.float() if weights.dtype in tap.HALF else weights
                    )
        for kind, block in zip(self._kinds, self.blocks, strict=True):
            if kind in kinds and block.heads and block.calls != 1:
                raise RuntimeError(f"{block.name} was called {block.calls} times in a pass, not 1")
        return output

    def _hear(self, call: Call) -> Tensor:
        uses = self._uses[call.module]
        return uses[sum(each.calls for each in uses) % len(uses)](call)

    def _probe(self) -> dict[str, Tensor]:
        """The inputs of the pass that finds the blocks."""
        sides, inputs = ("", "decoder_") if self.model.config.is_encoder_decoder else ("",), {}
        for side, length in zip(sides, PROBE, strict=False):
            ids = torch.arange(length, device=self.device)[None]
            inputs |= {f"{side}input_ids": ids, f"{side}attention_mask": torch.ones_like(ids)}
        return inputs

    @torch.no_grad()
    def _found(self) -> list[tuple[Kind, TappedBlock]]:
        """The blocks with their kinds, from a pass over a few tokens."""
        calls: list[Call] = []
        readers: dict[int, nn.Module] = {}
        family = self.model.config.model_type
        if family in RECURRENT or not any(
            "Attention" in type(each).__name__ for each in self.model.modules()
        ):
            raise UserError(f"{family} has no attention, so there are no heads to look at")
        if hasattr(self.model, "text_model") and hasattr(self.model, "vision_model"):
            raise UserError(f"{family} compares images with text: give its text model alone")
        if (reads := self.model.main_input_name) != self.reads:
            raise UserError(
                f"{family} reads {reads}, no text: it cannot be read as a model of text"
            )
        hooked = projections(self.model) if self._options else []

        def note(call: Call) -> Tensor:
            calls.append(call)
            return call.context

        config = self.model.config
        try:
            with tap.listening(note), tap.readers(self.model, calls, readers):
                output = self.model(**self._probe(), **self._options)
        except UserError:
            raise
        except Exception as error:  # whatever somebody else's code raises
            raise UserError(
                f"{type(self.model).__name__} cannot be run on a few tokens of text "
                f"({type(error).__name__}: {' '.join(str(error).split())[:160]})"
            ) from None
        names = {module: name for name, module in self.model.named_modules()}
        found: list[tuple[Tensor, TappedBlock]] = []
        for at, call in enumerate(calls):
            name, heads = names[call.module], call.query.shape[1]
            found.append((call.weights, TappedBlock(name, heads, call.module, readers.get(at))))
        for name, weights in zip(hooked, output.attentions if hooked else (), strict=True):
            found.append((weights, HookedBlock(name, weights.shape[1], self.model)))
        expected, attends = _expected(config), _attending(config)
        if len(found) > expected:
            raise UserError(
                f"{family}: attention is computed {len(found)} times in {expected} layers (as in "
                "differential attention), so a head has no weights of its own to be measured"
            )
        if len(found) < expected and len(found) != sum(attends):
            raise UserError(
                f"{family}: {len(found)} of {expected} attention blocks can be reached through "
                "transformers, so its heads would not be complete"
            )
        lone = None
        if not config.is_encoder_decoder:
            causal = all((weights.triu(1) == 0).all() for weights, _ in found)
            lone = Kind.DECODER if causal else Kind.ENCODER
        blocks = [(lone or _kind(weights), block) for weights, block in found]
        if len(blocks) == expected:
            return blocks
        each = iter(blocks)
        return [
            next(each) if attending else (lone, TappedBlock(str(at), 0, nn.Identity(), None))
            for at, attending in enumerate(attends, start=1)
        ]


def _kind(weights: Float[Tensor, "batch head query key"]) -> Kind:
    source, target = PROBE
    shapes = {
        (source, source): Kind.ENCODER,
        (target, target): Kind.DECODER,
        (target, source): Kind.CROSS,
    }
    return shapes[tuple(weights.shape[-2:])]


def _attending(config: Any) -> list[bool]:
    """Which layers of a hybrid have attention whose weights are a softmax's; empty where its
    configuration does not say."""
    config = config.get_text_config()
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or ()
    return [each == "hybrid" or ("attention" in each and "linear" not in each) for each in types]


def _expected(config: Any) -> int:
    if config.is_encoder_decoder:
        # T5 counts its encoder's layers as its layers; T5Gemma's stacks have settings of their own.
        first, second = (getattr(config, name, config) for name in ("encoder", "decoder"))
        encoder = getattr(config, "encoder_layers", None) or first.num_hidden_layers
        decoder = getattr(config, "decoder_layers", getattr(config, "num_decoder_layers", None))
        return encoder + 2 * (decoder or second.num_hidden_layers)
    return config.get_text_config().num_hidden_layers * getattr(config, "inner_group_num", 1)
