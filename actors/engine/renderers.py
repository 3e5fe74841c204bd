"""How the tokenizer that mlx-lm loads renders a conversation: by a template, or by Python code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from headrace.actors.engine.template import ChatTemplate

Renderer = Callable[..., str]


def renderer_of(tokenizer: TokenizerWrapper) -> Renderer:
    """Called with a conversation, `add_generation_prompt` and arguments for the template.

    mlx-lm's own call turns thinking on wherever the vocabulary has marks for it; what is under it
    leaves that to the template.
    """
    if tokenizer._chat_template is not None:
        return partial(_by_code, tokenizer._chat_template)
    return partial(_by_template, tokenizer._tokenizer.apply_chat_template)


def source_of(tokenizer: TokenizerWrapper, template: ChatTemplate) -> str:
    """The text of the template, of all of them if they are several; what code renders of tools."""
    source = tokenizer.chat_template
    if tokenizer._chat_template is not None or source is None:
        return template.sample()
    return "\n".join(source.values()) if isinstance(source, dict) else str(source)


def _by_template(apply: Renderer, conversation: list[dict[str, Any]], **args: Any) -> str:
    """Some templates call the switch by another name than most."""
    if "enable_thinking" in args:
        args = {"thinking": args["enable_thinking"], **args}
    return apply(conversation, tokenize=False, **args)


def _by_code(
    render: Renderer,
    conversation: list[dict[str, Any]],
    *,
    add_generation_prompt: bool,
    **args: Any,
) -> str:
    """Code refuses arguments that it does not know, and only these are common to all of it."""
    known = {name: args[name] for name in ("tools", "enable_thinking") if name in args}
    return render(conversation, add_generation_prompt=add_generation_prompt, **known)
