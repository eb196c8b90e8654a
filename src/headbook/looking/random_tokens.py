"""What the heads of a decoder do on random tokens: induction, duplicate tokens, copying."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.collect import layer_sums, recordings, upon
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.heads.outputs import output_parts
from headbook.heads.repeats import (
    COPYING,
    DRAWS,
    LENGTH,
    REPEATS,
    SHUFFLED,
    copies,
    repeated,
)
from headbook.models.capture import Keep, Point
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind, UserError


def random_sums(
    model: Loaded,
    start: Sequence[int],
    draws: int = DRAWS,
    replicates: int = REPLICATES,
    orders: Sequence[str] = (REPEATS, SHUFFLED),
) -> tuple[dict[str, RatioSums], str]:
    """Sums of `copies` of repeated and shuffled random tokens and of `copying`, by their name; and
    why copying is left out, where it is. `start` are the model's special tokens before a text."""
    limit, vocabulary = model.text.limit or LENGTH**2, model.vocabulary
    length, found = min(LENGTH, len(vocabulary), (limit - len(start)) // 2), {}
    for name in orders:
        batch = repeated(vocabulary, start, length, draws, name == SHUFFLED)
        of = {name: partial(copies, start=len(start))}
        found |= layer_sums(model.network, [batch], Kind.DECODER, of, replicates)
    batch = repeated(vocabulary, start, length, draws, halves=1)
    try:
        return found | {COPYING: copying(model, batch, len(start), replicates)}, ""
    except UserError as error:
        return found, str(error)


def copying(model: Loaded, batch: Batch, start: int, replicates: int = REPLICATES) -> RatioSums:
    """Share of the tokens behind the `start` whose own logit a head raises most, if it looks at
    them: more than that of any other token of the same sequence.

    The OV circuit of Elhage et al. 2021 on tokens that a sequence has once: the value of the token,
    W_O of the head and the unembedding. A head that copies nothing reaches 1 over the tokens of a
    sequence. Norms behind W_O, which few architectures have, are left out. UserError where the way
    from the last state to the logits, or W_O, is out of reach.
    """
    parts, network = output_parts(model.network, Kind.DECODER), model.network
    reads = unembedding(network.model, batch.target_in[:, start:].to(parts[0].device))
    own = torch.arange(reads.shape[1], device=reads.device)

    def keep(batch: Batch) -> Keep:
        def count(_: Kind, layer: int, point: Point, values: Tensor) -> tuple[int, RatioSums]:
            added = values[:, :, start:].float() @ parts[layer].float()
            logits = torch.einsum("bhtm,bsm->bhts", added, reads)
            right = (logits.argmax(-1) == own).double().sum(-1)[:, None]
            asked = torch.full_like(right[:, :, :1], float(len(own)))
            return layer, RatioSums.over(right, asked, batch.sentences, replicates)

        return count

    kinds = [Kind.DECODER]
    ((tape, _),) = recordings(network, [batch], [Point.VALUES], kinds=kinds, keep=keep)
    if (Kind.DECODER, Point.VALUES) not in tape:
        raise UserError("the model does not show its values")
    found = dict(tape[Kind.DECODER, Point.VALUES])
    return upon([found.get(layer) for layer in range(len(parts))])


@torch.inference_mode()
def unembedding(model: nn.Module, tokens: Tensor) -> Float[Tensor, "batch token model"]:
    """What each token's logit reads of the last layer's states, up to a positive factor: its row of
    the unembedding times the scale of the last norm, without a mean where that norm takes it out.

    The norm is the module whose output the unembedding reads, whatever it is called. UserError
    where there is none.
    """
    head, made, found = model.get_output_embeddings(), {}, []
    if head is None:
        raise UserError("the model predicts no tokens")

    def note(module: nn.Module, inputs: tuple, output: object) -> None:
        if isinstance(output, Tensor) and not isinstance(module, nn.Dropout | nn.Identity):
            made[output.data_ptr()] = module

    def stop(module: nn.Module, inputs: tuple) -> None:
        found.append(made.get(inputs[0].data_ptr()))

    hooks = [each.register_forward_hook(note) for each in model.modules()]
    hooks.append(head.register_forward_pre_hook(stop))
    try:
        model(input_ids=tokens[:1, :2])
    finally:
        for hook in hooks:
            hook.remove()
    if not found or found[0] is None:
        raise UserError("what stands between the last states and the logits is not a norm")
    rows = head.weight[tokens]
    # A norm leaves ones of alternating signs as they are, but for its scale and shift.
    ones = rows.new_ones(1, 1, rows.shape[-1])
    ones[..., ::2] = -1
    norm = found[0]
    rows = (rows * (norm(ones) - norm(-ones)) / 2 * ones).float()
    centred = torch.allclose(norm(ones), norm(ones + 1), atol=1e-3)
    return rows - rows.mean(-1, keepdim=True) if centred else rows
