"""The whole transformer against `torch.nn.Transformer` with copied weights, pre- and post-norm."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headbook.models.attention import Attention
from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.text.batches import Batch
from headbook.types import Kind

LADDER = (1, 2, 9, 33, 129)
# Double precision through eight sublayers: what is left is the order of summation.
CLOSE = {"rtol": 1e-8, "atol": 1e-10}

SUBLAYERS = {
    "encoder": {
        "attention": "self_attn",
        "around_attention.norm": "norm1",
        "around_feed_forward.norm": "norm2",
    },
    "decoder": {
        "attention": "self_attn",
        "around_attention.norm": "norm1",
        "cross": "multihead_attn",
        "around_cross.norm": "norm2",
        "around_feed_forward.norm": "norm3",
    },
}


def torch_names(values: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Parameters, or their gradients, under the names of `torch.nn.Transformer`."""
    result = {}
    for stack, layers in ("encoder", config.encoder_layers), ("decoder", config.decoder_layers):
        for layer in range(layers):
            ours, theirs = f"{stack}.{layer}", f"{stack}.layers.{layer}"
            for kind in ("weight", "bias"):
                for place, linear in ("inner", "linear1"), ("outer", "linear2"):
                    result[f"{theirs}.{linear}.{kind}"] = values[
                        f"{ours}.feed_forward.{place}.{kind}"
                    ]
                for own, reference in SUBLAYERS[stack].items():
                    if reference.startswith("norm"):
                        result[f"{theirs}.{reference}.{kind}"] = values[f"{ours}.{own}.{kind}"]
                        continue
                    parts = [values[f"{ours}.{own}.{n}.{kind}"] for n in ("query", "key", "value")]
                    result[f"{theirs}.{reference}.in_proj_{kind}"] = torch.cat(parts)
                    output = values[f"{ours}.{own}.output.{kind}"]
                    result[f"{theirs}.{reference}.out_proj.{kind}"] = output
        if config.norm is NormPlacement.PRE:
            result |= {f"{stack}.norm.{k}": values[f"{stack}_norm.{k}"] for k in ("weight", "bias")}
    return result


