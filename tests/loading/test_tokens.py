"""A prompt becomes exactly the tokens of what its template renders, or a short refusal."""

from __future__ import annotations

import concurrent.futures
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from headrace.actors.engine.tokens import TextTokenizer
from headrace.runtime.contracts import Message, Prompt
from headrace.runtime.errors import Code, RequestError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMMING = CHATML.replace("message.content", "message.content | trim")
STRICT = (
    "{% for message in messages %}"
    "{% if message.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    "{% if not loop.first and message.role == messages[loop.index0 - 1].role %}"
    "{{ raise_exception('Roles must alternate.') }}{% endif %}"
    "{% endfor %}" + CHATML
)
REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + CHATML
)
IGNORES_SYSTEM = CHATML.replace("in messages", "in messages if message.role != 'system'")
HI = Message("user", "Hi")


@pytest.fixture
def tokenizer_with(tokenizer_folder: Any) -> Any:
    """A tokenizer of the usual kind with the given template or other settings."""

    def make(template: str | None = CHATML, kind: str = "byte level", **config: Any) -> Any:
        settings = {**config, **({"chat_template": template} if template is not None else {})}
        return TextTokenizer.read(tokenizer_folder(kind, **settings))

    return make


def built(tokenizer: TextTokenizer, *messages: Message, **prompt: Any) -> str:
    """The rendered text behind the tokens, special tokens included."""
    tokens = tokenizer.build(Prompt(messages=messages, **prompt))
    return str(tokenizer._tokenizer.decode(tokens, skip_special_tokens=False))


def refusal(tokenizer: TextTokenizer, prompt: Prompt) -> RequestError:
    with pytest.raises(RequestError) as caught:
        tokenizer.build(prompt)
    return caught.value


# ---- messages -----------------------------------------------------------------------------


def test_messages_are_rendered_and_the_answer_is_opened(tokenizer_with: Any) -> None:
    text = built(tokenizer_with(), Message("system", "Be brief."), HI)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_special_tokens_of_the_template_are_single_tokens(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with()
    tokens = tokenizer.build(Prompt(messages=(HI,)))
    assert tokens.count(tokenizer._vocabulary["<|im_start|>"]) == 2


def test_a_template_that_begins_with_the_begin_token_gets_no_second_one(
    tokenizer_with: Any,
) -> None:
    tokenizer = tokenizer_with("{{ bos_token }}{{ messages[0].content }}", "byte fallback")
    begin = tokenizer._vocabulary["<s>"]
    assert tokenizer.build(Prompt(messages=(HI,))).count(begin) == 1


def test_a_strict_template_takes_a_late_system_message_j3_j4(tokenizer_with: Any) -> None:
    late = (Message("system", "a"), HI, Message("assistant", "x"), Message("system", "b"), HI, HI)
    assert built(tokenizer_with(STRICT), *late).startswith(
        "<|im_start|>system\na\n\nb<|im_end|>\n<|im_start|>user\nHi<|im_end|>"
    )


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, IGNORES_SYSTEM], ids=["raises", "ignores"])
def test_without_a_system_role_its_text_opens_the_users_turn(
    tokenizer_with: Any, template: str
) -> None:
    text = built(tokenizer_with(template), Message("system", "Be brief."), HI)
    assert text == "<|im_start|>user\nBe brief.\n\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_the_template_sees_reasoning_calls_and_results(tokenizer_with: Any) -> None:
    calls = ({"type": "function", "function": {"name": "add", "arguments": {"a": 1}}},)
    conversation = (
        HI,
        Message("assistant", "", reasoning="hm", tool_calls=calls),
        Message("tool", "2", tool_call_id="c1", name="add"),
    )
    template = "{% for m in messages %}{{ m | tojson }}\n{% endfor %}"
    lines = [
        json.loads(line) for line in built(tokenizer_with(template), *conversation).splitlines()
    ]
    assert lines[0] == {"role": "user", "content": "Hi"}
    assert lines[1]["content"] == ""
    assert lines[1]["reasoning_content"] == "hm"
    assert lines[1]["tool_calls"] == list(calls)
    assert lines[2]["tool_call_id"] == "c1"


