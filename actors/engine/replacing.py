"""Give the modules of one model other functions under the names in their code.

Models of mlx-lm find such functions as names in their Python module. The `nn.Module`s of the one
model at hand are given classes of their own that find others there instead; no other model and
nothing process-wide is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, TypeAlias

# Name -> the function that it must mean, and the one that it is to mean.
Replacements: TypeAlias = Mapping[str, tuple[Any, Any]]


def replace_functions(modules: Iterable[Any], replacements: Replacements) -> int:
    """Returns how many of the modules now use others."""
    kinds: dict[type, type] = {}
    changed = 0
    for module in modules:
        kind = type(module)
        if kind not in kinds:
            kinds[kind] = _with_others(kind, replacements)
        if kinds[kind] is not kind:
            module.__class__ = kinds[kind]
            changed += 1
    return changed


def _with_others(kind: type, replacements: Replacements) -> type:
    """The class with the same code, in which some names mean something else."""
    call: Any = kind.__call__
    if not isinstance(call, FunctionType):
        return kind
    names = call.__globals__
    ours = {
        name: ours
        for name, (theirs, ours) in replacements.items()
        if name in call.__code__.co_names and names.get(name) is theirs
    }
    if not ours:
        return kind
    other = FunctionType(
        call.__code__, {**names, **ours}, call.__name__, call.__defaults__, call.__closure__
    )
    other.__kwdefaults__ = call.__kwdefaults__
    return type(kind.__name__, (kind,), {"__call__": other, "__module__": kind.__module__})