def reference_of(model: Transformer) -> nn.Transformer:
    """`torch.nn.Transformer` with the model's weights; only pre-norm has norms after the stacks."""
    config, pre = model.config, model.config.norm is NormPlacement.PRE
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre}
    shape = config.width, config.heads, config.feed_forward

    def final() -> nn.Module | None:
        return nn.LayerNorm(config.width) if pre else None

    encoder_layer = nn.TransformerEncoderLayer(*shape, **options)
    decoder_layer = nn.TransformerDecoderLayer(*shape, **options)
    reference = nn.Transformer(
        config.width,
        config.heads,
        custom_encoder=nn.TransformerEncoder(
            encoder_layer, config.encoder_layers, final(), enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(decoder_layer, config.decoder_layers, final()),
        batch_first=True,
    ).double()
    reference.load_state_dict(torch_names(model.state_dict(), config), strict=True)
    return reference


def watch_weights(reference: nn.Transformer) -> dict[tuple[Kind, int], Tensor]:
    """Makes every attention of the reference keep its weights in the returned dictionary."""
    kept: dict[tuple[Kind, int], Tensor] = {}

    def watch(attention: nn.MultiheadAttention, address: tuple[Kind, int]) -> None:
        plain = attention.forward

        def forward(*inputs: Tensor, **options: object) -> tuple[Tensor, Tensor]:
            options |= {"need_weights": True, "average_attn_weights": False}
            output, kept[address] = plain(*inputs, **options)
            return output, kept[address]

        attention.forward = forward

    for number, layer in enumerate(reference.encoder.layers):
        watch(layer.self_attn, (Kind.ENCODER, number))
    for number, layer in enumerate(reference.decoder.layers):
        watch(layer.self_attn, (Kind.DECODER, number))
        watch(layer.multihead_attn, (Kind.CROSS, number))
    return kept


def run_ours(model: Transformer, batch: Batch) -> tuple[Tensor, Tape, dict[str, Tensor]]:
    """Logits, weights, and both embeddings' outputs with their gradients kept."""
    embedded: dict[str, Tensor] = {}

    def keep(name: str) -> Callable:
        def hook(_module: nn.Module, _inputs: object, output: Tensor) -> None:
            output.retain_grad()
            embedded[name] = output

        return hook

    hooks = [getattr(model, name).register_forward_hook(keep(name)) for name in embeddings(model)]
    try:
        with capture(model, {Point.WEIGHTS}) as tape:
            logits = model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return logits, tape, embedded


def embeddings(model: Transformer) -> list[str]:
    return [name for name in ("source", "target") if hasattr(model, name)]


def loss_of(logits: Tensor, batch: Batch) -> Tensor:
    """Weighs every logit of a real position differently, so that no gradient is lost in a sum."""
    waves = torch.arange(logits.numel(), dtype=logits.dtype).sin().view_as(logits)
    return (logits * waves)[batch.target_mask].sum()


def compare_to_torch(model: Transformer, batch: Batch) -> None:
    """Logits, weights of every head, gradients of weights and inputs equal the reference's."""
    logits, tape, embedded = run_ours(model, batch)
    loss_of(logits, batch).backward()
    reference = reference_of(model)
    kept = watch_weights(reference)
    source, target = (embedded[name].detach().requires_grad_() for name in ("source", "target"))
    length = batch.target_in.shape[1]
    states = reference(
        source,
        target,
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        src_key_padding_mask=~batch.source_mask,
        memory_key_padding_mask=~batch.source_mask,
    )
    expected = states @ model.logits.weight.detach().T
    loss_of(expected, batch).backward()
    for (kind, layer), weights in kept.items():
        named = f"weights of {kind} layer {layer}"
        assert_close(tape[kind, Point.WEIGHTS][layer], weights, named)
    assert_close(logits, expected, "logits")
    assert_close(embedded["source"].grad, source.grad, "gradient of the source")
    assert_close(embedded["target"].grad, target.grad, "gradient of the target")
    gradients = {name: value.grad for name, value in model.named_parameters()}
    expected_gradients = dict(reference.named_parameters())
    for name, gradient in torch_names(gradients, model.config).items():
        assert_close(gradient, expected_gradients[name].grad, f"gradient of {name}")


def assert_close(ours: Tensor, theirs: Tensor, what: str) -> None:
    torch.testing.assert_close(ours, theirs, **CLOSE, msg=lambda text: f"{what}: {text}")


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize("length", LADDER)
def test_equals_torch_at_length(
    length: int, norm: NormPlacement, tiny: Callable, ragged: Callable
) -> None:
    compare_to_torch(tiny(norm=norm), ragged([length], [length]))


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ([1, 2, 9, 33], [33, 9, 2, 1]),
        ([33, 2], [1, 1]),
        ([1, 2], [33, 9]),
        ([9, 9, 9], [2, 33, 1]),
    ],
    ids=["both ragged", "target of one", "target longer", "source even"],
)
def test_equals_torch_on_ragged_batches(
    source: list[int], target: list[int], norm: NormPlacement, tiny: Callable, ragged: Callable
) -> None:
    compare_to_torch(tiny(norm=norm), ragged(source, target))


EXPLICIT = Attention._explicit
FAULTS = {
    "query and key transposed": lambda self, query, key, value, mask: EXPLICIT(
        self, key, query, value, mask
    ),
    "mask dropped": lambda self, query, key, value, mask: EXPLICIT(self, query, key, value, None),
    "scores not divided by the root of the dimension": lambda self, query, key, value, mask: (
        EXPLICIT(self, query * query.shape[-1] ** 0.5, key, value, mask)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_seen(
    fault: str, monkeypatch: pytest.MonkeyPatch, tiny: Callable, ragged: Callable
) -> None:
    batch = ragged([9, 5], [9, 7])
    compare_to_torch(tiny(), batch)
    monkeypatch.setattr(Attention, "_explicit", FAULTS[fault])
    with pytest.raises(AssertionError, match="weights of encoder layer 0"):
        compare_to_torch(tiny(), batch)


def test_planted_norm_fault_is_seen(tiny: Callable, ragged: Callable) -> None:
    """A model that says post-norm but lacks the last layer's norm after the sum."""
    model = tiny(norm=NormPlacement.POST)
    model.decoder[1].around_feed_forward.placement = NormPlacement.PRE
    with pytest.raises(AssertionError, match="logits"):
        compare_to_torch(model, ragged([4], [5]))


def test_size_of_the_base_model() -> None:
    """Without embeddings and logits, 44,140,544 parameters: those of `nn.Transformer()`."""
    with torch.device("meta"):
        model = Transformer(TransformerConfig(10, 10))
        reference = nn.Transformer(batch_first=True)
    layers = {k: v for k, v in model.named_parameters() if k.split(".")[0] not in OUTSIDE}
    assert sum(value.numel() for value in layers.values()) == 44_140_544
    assert sum(value.numel() for value in reference.parameters()) == 44_140_544


OUTSIDE = {"source", "target", "logits"}
