"""Tiny random models of `transformers`, as saved folders."""

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SIZE = {"vocab_size": 400, "max_position_embeddings": 80}
BERT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
DECODER = SIZE | IDS | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
DECODER |= {"intermediate_size": 16}
GROUPED = DECODER | {"num_key_value_heads": 3, "head_dim": 4}


def built(architecture: str, **config: object) -> transformers.PreTrainedModel:
    """All its parameters are random: as the library starts them, heads are nearly uniform, biases
    zero and norms one."""
    torch.manual_seed(7)
    known = getattr(transformers, architecture)
    model = known(known.config_class(**config)).eval()
    for each in model.parameters():
        each.data += 0.25 * torch.randn_like(each)
    return model


def bert() -> transformers.PreTrainedModel:
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZE, **BERT, pad_token_id=0))


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=400, n_positions=80, n_embd=8, n_layer=2, n_head=2, **IDS
    )
    return transformers.GPT2LMHeadModel(config)


def bart() -> transformers.PreTrainedModel:
    config = transformers.BartConfig(
        **SIZE, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, **IDS,
        decoder_start_token_id=1, forced_eos_token_id=1,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


def save(model: transformers.PreTrainedModel, sentences: Sequence[str], folder: Path) -> None:
    """With a tokenizer of words between spaces and an end-of-sentence token."""
    words = sorted({word for sentence in sentences for word in sentence.split()})
    vocabulary = {name: at for at, name in enumerate(["<pad>", "</s>", "<unk>", "<mask>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>",
        mask_token="<mask>", model_max_length=80,
    ).save_pretrained(folder)  # fmt: skip
