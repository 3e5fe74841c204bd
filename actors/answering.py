"""How a request's prompt is built and how its answers are to be read. Runs on the text thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from headrace.actors import tool_turns
from headrace.actors.choice import Pipeline, ThoughtLimit
from headrace.actors.dialect import Dialect, Marked, marked_by
from headrace.actors.echo import Echo
from headrace.actors.grammar.answer import AnswerForm, answer_form
from headrace.actors.prompting import merge_turns
from headrace.actors.text.answer_pipeline import AnswerPipeline
from headrace.actors.text.markup import TaggedMarkup
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.pipeline import TextPipeline
from headrace.actors.text.reasoning import Start
from headrace.actors.thinking import template_arguments, wants_thinking
from headrace.runtime.contracts import (
    InferenceRequest,
    Message,
    Prompt,
    Sampling,
    ToolUse,
    Warning_,
)
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import RowMask, Tokenizer


@attrs.frozen
class Built:
    """A prompt that is ready, with one pipeline for each answer to it."""

    tokens: tuple[int, ...]
    sampling: Sampling
    pipelines: tuple[Pipeline, ...]
    mask: RowMask | None = None
    # The answer ends after so many tool calls; None: it may go on.
    max_calls: int | None = None
    thought_limit: ThoughtLimit | None = None
    # What is told of the prompt before the answer.
    echo: Echo | None = None
    # What is served differently from what was asked.
    warnings: tuple[Warning_, ...] = ()


@attrs.frozen
class Reading:
    """How the answers to one prompt are read. `tools` are the arguments' schemas by name, `form`
    is what the answers are held to."""

    marked: Marked | None = None
    start: Start = "after"
    tools: Mapping[str, Any] = attrs.field(factory=dict)
    form: AnswerForm | None = None

    @property
    def shown(self) -> frozenset[int]:
        return frozenset() if self.marked is None else self.marked.shown

    def parser(self) -> AnswerParser | None:
        """None where nothing but text can come."""
        if self.marked is None or (
            self.start == "after"
            and not self.tools
            and isinstance(self.marked.markup, TaggedMarkup)
        ):
            return None
        return AnswerParser(self.marked.markup, self.tools, self.start)


class Answering:
    """What one model's prompts and answers are made of."""

    def __init__(self, tokenizer: Tokenizer, defaults: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._defaults = defaults
        self._dialect = Dialect.of(tokenizer)

    def build(self, request: InferenceRequest) -> Built:
        """Raises `RequestError`: what is wrong with the prompt, or with what is asked for it."""
        self._check_biases(request.sampling)
        if request.prompt.messages is None:
            tokens = self._tokenizer.build(request.prompt)
            reading = Reading(form=self._form(request, None, None, "after"))
        else:
            tokens, reading = self._conversation(request)
        echo = Echo.of(request.prompt, tokens, self._tokenizer) if request.echo else None
        pipelines = tuple(self._pipeline(request, reading, echo) for _ in range(request.n))
        single = request.tools is not None and not request.tools.parallel
        return Built(
            tokens,
            self._sampling(request),
            pipelines,
            mask=None if reading.form is None else self._tokenizer.compile(reading.form.grammar),
            max_calls=1 if single else None,
            thought_limit=self._thought_limit(request, reading),
            echo=echo,
            warnings=_unenforced(reading.form),
        )

    def _check_biases(self, sampling: Sampling) -> None:
        size = self._tokenizer.vocab_size
        wrong = next((token for token, _ in sampling.logit_bias if not 0 <= token < size), None)
        if wrong is not None:
            text = f"logit_bias: {wrong} is outside the vocabulary of {size} tokens."
            raise RequestError(Code.INVALID_TOKEN_ID, text, param=f"logit_bias.{wrong}")

    def _form(
        self, request: InferenceRequest, use: ToolUse | None, marked: Marked | None, start: Start
    ) -> AnswerForm | None:
        if request.constraint is None and use is None:
            return None
        markup = None if marked is None else marked.markup
        return answer_form(request.constraint, use, markup, start, self._tokenizer.special)

    def _sampling(self, request: InferenceRequest) -> Sampling:
        """What the client set, else what the model's makers advise."""
        advised = {
            name: value for name, value in self._defaults.items() if name not in request.given
        }
        return attrs.evolve(request.sampling, **advised)

    def _conversation(self, request: InferenceRequest) -> tuple[tuple[int, ...], Reading]:
        use = request.tools
        if use is not None and use.choice == "none":
            use = None
        prompt, tools = self._prompt(request, use)
        text = self._tokenizer.render(prompt, tools)
        marked = self._dialect.plain if use is None else self._dialect.calling
        if marked is None:
            form = self._form(request, use, None, "after")
            return self._tokenizer.encode(text), Reading(form=form)
        begun = _begun(prompt)
        start = marked.markup.start(text, begun)
        if start == "inside" and not begun and _without_thoughts(request):
            # The template opens the block whatever it is told.
            text, start = text + marked.markup.closing, "after"
        elif start == "before" and wants_thinking(request) is False:
            start = "after"
        form = self._form(request, use, marked, start)
        if form is not None and form.markup is not None:
            # What it is held to may be written in another way than the model's own.
            marked = marked_by(form.markup, self._tokenizer)
        return self._tokenizer.encode(text), Reading(marked, start, _callable(use), form)

    def _prompt(
        self, request: InferenceRequest, use: ToolUse | None
    ) -> tuple[Prompt, list[dict[str, Any]]]:
        """The prompt in the form that the template takes, and the tools that it is to show."""
        messages = request.prompt.messages or ()
        tools: list[dict[str, Any]] = []
        if self._dialect.described:
            messages = tool_turns.written_out(messages)
            if use is not None:
                messages = (*messages, tool_turns.described(use.tools))
        else:
            traits = self._tokenizer.traits
            messages = tool_turns.arranged(messages, traits)
            tools = [] if use is None else tool_turns.offered(use.tools)
            if tools and traits.tools_beside_system:
                messages = (*messages, Message("system", ""))
        args = template_arguments(request)
        return attrs.evolve(request.prompt, messages=messages, template_args=args), tools

    def _pipeline(self, request: InferenceRequest, reading: Reading, echo: Echo | None) -> Pipeline:
        """The plainest one that will do: most rows have neither markup nor scores."""
        prompt = request.prompt
        if reading.form is not None:
            # The grammar has said which spaces there are, the first one included.
            prompt = attrs.evolve(prompt, continue_final=True)
        decoder = self._tokenizer.decoder(prompt, reading.shown)
        for token in () if echo is None else echo.held:
            decoder.add(token)
        parser = reading.parser()
        if parser is None and request.logprobs is None:
            return TextPipeline(decoder, request.stop)
        token_bytes = None if request.logprobs is None else self._token_bytes(reading.shown)
        return AnswerPipeline(decoder, request.stop, parser, token_bytes=token_bytes)

    def _thought_limit(self, request: InferenceRequest, reading: Reading) -> ThoughtLimit | None:
        tokens = request.thinking.budget_tokens
        if tokens is None or reading.marked is None or reading.start == "after":
            return None
        markup = reading.marked.markup
        closing = markup.closing if reading.form is None else markup.ending
        return ThoughtLimit(tokens, self._tokenizer.encode(closing)) if closing else None

    def _token_bytes(self, shown: frozenset[int]) -> Callable[[int], bytes]:
        """The bytes of a token where these special tokens are shown as their text."""
        special = self._tokenizer.special_tokens.items()
        texts = {number: text.encode() for text, number in special if number in shown}
        plain = self._tokenizer.token_bytes
        return lambda token: texts.get(token) or plain(token)


def _unenforced(form: AnswerForm | None) -> tuple[Warning_, ...]:
    if form is None or not form.unenforced:
        return ()
    keywords = ", ".join(sorted({part.keyword for part in form.unenforced}))
    text = f"not enforced in the arguments of tools: {keywords}"
    return (Warning_("schema_not_enforced", text, "tools"),)


def _callable(use: ToolUse | None) -> dict[str, Any]:
    """The schemas of the tools that an answer may call."""
    if use is None:
        return {}
    return {
        tool.name: tool.parameters or {}
        for tool in use.tools
        if not use.named or tool.name in use.named
    }


def _begun(prompt: Prompt) -> str:
    """What the prompt already holds of the answer."""
    turns = merge_turns(prompt.messages or ())
    return turns[-1].content if prompt.continue_final and turns else ""


def _without_thoughts(request: InferenceRequest) -> bool:
    return wants_thinking(request) is False or request.thinking.budget_tokens == 0
