"""mlx-lm's parsers of tool calls, for the families that have no format of our own."""

from __future__ import annotations

import importlib
import pkgutil

from mlx_lm import tool_parsers

from headrace.runtime.ports import CallParser

NAMES = frozenset(module.name for module in pkgutil.iter_modules(tool_parsers.__path__))


def call_parser(name: str) -> CallParser | None:
    """The parser that mlx-lm calls by this name; None if it has none."""
    if name not in NAMES:
        return None
    module = importlib.import_module(f"{tool_parsers.__name__}.{name}")
    return CallParser(module.tool_call_start, module.tool_call_end, module.parse_tool_call)
