"""The whole transformer against two published ones of `transformers` with copied weights.

Marian is post-norm and Pegasus pre-norm with a final norm; both scale embeddings by the root of
the width, add sinusoids (sines first, then cosines) and start the decoder from padding.
"""

import re

import pytest
import torch
from blocks import ragged, tiny
from torch import Tensor, nn
from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedModel,
)

from headbook.models.capture import Point, capture
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import EOS, PAD, Batch
from headbook.types import Kind

# Double precision through eight sublayers: what is left is the order of summation.
CLOSE = {"rtol": 1e-8, "atol": 1e-10}
REFERENCES = {
    NormPlacement.POST: (MarianConfig, MarianMTModel),
    NormPlacement.PRE: (PegasusConfig, PegasusForConditionalGeneration),
}
RENAMED = (
    (r"^lm_head\.", "logits."),
    (r"^model\.(encoder|decoder)\.layer_norm\.", r"\1_norm."),
    (r"^model\.encoder\.embed_tokens\.", "source.tokens."),
    (r"^model\.decoder\.embed_tokens\.", "target.tokens."),
    (r"^model\.(encoder|decoder)\.layers\.", r"\1."),
    (r"\.self_attn_layer_norm\.", ".around_attention.norm."),
    (r"\.encoder_attn_layer_norm\.", ".around_cross.norm."),
    (r"\.final_layer_norm\.", ".around_feed_forward.norm."),
    (r"\.self_attn\.", ".attention."),
    (r"\.encoder_attn\.", ".cross."),
    (r"\.([qkv])_proj\.", lambda m: f".{ {'q': 'query', 'k': 'key', 'v': 'value'}[m[1]] }."),
    (r"\.out_proj\.", ".output."),
    (r"\.fc1\.", ".feed_forward.inner."),
    (r"\.fc2\.", ".feed_forward.outer."),
)


def our_name(name: str) -> str:
    for pattern, ours in RENAMED:
        name = re.sub(pattern, ours, name)
    return name


def untied(config: object, architecture: type[PreTrainedModel]) -> PreTrainedModel:
    """The reference with embeddings of its own on each side, as ours has."""
    reference = architecture(config).double().train()
    for stack in (reference.model.encoder, reference.model.decoder):
        stack.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, PAD).double()
    reference.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False).double()
    return reference


def reference_of(model: Transformer) -> PreTrainedModel:
    """Marian or Pegasus with the model's weights and positions; our embedding bias is set to 0."""
    ours = model.config
    configure, architecture = REFERENCES[ours.norm]
    config = configure(
        vocab_size=ours.source_vocabulary,
        d_model=ours.width,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.heads,
        decoder_attention_heads=ours.heads,
        encoder_ffn_dim=ours.feed_forward,
        decoder_ffn_dim=ours.feed_forward,
        max_position_embeddings=256,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    reference = untied(config, architecture)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for side, stack in (
            (model.source, reference.model.encoder),
            (model.target, reference.model.decoder),
        ):
            side.bias.zero_()
            side.tokens.weight[PAD] = 0
            stack.embed_positions.weight.copy_(side.positions)
        for name, value in trained(reference).items():
            value.copy_(weights[our_name(name)])
    return reference


def trained(reference: PreTrainedModel) -> dict[str, Tensor]:
    """What is learned and used: not the fixed positions, nor the shared table we took out."""
    unused = ("embed_positions", "model.shared")
    named = reference.named_parameters()
    return {name: value for name, value in named if not any(word in name for word in unused)}


def loss_of(logits: Tensor, batch: Batch) -> Tensor:
    waves = torch.arange(logits.numel(), dtype=logits.dtype).sin().view_as(logits)
    return (logits * waves)[batch.target_mask].sum()


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize(("source", "target"), [([1], [1]), ([1, 2, 9, 33], [33, 9, 2, 1])])
def test_equals_marian_and_pegasus(
    source: list[int], target: list[int], norm: NormPlacement
) -> None:
    """Logits, weights of every head and every gradient."""
    model, batch = tiny(norm=norm), ragged(source, target)
    reference = reference_of(model)
    with capture(model, {Point.WEIGHTS}) as tape:
        logits = model(batch)
    loss_of(logits, batch).backward()
    theirs = reference(
        input_ids=batch.source,
        attention_mask=batch.source_mask,
        decoder_input_ids=batch.target_in,
        decoder_attention_mask=torch.ones_like(batch.target_in),
        output_attentions=True,
        use_cache=False,
    )
    loss_of(theirs.logits, batch).backward()
    kinds = {
        Kind.ENCODER: theirs.encoder_attentions,
        Kind.DECODER: theirs.decoder_attentions,
        Kind.CROSS: theirs.cross_attentions,
    }
    for kind, layers in kinds.items():
        for layer, weights in enumerate(layers):
            torch.testing.assert_close(tape[kind, Point.WEIGHTS][layer], weights, **CLOSE)
    torch.testing.assert_close(logits, theirs.logits, **CLOSE)
    ours, compared = dict(model.named_parameters()), {"source.bias", "target.bias"}
    for name, value in trained(reference).items():
        torch.testing.assert_close(ours[our_name(name)].grad, value.grad, **CLOSE)
        compared.add(our_name(name))
    assert compared == set(ours), "a parameter of ours has no counterpart"
