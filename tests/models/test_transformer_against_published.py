"""The whole transformer against two published ones of `transformers` with copied weights.

Marian is post-norm and Pegasus pre-norm with a final norm; both scale embeddings by the root of
the width, add sinusoids (sines first, then cosines) and start the decoder from padding.
"""

import re

import pytest
import torch
import transformers
from blocks import ragged, tiny
from torch import Tensor, nn
from transformers import PreTrainedModel

from headbook.models.capture import Point, capture
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import PAD
from headbook.types import Kind

# Double precision through eight sublayers: what is left is the order of summation.
CLOSE = {"rtol": 1e-8, "atol": 1e-10}
REFERENCES = {
    NormPlacement.POST: transformers.MarianMTModel,
    NormPlacement.PRE: transformers.PegasusForConditionalGeneration,
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


def reference_of(model: Transformer) -> PreTrainedModel:
    """Marian or Pegasus with the model's weights and positions; our embedding bias is set to 0."""
    ours = model.config
    sizes = {"layers": 2, "attention_heads": ours.heads, "ffn_dim": ours.feed_forward}
    architecture = REFERENCES[ours.norm]
    config = architecture.config_class(
        **{f"{side}_{name}": sizes[name] for side in ("encoder", "decoder") for name in sizes},
        vocab_size=ours.source_vocabulary,
        d_model=ours.width,
        max_position_embeddings=256,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=PAD,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    reference = architecture(config).double().train()
    sides = {model.source: reference.model.encoder, model.target: reference.model.decoder}
    with torch.no_grad():
        for side, stack in sides.items():
            side.bias.zero_()
            side.tokens.weight[PAD] = 0
            # embeddings of its own on each side, as ours has
            stack.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, PAD).double()
            stack.embed_positions.weight.copy_(side.positions)
        reference.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False).double()
        for name, value in trained(reference).items():
            value.copy_(model.get_parameter(our_name(name)))
    return reference


def trained(reference: PreTrainedModel) -> dict[str, Tensor]:
    """What is learned and used: not the fixed positions, nor the shared table we took out."""
    unused = ("embed_positions", "model.shared")
    named = reference.named_parameters()
    return {name: value for name, value in named if not any(word in name for word in unused)}


@pytest.mark.parametrize("norm", NormPlacement)
def test_equals_marian_and_pegasus(norm: NormPlacement) -> None:
    """Logits, weights of every head and every gradient."""
    model, batch = tiny(norm=norm), ragged([1, 2, 9, 33], [33, 9, 2, 1])
    reference = reference_of(model)
    with capture(model, {Point.WEIGHTS}) as tape:
        logits = model(batch)
    logits[batch.target_mask].sin().sum().backward()
    theirs = reference(
        input_ids=batch.source,
        attention_mask=batch.source_mask,
        decoder_input_ids=batch.target_in,
        decoder_attention_mask=torch.ones_like(batch.target_in),
        output_attentions=True,
        use_cache=False,
    )
    theirs.logits[batch.target_mask].sin().sum().backward()
    for kind in Kind:
        expected = list(theirs[f"{kind}_attentions"])
        torch.testing.assert_close(tape[kind, Point.WEIGHTS], expected, **CLOSE)
    torch.testing.assert_close(logits, theirs.logits, **CLOSE)
    ours, compared = dict(model.named_parameters()), {"source.bias", "target.bias"}
    for name, value in trained(reference).items():
        torch.testing.assert_close(ours[our_name(name)].grad, value.grad, **CLOSE)
        compared.add(our_name(name))
    assert compared == set(ours), "a parameter of ours has no counterpart"
