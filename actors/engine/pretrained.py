"""A tokenizer as transformers reads it, with what mlx-lm knows of its family.

mlx-lm's own loader also makes a table for its own detokenizer and asks for the vocabulary again
and again, which takes twice as long as the reading.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import attrs
from mlx_lm.tokenizer_utils import _infer_tool_parser
from mlx_lm.utils import _tokenizer_defaults
from transformers import AutoTokenizer, PreTrainedTokenizerBase

# Renders a conversation.
Code: TypeAlias = Callable[..., str]


@attrs.frozen
class Pretrained:
    """`code` renders conversations in the place of a template. `calls` is mlx-lm's name for the
    form of tool calls: as the tokenizer's settings have it, or told from the template."""

    tokenizer: Any
    vocabulary: Mapping[str, int]
    end_tokens: frozenset[int]
    code: Code | None = None
    calls: str | None = None

    @property
    def has_chat_template(self) -> bool:
        tokenizer = self.tokenizer
        own = type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template
        return own or self.code is not None or tokenizer.chat_template is not None


def read_pretrained(folder: Path) -> Pretrained:
    """From a model folder. Code that comes with a tokenizer is never run. Raises whatever there is
    to say of broken files, and ImportError for a form of calls or a renderer that is not known."""
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    vocabulary = tokenizer.get_vocab()
    defaults = _tokenizer_defaults(folder) or {}
    return Pretrained(
        tokenizer,
        vocabulary,
        _end_tokens(tokenizer, defaults),
        _code(tokenizer, defaults),
        _calls(tokenizer, vocabulary, defaults),
    )


def _end_tokens(tokenizer: Any, defaults: Mapping[str, Any]) -> frozenset[int]:
    named = defaults.get("eos_token_ids") or ()
    own = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
    return frozenset([named] if isinstance(named, int) else named) | frozenset(own)


def _code(tokenizer: Any, defaults: Mapping[str, Any]) -> Code | None:
    """A template in the folder counts for more than what is usual in the family."""
    stated = tokenizer.init_kwargs.get("chat_template_type")
    name = stated or (tokenizer.chat_template is None and defaults.get("chat_template_type"))
    if not name:
        return None
    code: Code = importlib.import_module(f"mlx_lm.chat_templates.{name}").apply_chat_template
    return code


def _calls(
    tokenizer: Any, vocabulary: Mapping[str, int], defaults: Mapping[str, Any]
) -> str | None:
    name = tokenizer.init_kwargs.get("tool_parser_type") or defaults.get("tool_parser_type")
    if name is None:
        asked = SimpleNamespace(chat_template=tokenizer.chat_template, get_vocab=lambda: vocabulary)
        name = _infer_tool_parser(asked)
    if name is not None:
        importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    return name if isinstance(name, str) else None
