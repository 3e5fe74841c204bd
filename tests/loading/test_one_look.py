"""transformers knows the same names, whether it has looked into its models' files once or twice."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: it must not have imported its models yet.
STORY = """
import sys
from headrace.actors.engine.one_look import import_models
from transformers.utils import import_utils

look = import_utils.define_import_structure
import_models()
models = sys.modules["transformers.models"]
assert import_utils.define_import_structure is look
assert look.cache_info().misses == 1
twice = type(models)("transformers.models", models.__file__, look(models.__file__))
assert len(twice._class_to_module) > 1000
for known in ("_class_to_module", "_modules", "_object_missing_backend", "_import_structure"):
    assert getattr(models, known) == getattr(twice, known), known
from transformers import AutoTokenizer, LlamaConfig, models
"""


def test_it_knows_the_same_names() -> None:
    argv = [sys.executable, "-W", "ignore", "-c", STORY]
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
