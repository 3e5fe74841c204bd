"""What a template makes of tools is found out by trying it, and every format has its parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.actors.engine.call_parsers import NAMES, call_parser
from headrace.actors.engine.tokens import TextTokenizer
from headrace.actors.text.choice import choose_calls
from headrace.actors.text.formats import CALL_FORMATS
from headrace.runtime.contracts import Message, Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import TemplateTraits
from headrace.runtime.testing.templates import HERMES, PLAIN, TEMPLATES, THINKING

HI = Message("user", "Hi")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "now", "description": "", "parameters": {"type": "object"}},
}


@pytest.fixture
def tokenizer_with(tokenizer_folder: Any) -> Callable[..., TextTokenizer]:
    def make(template: Any, **config: Any) -> TextTokenizer:
        settings = {"chat_template": template, **config}
        return TextTokenizer.read(tokenizer_folder("byte level", **settings))

    return make


@pytest.mark.parametrize(
    ("style", "traits"),
    [
        ("plain", TemplateTraits()),
        ("strict", TemplateTraits()),
        ("hermes", TemplateTraits(tools=True, calls=True)),
        ("harmony", TemplateTraits(tools=True, calls=True)),
        ("opens thinking", TemplateTraits(calls=True, arguments="text")),
        ("one call", TemplateTraits(tools=True, calls=True, several_calls=False)),
        (
            "short ids",
            TemplateTraits(tools=True, calls=True, short_ids=True, said_after_results=""),
        ),
        ("tagged", TemplateTraits(tools=True, calls=True, arguments="object")),
    ],
)
def test_what_each_style_of_template_takes(
    tokenizer_with: Any, style: str, traits: TemplateTraits
) -> None:
    assert tokenizer_with(TEMPLATES[style]).traits == traits


@pytest.mark.parametrize(
    "template",
    [
        # A mapping is printed in Python's way, so text it must be.
        HERMES.replace("| tojson }}{% endif %}}", "}}{% endif %}}"),
        # What is text is joined, anything else is an error.
        HERMES.replace(
            "{{ call.function.arguments | tojson }}", "{{ '' + call.function.arguments }}"
        ),
    ],
    ids=["misprints", "joins"],
)
def test_a_template_that_can_print_text_only_gets_text(tokenizer_with: Any, template: str) -> None:
    assert tokenizer_with(template).traits.arguments == "text"


def test_a_template_may_want_more_than_an_empty_word_between_a_result_and_the_user(
    tokenizer_with: Any,
) -> None:
    wordless = "{{ raise_exception('Say something!') if not m.content }}{{ m.content }}</s>"
    template = TEMPLATES["short ids"].replace("{{ m.content }}</s>", wordless)
    assert tokenizer_with(template).traits.said_after_results == "OK."


def test_a_template_that_leaves_results_out_shows_no_calls(tokenizer_with: Any) -> None:
    traits = tokenizer_with(
        HERMES.replace("if m.role != 'system'", "if m.role in 'user assistant'")
    )
    assert traits.traits == TemplateTraits(tools=True)


@pytest.mark.parametrize("template", ["{{ raise_exception('No.') }}", "{% if %}"])
def test_a_template_that_always_refuses_takes_nothing(tokenizer_with: Any, template: str) -> None:
    assert tokenizer_with(template).traits == TemplateTraits()


def test_without_a_template_there_are_no_traits(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(None)
    assert (tokenizer.traits, tokenizer.template) == (TemplateTraits(), "")


# ---- rendering ----------------------------------------------------------------------------


def test_tools_reach_the_template(tokenizer_with: Any) -> None:
    text = tokenizer_with(HERMES).render(Prompt(messages=(HI,)), [TOOL])
    assert '<tools>\n{"type": "function", "function": {"name": "now"' in text


def test_of_several_templates_the_one_for_tools_is_used_with_tools(tokenizer_with: Any) -> None:
    named = [
        {"name": "default", "template": PLAIN},
        {"name": "tool_use", "template": HERMES},
    ]
    tokenizer = tokenizer_with(named)
    assert "<tools>" in tokenizer.render(Prompt(messages=(HI,)), [TOOL])
    assert "<tools>" not in tokenizer.render(Prompt(messages=(HI,)))
    assert tokenizer.traits.tools
    assert choose_calls(tokenizer.template, tokenizer.has_token) == "json_tools"


def test_thinking_is_the_templates_own_affair_unless_somebody_says(tokenizer_folder: Any) -> None:
    """mlx-lm would switch it on, as the vocabulary has tokens for it."""
    template = (
        "{{ messages[0].content }} {{ enable_thinking is defined }} {{ thinking is defined }}"
    )
    folder = tokenizer_folder("byte level", chat_template=template)
    with_tokens(folder, "<think>", "</think>")
    tokenizer = TextTokenizer.read(folder)
    assert tokenizer.has_token("<think>")
    assert tokenizer.render(Prompt(messages=(HI,))) == "Hi False False"
    said = Prompt(messages=(HI,), template_args={"enable_thinking": False})
    assert tokenizer.render(said) == "Hi True True"


def test_a_template_in_python_gets_what_it_knows(tokenizer_with: Any) -> None:
    """DeepSeek's, which mlx-lm has as code; what it renders stands for its source."""
    tokenizer = tokenizer_with(None, chat_template_type="deepseek_v32")
    assert tokenizer.traits.tools
    assert tokenizer.traits.tools_beside_system
    assert choose_calls(tokenizer.template, tokenizer.has_token) == "deepseek_dsml"
    args = {"enable_thinking": False, "reasoning_effort": "high"}
    messages = (Message("system", ""), HI)
    text = tokenizer.render(Prompt(messages=messages, template_args=args), [TOOL])
    assert '"name": "now"' in text
    assert text.endswith("</think>")
    assert tokenizer.render(Prompt(messages=(HI,))).endswith("<think>")


