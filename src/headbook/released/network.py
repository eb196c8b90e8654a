"""A model of `transformers` as a network whose attention blocks can be recorded and gated."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.released import tap
from headbook.released.projections import HookedBlock, projections
from headbook.released.tap import Call, TappedBlock
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

PROBE = (5, 3)
"""Tokens of source and target in the pass that finds the blocks: unequal, so that each kind of
attention has a shape of its own."""


class Stacks(StrEnum):
    """The parts of a model."""

    ENCODER = "encoder"
    DECODER = "decoder"
    BOTH = "encoder-decoder"


class HuggingNetwork(nn.Module):
    """Any model of `transformers` in evaluation mode, its attention tapped.

    The blocks are found by running the model once and listing its attention calls: no architecture
    is known by name, and a layer used several times (ALBERT) is several blocks. Kind follows from
    the shapes of that pass, and a lone stack is a decoder if no token saw a later one. UserError
    for an architecture in which not every layer's attention can be reached.

    Called with a batch it gives logits [batch token vocabulary] of the target, or of the source for
    a masked language model, or the last states [batch token model] where it has no such head.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval()
        model.config.use_cache = False
        model.set_attn_implementation(tap.NAME)
        self.hooked = model.config._attn_implementation != tap.NAME
        self._uses: dict[nn.Module, list[TappedBlock]] = {}
        found = self._hooked() if self.hooked else self._tapped()
        self.blocks = nn.ModuleList(block for _, block in found)
        self._kinds = [kind for kind, _ in found]
        if model.config.is_encoder_decoder:
            self.stacks = Stacks.BOTH
        elif Kind.DECODER in self._kinds:
            self.stacks = Stacks.DECODER
        else:
            self.stacks = Stacks.ENCODER
        self.eval()  # itself too: measuring restores the mode that it finds

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

    def module_of(self, block: TappedBlock) -> nn.Module:
        """The model's own attention module of a block; UserError where it is out of reach."""
        for module, blocks in self._uses.items():
            if any(each is block for each in blocks):
                return module
        raise UserError(f"{block.name}: this architecture's attention module is out of reach")

    def forward(self, batch: Batch) -> Float[Tensor, "batch token width"]:
        output = self._run(self.model, set(Kind), **self._inputs(batch))
        return output.logits if "logits" in output else output.last_hidden_state

    def encode(self, batch: Batch) -> Float[Tensor, "batch source model"]:
        """The encoder's last states; UserError where there is no encoder."""
        if self.stacks is Stacks.DECODER:
            raise UserError("this model has a decoder only; states of sentences need an encoder")
        encoder = self.model.get_encoder() if self.stacks is Stacks.BOTH else self.model.base_model
        inputs = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
        return self._run(encoder, {Kind.ENCODER}, **inputs).last_hidden_state

    @torch.no_grad()
    def generate(self, batch: Batch, **options: Any) -> Tensor:
        """Greedy output ids for the batch's sources, gates applied."""
        with tap.listening(self._hear):
            return self.model.generate(
                input_ids=batch.source,
                attention_mask=batch.source_mask.long(),
                num_beams=1,
                do_sample=False,
                use_cache=True,
                **options,
            )

    def _inputs(self, batch: Batch) -> dict[str, Tensor]:
        read, real = batch.source, batch.source_mask
        if self.stacks is Stacks.DECODER:
            read, real = batch.target_in, batch.target_mask
        inputs = {"input_ids": read, "attention_mask": real.long()}
        if self.stacks is Stacks.BOTH:
            inputs["decoder_input_ids"] = batch.target_in
            inputs["decoder_attention_mask"] = batch.target_mask.long()
        return inputs

    def _run(self, model: Callable[..., Any], kinds: set[Kind], **inputs: Tensor) -> Any:
        """Runs the model and makes sure that each block of these kinds was called once."""
        for block in self.blocks:
            block.calls = 0
        if self.hooked:
            output = model(**inputs, output_attentions=True)
            for block, weights in zip(self.blocks, output.attentions, strict=True):
                block.show(weights)
        else:
            with tap.listening(self._hear):
                output = model(**inputs)
        for kind, block in zip(self._kinds, self.blocks, strict=True):
            if kind in kinds and block.calls != 1:
                raise RuntimeError(f"{block.name} was called {block.calls} times in a pass, not 1")
        return output

    def _hear(self, call: Call) -> Tensor:
        uses = self._uses[call.module]
        block = uses[sum(each.calls for each in uses) % len(uses)]
        block.calls += 1
        call = call.edited(block)
        call.show(block)
        return block.gated(call.context)

    def _tapped(self) -> list[tuple[Kind, TappedBlock]]:
        calls: list[Call] = []
        projections: dict[int, nn.Module] = {}

        def note(call: Call) -> Tensor:
            calls.append(call)
            return call.context

        with tap.listening(note), tap.readers(self.model, calls, projections):
            self._probe()
        self._demand(len(calls))
        lone = self._lone([call.weights for call in calls])
        names = {module: name for name, module in self.model.named_modules()}
        found = []
        for at, call in enumerate(calls):
            block = TappedBlock(names[call.module], call.query.shape[1], call.key.shape[1])
            if at in projections:
                block.projects_by(projections[at])
            self._uses.setdefault(call.module, []).append(block)
            found.append((lone or _kind(call.weights), block))
        return found

    def _hooked(self) -> list[tuple[Kind, TappedBlock]]:
        places = projections(self.model, self.model.config.model_type)
        attentions = self._probe(output_attentions=True).attentions
        self._demand(len(attentions), len(places))
        kind = self._lone(attentions)
        found = []
        for (name, projection), weights in zip(places, attentions, strict=True):
            block = HookedBlock(name, weights.shape[1], weights.shape[1])
            block.listen(projection)
            found.append((kind, block))
        return found

    @torch.no_grad()
    def _probe(self, **options: bool) -> Any:
        source, target = PROBE
        device = next(self.model.parameters()).device
        inputs = {"input_ids": torch.arange(source, device=device)[None]}
        if self.model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.arange(target, device=device)[None]
        masks = {
            name.replace("input_ids", "attention_mask"): torch.ones_like(ids)
            for name, ids in inputs.items()
        }
        return self.model(**inputs, **masks, **options)

    def _lone(self, weights: list[Tensor] | tuple[Tensor, ...]) -> Kind | None:
        """The kind of a model's only stack; None where it has two."""
        if self.model.config.is_encoder_decoder:
            return None
        causal = all((each.triu(1) == 0).all() for each in weights)
        return Kind.DECODER if causal else Kind.ENCODER

    def _demand(self, *counts: int) -> None:
        """UserError unless as many blocks were found as the configuration has layers."""
        expected = _expected(self.model.config)
        if any(count != expected for count in counts):
            raise UserError(
                f"{self.model.config.model_type}: {min(counts)} of {expected} attention blocks can "
                "be reached through transformers, so its heads would not be complete"
            )


def _kind(weights: Float[Tensor, "batch head query key"]) -> Kind:
    source, target = PROBE
    shapes = {
        (source, source): Kind.ENCODER,
        (target, target): Kind.DECODER,
        (target, source): Kind.CROSS,
    }
    return shapes[tuple(weights.shape[-2:])]


def _expected(config: Any) -> int:
    if config.is_encoder_decoder:
        # T5 counts its encoder's layers as its layers.
        encoder = getattr(config, "encoder_layers", None) or config.num_hidden_layers
        decoder = getattr(config, "decoder_layers", None) or config.num_decoder_layers
        return encoder + 2 * decoder
    return config.get_text_config().num_hidden_layers * getattr(config, "inner_group_num", 1)