def test_arguments_go_to_the_template(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with("{{ messages[0].content }}{{ mood }}")
    assert built(tokenizer, HI, template_args={"mood": " sadly"}) == "Hi sadly"


@pytest.mark.parametrize("name", ["messages", "tokenize", "add_generation_prompt", "chat_template"])
def test_arguments_of_the_renderer_are_refused(tokenizer_with: Any, name: str) -> None:
    error = refusal(tokenizer_with(), Prompt(messages=(HI,), template_args={name: True}))
    assert error.code is Code.INVALID_VALUE
    assert error.info.param == f"chat_template_kwargs.{name}"


# ---- an answer that is continued -----------------------------------------------------------


@pytest.mark.parametrize("template", [CHATML, TRIMMING], ids=["plain", "trimming"])
@pytest.mark.parametrize("begun", ["1\n2\n3\n", "", " the ", "{{ x }} 日本"])
def test_the_last_message_is_left_open_as_it_was_written(
    tokenizer_with: Any, template: str, begun: str
) -> None:
    text = built(tokenizer_with(template), HI, Message("assistant", begun), continue_final=True)
    head, _, tail = text.partition("<|im_start|>assistant\n")
    assert head == "<|im_start|>user\nHi<|im_end|>\n"
    assert tail == (begun.lstrip() if template is TRIMMING else begun)


def test_without_continuing_the_message_is_closed(tokenizer_with: Any) -> None:
    text = built(tokenizer_with(), HI, Message("assistant", "1\n"))
    assert text.endswith("assistant\n1\n<|im_end|>\n<|im_start|>assistant\n")


def test_what_is_not_shown_cannot_be_continued(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with("{{ messages[0].content }}")
    prompt = Prompt(messages=(HI, Message("assistant", "x")), continue_final=True)
    assert refusal(tokenizer, prompt).code is Code.TEMPLATE_ERROR


@pytest.mark.parametrize(
    "last", [HI, Message("assistant", "x", tool_calls=({"function": {"name": "f"}},))]
)
def test_only_an_assistants_plain_text_is_continued(tokenizer_with: Any, last: Message) -> None:
    error = refusal(tokenizer_with(), Prompt(messages=(HI, last), continue_final=True))
    assert (error.code, error.info.param) == (Code.INVALID_VALUE, "continue_final_message")


# ---- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('Only odd days.') }}", "Only odd days."),
        ("{{ raise_exception('one\\ntwo') }}", "one"),
        ("{{ raise_exception('') }}", "no reason given"),
        ("{{ messages[0].content + 1 }}", "it could not be rendered"),
        ("{{ missing.field }}", "'missing' is undefined"),
        ("{% if %}", "Expected an expression, got 'end of statement block'"),
        ("{% for message in messages %}{% endfor %}", "it renders nothing"),
    ],
    ids=["own words", "first line", "silent", "type error", "undefined", "syntax", "empty"],
)
def test_a_template_that_refuses_says_why_in_its_own_words_j6(
    tokenizer_with: Any, template: str, reason: str
) -> None:
    error = refusal(tokenizer_with(template), Prompt(messages=(HI,)))
    assert (error.code, error.info.param) == (Code.TEMPLATE_ERROR, "messages")
    assert error.info.message.endswith(f": {reason}")


def test_a_reason_is_short(tokenizer_with: Any) -> None:
    template = "{{ raise_exception('x' * 5000) }}"
    error = refusal(tokenizer_with(template), Prompt(messages=(HI,)))
    assert len(error.info.message) < 300


def test_without_a_template_messages_are_refused_and_text_is_not(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(None)
    assert not tokenizer.has_chat_template
    assert refusal(tokenizer, Prompt(messages=(HI,))).code is Code.UNSUPPORTED_CAPABILITY
    assert tokenizer.build(Prompt(text="the cat"))


# ---- text and tokens ----------------------------------------------------------------------


def test_text_gets_the_begin_token_once_and_never_an_end_token(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(None, "byte fallback")
    begin = tokenizer._vocabulary["<s>"]
    plain = tokenizer.build(Prompt(text=" the"))
    assert plain[0] == begin
    assert tokenizer.build(Prompt(text="<s> the")) == plain


def test_text_gets_nothing_where_the_tokenizer_adds_nothing(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with()
    text = "a , b .\n  ďábel"
    decoder = tokenizer.decoder(Prompt(text=text))
    tokens = tokenizer.build(Prompt(text=text))
    assert "".join(map(decoder.add, tokens)) + decoder.flush() == text


@pytest.mark.parametrize(
    ("kind", "token"),
    [("byte level", "<|endoftext|>"), ("byte fallback", "<s>"), ("metaspace", "<s>")],
)
def test_no_text_is_the_begin_of_a_document(tokenizer_with: Any, kind: str, token: str) -> None:
    tokenizer = tokenizer_with(None, kind)
    assert tokenizer.build(Prompt(text="")) == (tokenizer._vocabulary[token],)


def test_tokens_are_taken_as_they_are(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with()
    tokens = (0, tokenizer.vocab_size - 1, 5)
    assert tokenizer.build(Prompt(tokens=tokens)) == tokens


@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_a_token_outside_the_vocabulary_is_named(tokenizer_with: Any, wrong: int) -> None:
    error = refusal(tokenizer_with(), Prompt(tokens=(1, wrong, 2)))
    assert (error.code, error.info.param) == (Code.INVALID_TOKEN_ID, "prompt[1]")
    assert str(wrong) in error.info.message


def test_a_model_with_fewer_rows_than_its_tokenizer_has_tokens_bounds_the_vocabulary(
    tokenizer_kinds: dict[str, Path],
) -> None:
    tokenizer = TextTokenizer.read(tokenizer_kinds["byte level"], vocab_size=300)
    assert refusal(tokenizer, Prompt(tokens=(300,))).code is Code.INVALID_TOKEN_ID
    assert refusal(tokenizer, Prompt(text="日本")).code is Code.INVALID_TOKEN_ID


def test_a_prompt_of_no_tokens_is_refused(tokenizer_with: Any) -> None:
    assert refusal(tokenizer_with(), Prompt(tokens=())).code is Code.INVALID_VALUE


def test_a_prompt_longer_than_the_tokenizer_expects_stays_whole_k2(tokenizer_folder: Any) -> None:
    folder = tokenizer_folder(model_max_length=16)
    file = str(folder / "tokenizer.json")
    shortening = Tokenizer.from_file(file)
    shortening.enable_truncation(16)
    shortening.save(file)
    tokenizer = TextTokenizer.read(folder)
    text = "the cat sat on the mat, " * 50
    assert tokenizer._decode(tokenizer.build(Prompt(text=text))) == text


# ---- the rest -----------------------------------------------------------------------------


def test_end_tokens_are_the_tokenizers_and_the_given_ones(
    tokenizer_kinds: dict[str, Path],
) -> None:
    tokenizer = TextTokenizer.read(tokenizer_kinds["byte level"], end_tokens=[0, 7])
    assert tokenizer.end_tokens == {0, 7, tokenizer._vocabulary["<|im_end|>"]}


def test_another_thread_builds_the_same_prompt(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with()
    prompt = Prompt(messages=(Message("system", "Be brief."), HI))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(tokenizer.build, prompt).result() == tokenizer.build(prompt)
