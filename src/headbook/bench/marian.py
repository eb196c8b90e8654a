"""Marian of `transformers` in the shape of our transformer."""

from importlib.util import find_spec

from jaxtyping import Float
from torch import Tensor, nn

from headbook.bench.rounds import LeftOutError
from headbook.corpora.batches import EOS, PAD, Batch
from headbook.models.transformer import TransformerConfig


class Marian(nn.Module):
    """`transformers.MarianMTModel` with tables of its own for both sides and for the logits.

    Layers, widths, heads, vocabularies and rates of dropout are ours. It is post-norm, so it has no
    final norms; its positions are not learned and its embeddings have no bias.
    LeftOutError where transformers, which only the tests need, is not installed.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        if find_spec("transformers") is None:
            raise LeftOutError("transformers is not installed")
        from transformers import MarianConfig, MarianMTModel

        named = {
            "d_model": config.width,
            "vocab_size": config.source_vocabulary,
            "decoder_vocab_size": config.target_vocabulary,
            "max_position_embeddings": 256,
            "activation_function": "relu",
            "scale_embedding": True,
            "pad_token_id": PAD,
            "eos_token_id": EOS,
            "decoder_start_token_id": PAD,
            "forced_eos_token_id": None,
            "share_encoder_decoder_embeddings": False,
            "tie_word_embeddings": False,
        }
        rates = ("dropout", "attention_dropout", "activation_dropout")
        for side in ("encoder", "decoder"):
            named[f"{side}_layers"] = getattr(config, f"{side}_layers")
            named[f"{side}_attention_heads"] = config.heads
            named[f"{side}_ffn_dim"] = config.feed_forward
        self.model = MarianMTModel(MarianConfig(**named, **dict.fromkeys(rates, config.dropout)))

    def forward(self, batch: Batch) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of every target token given those before it."""
        found = self.model(
            input_ids=batch.source,
            attention_mask=batch.source_mask,
            decoder_input_ids=batch.target_in,
            use_cache=False,
        )
        return found.logits
