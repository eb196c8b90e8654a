"""An encoder that reads vectors and gives classes, of which only some weights are trained.

Lu et al. 2021, section 2.1: all between a new input and a new output layer may stay frozen.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.models.loaded import pooled
from headbook.models.transformer import Transformer
from headbook.types import UserError

Vectors, Real = Float[Tensor, "row time width"], Bool[Tensor, "row time"]
States = Float[Tensor, "row position width"]


class NewEnds(nn.Module):
    """The lowest layers of an encoder, of ours or of `transformers`, between two new layers.

    Answers are read at the last `positions`, `each` of them from every position, or from the mean
    of all where `positions` is None. The encoder is changed; UserError for one without learnt
    positions.
    """

    def __init__(
        self,
        encoder: nn.Module,
        layers: int,
        features: int,
        classes: int,
        positions: int | None,
        each: int = 1,
    ) -> None:
        super().__init__()
        kind = EncoderBody if isinstance(encoder, Transformer) else BertBody
        self.body, self.positions, self.classes = kind(encoder, layers), positions, classes
        width = self.body.positions.shape[1]
        self.input, self.output = nn.Linear(features, width), nn.Linear(width, each * classes)
        nn.init.orthogonal_(self.input.weight, gain=1.41)  # as the authors' code has it

    def read(self, inputs: Float[Tensor, "row time feature"], real: Real) -> States:
        """States after the body that answers are read from, in float32."""
        states = self.body(self.input(inputs), real).float()
        if self.positions is not None:
            return states[:, -self.positions :]
        return pooled(states, real)[:, None]

    def answer(self, states: States) -> Float[Tensor, "row answer class"]:
        """Logits of all answers, those of one position beside each other."""
        return self.output(states).reshape(len(states), -1, self.classes)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """What may be trained, by name; each part includes those before it."""
        norms = [each for each in self.modules() if isinstance(each, nn.LayerNorm)]
        named = {"output": [*self.output.parameters()]}
        named["+ norms"] = named["output"] + [w for norm in norms for w in norm.parameters()]
        named["+ input"] = [*named["+ norms"], *self.input.parameters()]
        named["+ positions"] = [*named["+ input"], self.body.positions]
        return named | {"all": [*self.parameters()]}


class BertBody(nn.Module):
    """Layers of a BERT-like encoder of `transformers`; its embeddings' norm and token type stay."""

    def __init__(self, network: nn.Module, layers: int) -> None:
        super().__init__()
        network.encoder.layer = network.encoder.layer[:layers]
        if getattr(network.embeddings, "position_embeddings", None) is None:
            raise UserError("the body has no learnt positions to train; choose one that has")
        network.embeddings.word_embeddings = nn.Identity()
        network.pooler = None
        self.bert = network

    @property
    def positions(self) -> nn.Parameter:
        return self.bert.embeddings.position_embeddings.weight

    def forward(self, vectors: Vectors, real: Real) -> Vectors:
        return self.bert(inputs_embeds=vectors, attention_mask=real.long()).last_hidden_state


class EncoderBody(nn.Module):
    """Layers of our transformer's encoder and its last norm; positions start as sinusoids.

    As its own embeddings, vectors are multiplied by √width, and a bias is added.
    """

    def __init__(self, network: Transformer, layers: int) -> None:
        super().__init__()
        self.layers, self.norm = network.encoder[:layers], network.encoder_norm
        self.bias = network.source.bias
        self.positions = nn.Parameter(network.source.positions.clone())

    def forward(self, vectors: Vectors, real: Real) -> Vectors:
        time, width = vectors.shape[1:]
        states = vectors * width**0.5 + self.bias + self.positions[:time]
        for layer in self.layers:
            states = layer(states, real[:, None, None, :])
        return self.norm(states)
