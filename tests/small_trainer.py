"""A random model of a few thousand weights and its tokenizer, for trainers; nothing is downloaded."""

from __future__ import annotations

from functools import partial
from typing import Any

WORDS = (
    *("a", "blue", "sky", "is", "the", "colour", "of", "light", "red", "green", "why"),
    *("name", "because", "and", "it", ".", "?", "!", "air", "water", "sun"),
)
ON_A_CPU = {"use_cpu": True, "bf16": False}


def tokenizer() -> Any:
    """Make a tokenizer of few words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", *WORDS]
    held = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    held.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=held, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def model(size: int) -> Any:
    """Make a random model from a configuration."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=size, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=None,
        )
    )  # fmt: skip


def save_model(folder: str) -> None:
    """Write both as a folder that a trainer loads; the docs of hooks need it."""
    words = tokenizer()
    words.save_pretrained(folder)
    model(len(words)).save_pretrained(folder)


def without_a_gpu() -> None:
    """Set TRL's defaults in this process to one short step on the CPU."""
    import trl

    small = {"max_completion_length": 8, "max_steps": 1, "logging_steps": 1, "report_to": [], "save_strategy": "no"}
    trl.GRPOConfig = partial(trl.GRPOConfig, **ON_A_CPU, **small)
