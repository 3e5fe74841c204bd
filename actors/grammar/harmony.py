"""The grammar of an answer in harmony messages (gpt-oss)."""

from __future__ import annotations

from headrace.actors.grammar.calls import CallableTool
from headrace.actors.grammar.lark import ANYTHING, Rules, either
from headrace.actors.grammar.wanted import Wanted
from headrace.actors.text.reasoning import Start

NEXT = ("<|start|>", "assistant")
ANALYSIS = ("<|channel|>", "analysis", "<|message|>")
FINAL = ("<|channel|>", "final", "<|message|>")


def harmony(rules: Rules, wanted: Wanted, start: Start) -> str:
    """The start of the grammar. A call ends the turn, so there is never more than one."""
    ways = [_call(rules, tool) for tool in wanted.tools]
    if start == "after" and ways:
        # The final message has been begun, and is left for the call.
        ways = [f"{rules.literal(['<|end|>', *NEXT])} {either(ways)}"]
    if wanted.mode != "calls":
        value = ANYTHING if wanted.value is None else wanted.value.write(rules)
        ways.append(value if start == "after" else f"{rules.literal(FINAL)} {value}")
    answer = either(ways)
    if start == "after":
        return answer
    rest = f"{rules.until('<|end|>')} {rules.literal(NEXT)}"
    if start == "inside":
        return f"{rest} {answer}"
    return f"({rules.literal(ANALYSIS)} {rest})? {answer}"


def _call(rules: Rules, tool: CallableTool) -> str:
    recipient = f"commentary to=functions.{tool.name} "
    head = ["<|channel|>", recipient, "<|constrain|>", "json", "<|message|>"]
    return f"{rules.literal(head)} {tool.json(rules)}"
