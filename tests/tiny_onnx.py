"""A tiny DINOv2, and as an ONNX file laid out as PyTorch's exporter does."""

from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

from headbook.released.vision import message

SIZE = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 2, "mlp_ratio": 2}


def dinov2(**options: object) -> transformers.Dinov2Model:
    torch.manual_seed(5)
    config = transformers.Dinov2Config(**SIZE, image_size=42, patch_size=14, **options)
    model = transformers.Dinov2Model(config).eval()
    with torch.no_grad():  # drawn small, and biases are zero
        for weight in model.parameters():
            weight.copy_(0.2 * torch.randn_like(weight))
    return model


def write(model: transformers.Dinov2Model, file: Path, leave_out: str = "") -> None:
    """Matrices transposed and without their names, which the nodes that multiply by them have;
    positions in two parts, and a decoder behind the model."""
    model.save_pretrained(file.parent)
    whole, graph = message("Model")(), None
    graph = whole.graph
    for name, weight in load_file(file.parent / "model.safetensors").items():
        module, _, kind = name.rpartition(".")
        if name == "embeddings.mask_token" or (leave_out and leave_out in name):
            continue
        if name == "embeddings.position_embeddings":
            _add(graph, "onnx::Concat_1", weight[:, :1])
            _add(graph, "onnx::Reshape_2", weight[:, 1:])
        elif kind == "weight" and weight.ndim == 2:
            number = f"onnx::MatMul_{len(graph.initializer)}"
            _add(graph, number, weight.T)
            path = module.replace("encoder.layer.", "encoder/layer#").replace(".", "/")
            node = graph.node.add(name=f"/backbone/{path.replace('#', '.')}/MatMul")
            node.input.extend(["what it reads", number])
        else:
            _add(graph, f"backbone.{name}", weight)
    _add(graph, "decoder.bias", torch.ones(4))
    file.write_bytes(whole.SerializeToString())


def _add(graph: object, name: str, weight: torch.Tensor) -> None:
    graph.initializer.add(
        name=name, dims=weight.shape, raw_data=weight.contiguous().numpy().tobytes()
    )
