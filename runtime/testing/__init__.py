"""The test kit: scripted models, a virtual clock, chosen schedules, and a look at what is left."""

from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.device import AllocationFailed, ScriptedDevice
from headrace.runtime.testing.hooks import Hook, Hooks, raising
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
from headrace.runtime.testing.sweep import CancelAt, cancelled_at, sweep
from headrace.runtime.testing.tokens import ScriptedTokenizer

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
    "Timings",
    "cancelled_at",
    "explore",
    "inline_threads",
    "objects",
    "raising",
    "replay",
    "scheduled_by",
    "seeded",
    "sweep",
    "tasks",
]
