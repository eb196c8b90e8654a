"""`hb.close` and `hb.nulls`: the same model with some heads silent, or with nothing learnt."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from headbook.heads.nulls import NULLS, Null, without_knowledge
from headbook.looking.naming import named
from headbook.models.gates import closed
from headbook.models.loaded import Loaded


@contextmanager
def close(model: Loaded, heads: str | Collection[str]) -> Iterator[Loaded]:
    """The model with these heads silent while a block lasts: `with hb.close(model, "L6H5"):`.

    A silent head adds nothing: its output is multiplied by 0 before the output projection (Michel
    et al. 2019). `heads` are names such as "L6H5", "decoder L1H2" or "cross L2H1", without a kind
    the encoder's, or the decoder's where there is none; heads that were silent before stay so.
    UserError for a head that the model lacks.
    """
    with closed(model.network, named(model.network, heads)):
        yield model


def nulls(model: Loaded, count: int = NULLS) -> Iterator[Loaded]:
    """Null networks: the model `count` times, its weight matrices permuted or drawn anew in turn.

    `for null in hb.nulls(model, 3):` measures three, to be compared with the model itself.
    Such a network has the same shapes, tokens and positions and has learnt nothing, so the best of
    its heads shows what luck and architecture alone give. It is the same object each time, to be
    measured inside the loop; when that ends, also by `break`, the model has its own weights back.
    """
    for number in range(count):
        with without_knowledge(model.network, list(Null)[number % len(Null)], number):
            yield model
