"""How a tokenizer renders a conversation: by a template, or by Python code."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.actors.engine.pretrained import Code, Pretrained
from headrace.actors.engine.template import ChatTemplate


def renderer_of(pretrained: Pretrained) -> Code:
    """Called with a conversation, `add_generation_prompt` and arguments for the template.

    mlx-lm's own call turns thinking on wherever the vocabulary has marks for it; this leaves that
    to the template.
    """
    if pretrained.code is not None:
        return partial(_by_code, pretrained.code)
    return partial(_by_template, pretrained.tokenizer.apply_chat_template)


def source_of(pretrained: Pretrained, template: ChatTemplate) -> str:
    """The text of the template, of all of them if they are several; what code renders of tools."""
    source = pretrained.tokenizer.chat_template
    if pretrained.code is not None or source is None:
        return template.sample()
    return "\n".join(source.values()) if isinstance(source, dict) else str(source)


def _by_template(apply: Code, conversation: list[dict[str, Any]], **args: Any) -> str:
    """Some templates call the switch by another name than most."""
    if "enable_thinking" in args:
        args = {"thinking": args["enable_thinking"], **args}
    return apply(conversation, tokenize=False, **args)


def _by_code(
    render: Code,
    conversation: list[dict[str, Any]],
    *,
    add_generation_prompt: bool,
    **args: Any,
) -> str:
    """Code refuses arguments that it does not know, and only these are common to all of it."""
    known = {name: args[name] for name in ("tools", "enable_thinking") if name in args}
    return render(conversation, add_generation_prompt=add_generation_prompt, **known)
