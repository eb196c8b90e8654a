"""Our transformer and others of its shape; a training step of each."""

from collections.abc import Callable
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headbook.bench.marian import Marian
from headbook.corpora.batches import PAD, Batch
from headbook.machine import leave_out_cudnn_attention
from headbook.models.transformer import Embedding, Transformer, TransformerConfig
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.training.schedule import learning_rate


class Contestant(StrEnum):
    """Whose encoder and decoder layers."""

    OURS = "ours"
    TORCH = "torch.nn.Transformer"
    MARIAN = "transformers.MarianMTModel"


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` as its documentation uses it, between our embeddings and logits.

    Pre-norm with final norms and dropout at the same places, so parameters and function are those
    of our `Transformer`; padding masks are passed always, as is usual.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.source = Embedding(config.source_vocabulary, config.width)
        self.target = Embedding(config.target_vocabulary, config.width)
        self.layers = nn.Transformer(
            d_model=config.width,
            nhead=config.heads,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.feed_forward,
            dropout=config.dropout,
            batch_first=True,
            norm_first=True,
        )
        self.logits = nn.Linear(config.width, config.target_vocabulary, bias=False)

    def forward(self, batch: Batch) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of every target token given those before it."""
        padded = ~batch.source_mask
        length = batch.target_in.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=padded.device).triu(1)
        states = self.layers(
            self.source(batch.source),
            self.target(batch.target_in),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        return self.logits(states)


MAKERS: dict[Contestant, Callable[[TransformerConfig], nn.Module]] = {
    Contestant.OURS: Transformer,
    Contestant.TORCH: TorchTransformer,
    Contestant.MARIAN: Marian,
}


def build(contestant: Contestant, config: TransformerConfig) -> nn.Module:
    """A fresh model on the accelerator where there is one; LeftOutError where it cannot run."""
    return MAKERS[contestant](config).to(device())


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class TrainingStep:
    """One update as the training loop makes it: loss, gradients, fused Adam."""

    def __init__(self, model: nn.Module, precision: Precision):
        constants = TrainingConfig(updates=1)
        self.model, self.precision = model.train(), precision
        self.smoothing = constants.label_smoothing
        leave_out_cudnn_attention()
        self.optimiser = torch.optim.Adam(
            model.parameters(),
            lr=learning_rate(1, 256, constants.scale, constants.warmup),
            betas=constants.betas,
            eps=constants.epsilon,
            fused=True,
        )

    def __call__(self, batch: Batch) -> float:
        """Trains on one batch and returns its loss a target token, which waits for the device."""
        batch = batch.to(device())
        halved = self.precision.here() is Precision.BF16
        with torch.autocast(device().type, torch.bfloat16, enabled=halved):
            logits = self.model(batch)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=self.smoothing,
        )
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return float(loss.detach())