@pytest.mark.parametrize("name", ["conversation", "tools"])
def test_tools_do_not_come_in_as_an_argument(tokenizer_with: Any, name: str) -> None:
    prompt = Prompt(messages=(HI,), template_args={name: []})
    with pytest.raises(RequestError) as caught:
        tokenizer_with(PLAIN).render(prompt)
    assert caught.value.code is Code.INVALID_VALUE


def test_an_argument_never_changes_how_it_is_rendered(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(PLAIN)
    prompt = Prompt(messages=(HI,), template_args={"opens_answer": False, "args": {}})
    assert tokenizer.render(prompt) == tokenizer.render(Prompt(messages=(HI,)))


# ---- formats ------------------------------------------------------------------------------


def test_what_the_models_settings_declare_is_told(tokenizer_with: Any) -> None:
    assert tokenizer_with(PLAIN, tool_parser_type="pythonic").declared_calls == "pythonic"
    assert tokenizer_with(PLAIN).declared_calls is None


def test_what_mlx_lm_tells_from_the_template_counts_as_declared(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(THINKING.replace("call.function.name", "tool_call.name"))
    assert tokenizer.declared_calls == choose_calls(tokenizer.template, tokenizer.has_token)


def test_every_format_that_can_be_chosen_has_a_reader() -> None:
    for name in {"pythonic", "minicpm5", "kimi_k3", *NAMES} - CALL_FORMATS.keys():
        parser = call_parser(name)
        assert parser is not None
        assert parser.opener
        assert parser.closer


@pytest.mark.parametrize("name", ["llama3", "..utils", "", "json_tools.x"])
def test_there_is_no_parser_by_any_other_name(name: str) -> None:
    assert call_parser(name) is None


def test_a_parser_reads_what_stands_between_its_marks() -> None:
    parser = call_parser("pythonic")
    assert parser is not None
    assert parser.parse("[now(zone='UTC')]", [TOOL]) == {
        "name": "now",
        "arguments": {"zone": "UTC"},
    }


def with_tokens(folder: Any, *texts: str) -> None:
    """Add special tokens to the tokenizer in a folder."""
    from tokenizers import Tokenizer

    file = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    tokenizer.add_special_tokens(list(texts))
    tokenizer.save(file)
