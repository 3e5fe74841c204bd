"""What is read of a tokenizer is what mlx-lm's own loader makes of the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load_tokenizer

from headrace.actors.engine.pretrained import read_pretrained

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLS = "{{ '<tool_call>' }}{{ tool_call.name }}"
TEXT = "the cat\nsat <n> on a mat. Ünï 日本 <|im_end|>"
SETTINGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a template": {"chat_template": CHATML},
    "a template with calls": {"chat_template": CALLS},
    "calls by name": {"chat_template": CHATML, "tool_parser_type": "pythonic"},
    "a renderer by name": {"chat_template_type": "deepseek_v32"},
    "a class of mlx-lm's own": {"tokenizer_class": "NewlineTokenizer"},
    "a begin token": {"add_bos_token": True},
}


@pytest.mark.parametrize("kind", ["byte level", "byte fallback, stripped", "metaspace"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_it_is_what_mlx_lm_reads(tokenizer_folder: Any, kind: str, settings: str) -> None:
    folder = tokenizer_folder(kind, **SETTINGS[settings])
    ours, theirs = read_pretrained(folder), load_tokenizer(folder)
    assert type(ours.tokenizer) is type(theirs._tokenizer)
    assert ours.vocabulary == theirs.get_vocab()
    assert ours.end_tokens == theirs.eos_token_ids
    assert ours.code is theirs._chat_template
    assert ours.calls == theirs.init_kwargs.get("tool_parser_type")
    assert ours.has_chat_template == theirs.has_chat_template
    tokens = ours.tokenizer.encode(TEXT)
    assert tokens == theirs.encode(TEXT)
    assert ours.tokenizer.decode(tokens) == theirs.decode(tokens)


def test_a_family_has_end_tokens_and_calls_of_its_own(tokenizer_folder: Any) -> None:
    folder: Path = tokenizer_folder(chat_template=CHATML)
    (folder / "config.json").write_text(json.dumps({"model_type": "muse_spark"}))
    ours, theirs = read_pretrained(folder), load_tokenizer(folder)
    assert len(ours.end_tokens) == 3
    assert ours.end_tokens == theirs.eos_token_ids
    assert ours.code is theirs._chat_template is None
    assert ours.calls == theirs.init_kwargs["tool_parser_type"] == "muse_spark"


@pytest.mark.parametrize("setting", ["tool_parser_type", "chat_template_type"])
def test_an_unknown_form_is_found_at_once(tokenizer_folder: Any, setting: str) -> None:
    with pytest.raises(ImportError):
        read_pretrained(tokenizer_folder(**{setting: "nosuch"}))
