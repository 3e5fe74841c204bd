"""Every situation of this list has a test that names it.

The list is of what users of inference servers have met, by the ids that its cases have: how clients
leave, what fails and what memory holds (A to E), what a request may ask for (F to P), and who may
ask how much (Q). A test names its cases at the end of its name (`..._h6`), or in its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

CASES = {
    "A1": "the client hangs up while a plain answer is being computed",
    "A2": "the client hangs up while its long prompt is still being read in",
    "A3": "a broken pipe in one stream takes the whole server down",
    "A4": "a row is taken out in the middle of a step",
    "A5": "a cancel during a long prefill touches device arrays from the wrong thread",
    "A6": "each hang-up sometimes keeps a batch slot",
    "A7": "after a TCP reset the row is gone but its KV memory is not",
    "A8": "the status page shows requests that left long ago",
    "A9": "one stream leaves and the batch around it breaks",
    "A10": "the cancel is lost on the way to the engine's process",
    "A11": "a proxy in front loses its client and the leg behind it stays open",
    "B1": "an exception ends the generation loop and every request hangs",
    "B2": "a row with a penalty joins rows without one",
    "B3": "a step that never ends",
    "B4": "after a very long prompt decoding never begins",
    "B5": "something accumulates with every request",
    "B6": "requests that carry tools sometimes never start",
    "B7": "a device error aborts the process",
    "B8": "two first requests meet on a cold server",
    "B9": "SIGTERM waits for open streams",
    "B10": "a dead child is noticed only when the next request comes",
    "C1": "an agent's conversation grows until the machine runs out",
    "C2": "the working memory of a prefill is not counted",
    "C3": "the footprint grows over days",
    "C4": "memory stands above what the cache may hold",
    "C5": "freed bytes are counted twice",
    "C6": "buffers of a prefill that was given up stay",
    "C7": "cached prefixes are never given back",
    "C8": "lazy bookkeeping grows with each decode step",
    "D1": "two models that do not fit together both load",
    "D2": "an unknown name lands on the main model",
    "D3": "a request during an unload gets the dying engine",
    "D4": "an unload with a stream open leaves it for ever",
    "D5": "while one model loads, the loaded one stalls",
    "D6": "the new model is loaded before the idle one is dropped",
    "D7": "several requests for an unloaded model start several copies",
    "D8": "one model's cache disturbs the batch of another",
    "D9": "the router dies while its children serve",
    "D10": "never loaded, unloaded and crashed look the same",
    "D11": "an unknown name triggers a look-up",
    "D12": "an unknown route says that the model does not exist",
    "E1": "under eviction a row continues from somebody else's text",
    "E2": "text of an earlier request shows up behind sliding windows",
    "E3": "two streams extend one cached object",
    "E4": "a hit on the whole prompt feeds the last token twice",
    "E5": "entries that never hit pile up",
    "E6": "a failed restore throws the whole cache away",
    "F1": "a seed is accepted and changes nothing",
    "F2": "a seeded row loses its seed because a neighbour has none",
    "F3": "greedy text changes with the company in the batch",
    "F4": "seeds are ignored while batching",
    "F5": "a request without a schema breaks the next one that has one",
    "F6": "rows of unequal length break where KV is quantized",
    "F7": "log probabilities asked for in a stream vanish",
    "F8": "logprobs is ignored with 200",
    "F9": "n, best_of and echo are accepted and ignored",
    "G1": "the head of a stop string is streamed before the rest arrives",
    "G2": "a stop across chunks leaks its head, or held text is lost or sent twice",
    "G3": "a stop of several tokens never matches in streams",
    "G4": "stop works on one route only, and nobody says which one matched",
    "G5": "accents, emoji families and CJK arrive as replacement characters",
    "G6": "a byte run cut at the end of the answer raises and ends the stream",
    "G7": "sending every few tokens drops the ones between",
    "G8": "a user's stop string fires inside hidden reasoning",
    "G9": "flushing the decoder after every token breaks characters of several tokens",
    "H1": "usage comes unasked and clients count twice",
    "H2": "a comment plus empty line makes a client decode an empty event",
    "H3": "a client that does not know comments gives up",
    "H4": "a comment arrives wrapped as data",
    "H5": "clients give up after minutes of silence before the first token",
    "H6": "200 is sent and the validation error comes as a chunk",
    "H7": "a tool call cut by the cap is reported as finished",
    "H8": "finish_reason is missing from early chunks",
    "H9": "no role chunk, changing ids, odd separators",
    "H10": "max_completion_tokens is unknown, or there is a silent default cap",
    "H11": "reasoning tokens are counted differently from the cap",
    "I1": "a bad number or a null inside a map drops the socket",
    "I2": "out-of-range sampling values become 500",
    "I3": "an empty message list is 500",
    "I4": "error text of the inside, or one protocol's error in another's envelope",
    "I5": "a schema that is wrong falls back to free text",
    "I6": "a body sent a byte a minute holds a worker",
    "I7": "NaN and infinity reach the sampler",
    "J1": "an assistant turn with null content and tool calls breaks the template",
    "J2": "content arrays break templates that expect strings",
    "J3": "a system message later in the list is refused by strict templates",
    "J4": "one route refuses what another takes",
    "J5": "a trailing assistant message is closed and answered anew",
    "J6": "a template error comes as a trace",
    "J7": "clean-up of spaces changes the text around punctuation",
    "K1": "a prompt over the window gives 200 and an empty stream",
    "K2": "over-long prompts are shortened and the question at the tail is lost",
    "K3": "prompt and cap over the window is not checked",
    "L1": "streamed calls lack an index",
    "L2": "no id or name in the first delta, or repeated later",
    "L3": "the second call uses index 0 again",
    "L4": "non-stream finds the call, stream loses it",
    "L5": "a stream that ends inside a call drops it",
    "L6": "forced choice gives empty arguments that break the schema",
    "L7": "tool_choice none is ignored",
    "L8": "arguments in the history that are no JSON make the handler fail",
    "L9": "the tool grammar cuts long strings",
    "M1": "non-stream splits reasoning, stream puts all into content",
    "M2": "the template opens the block in the prompt; the stream starts as content",
    "N1": "constraints exist only outside batches, or disturb the batch",
    "N2": "200 with text that does not validate",
    "O1": "a coding agent sends system text inside its messages",
    "O2": "a stream begins with 0 input tokens and the context meter is broken",
    "O3": "the list of models lacks the window and clients assume a small one",
    "O4": "a Responses stream closes without a terminal event",
    "O5": "a base URL that ends in /v1 gives a bare 404",
    "O6": "namespaces of tools are refused, or lost in the reply",
    "O7": "counting tokens is missing or wrong",
    "P1": "clients ask for base64 by default, get floats and store garbage",
    "P2": "long texts are cut in silence before they are embedded",
    "Q1": "a preflight needs a key that it can never carry",
    "Q2": "Authorization is not among the headers that a page may send",
    "Q3": "two spellings of one client count as two",
    "Q4": "the server ends a row by itself and answers 503 although there is text",
    "Q5": "busy answers do not say when to come again, or always the same",
}
ID = re.compile(r"\b[A-Q]\d{1,2}\b")
ID_IN_NAME = re.compile(r"_([a-q]\d{1,2})(?=_|$)")


def named(tree: ast.AST) -> Iterator[str]:
    """The ids that a file's tests name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            yield from (found.upper() for found in ID_IN_NAME.findall(node.name))
            yield from ID.findall(ast.get_docstring(node) or "")


@pytest.fixture(scope="module")
def covered() -> set[str]:
    files = TESTS.rglob("test_*.py")
    return {found for file in files for found in named(ast.parse(file.read_text("utf-8")))}


@pytest.mark.parametrize("case", CASES)
def test_a_test_names_it(covered: set[str], case: str) -> None:
    assert case in covered, f"no test names {case}: {CASES[case]}"


def test_an_id_is_read_from_name_and_docstring() -> None:
    source = 'def test_x_h6_n1():\n    """L4, M2."""\ndef helper_a1(): ...\nx = "B7"\n'
    assert set(named(ast.parse(source))) == {"H6", "N1", "L4", "M2"}
