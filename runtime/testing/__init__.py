"""The test kit: scripted models, a virtual clock, chosen schedules, and a look at what is left.

Each name is imported when it is first asked for: a worker process with a scripted model would
otherwise import pytest, by way of `trio.testing`, and take twice as long to start.
"""

import importlib
from typing import TYPE_CHECKING

# At once: its module has the name of one of its functions.
from headrace.runtime.testing.sweep import CancelAt, cancelled_at, sweep

if TYPE_CHECKING:
    from headrace.runtime.testing.choices import Choices
    from headrace.runtime.testing.device import AllocationFailed, ScriptedDevice
    from headrace.runtime.testing.hooks import Hook, Hooks, joining, jumping, killing, raising
    from headrace.runtime.testing.inline import InlineThread, inline_threads
    from headrace.runtime.testing.leaks import Baseline, objects, tasks
    from headrace.runtime.testing.loader import ScriptedLoader, ScriptedModel
    from headrace.runtime.testing.schedule import (
        Exploration,
        Scenario,
        ScheduleFailed,
        explore,
        replay,
        scheduled_by,
        seeded,
    )
    from headrace.runtime.testing.script import Script, ScriptedFault
    from headrace.runtime.testing.scripted import Call, PortMisuse, ScriptedEngine, Timings
    from headrace.runtime.testing.story import Story
    from headrace.runtime.testing.tokens import ScriptedTokenizer
else:
    _MODULES = {
        "AllocationFailed": "device",
        "Baseline": "leaks",
        "Call": "scripted",
        "Choices": "choices",
        "Exploration": "schedule",
        "Hook": "hooks",
        "Hooks": "hooks",
        "InlineThread": "inline",
        "PortMisuse": "scripted",
        "Scenario": "schedule",
        "ScheduleFailed": "schedule",
        "Script": "script",
        "ScriptedDevice": "device",
        "ScriptedEngine": "scripted",
        "ScriptedFault": "script",
        "ScriptedLoader": "loader",
        "ScriptedModel": "loader",
        "ScriptedTokenizer": "tokens",
        "Timings": "scripted",
        "explore": "schedule",
        "inline_threads": "inline",
        "objects": "leaks",
        "joining": "hooks",
        "jumping": "hooks",
        "killing": "hooks",
        "raising": "hooks",
        "Story": "story",
        "replay": "schedule",
        "scheduled_by": "schedule",
        "seeded": "schedule",
        "tasks": "leaks",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found


__all__ = [
    "AllocationFailed",
    "Baseline",
    "Call",
    "CancelAt",
    "Choices",
    "Exploration",
    "Hook",
    "Hooks",
    "InlineThread",
    "PortMisuse",
    "Scenario",
    "ScheduleFailed",
    "Script",
    "ScriptedDevice",
    "ScriptedEngine",
    "ScriptedFault",
    "ScriptedLoader",
    "ScriptedModel",
    "ScriptedTokenizer",
    "Story",
    "Timings",
    "cancelled_at",
    "explore",
    "inline_threads",
    "joining",
    "jumping",
    "killing",
    "objects",
    "raising",
    "replay",
    "scheduled_by",
    "seeded",
    "sweep",
    "tasks",
]
