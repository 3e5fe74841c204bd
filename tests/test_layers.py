"""The house rules that a machine can check: who may import what, and how large things grow.

The lists below are the rules. To allow something new, edit a list and say why in the commit.
"""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

Rule: TypeAlias = Callable[[str, ast.AST], Iterator[str]]

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("runtime", "actors", "http")

# A file belongs to the first pattern it matches, and may import what is listed there besides the
# standard library.
LAYERS: dict[str, list[str]] = {
    # The test kit drives the whole runtime, so it alone looks upwards.
    "runtime/testing/*": [
        "headrace.runtime", "headrace.actors", "headrace.http",
        "attrs", "httpx", "hypothesis", "jsonschema", "msgspec", "outcome", "pytest", "selenium",
        "trio",
    ],
    "runtime/*": ["headrace.runtime", "attrs", "msgspec", "outcome", "platformdirs", "trio"],
    # Synchronous, on one thread: the engine knows the ports and nothing that waits.
    "actors/engine/*": [
        "headrace.actors.engine", "headrace.actors.prompting", "headrace.runtime",
        "attrs", "gguf", "huggingface_hub", "jinja2", "llguidance", "mlx", "mlx_lm", "msgspec",
        "numpy", "pynvml", "rich", "scipy_openblas32", "tokenizers", "transformers",
    ],
    # Folders of models on this machine; a process for each long piece of work.
    "actors/library/*": [
        "headrace.actors.library", "headrace.runtime",
        "attrs", "filelock", "huggingface_hub", "msgspec", "platformdirs", "rich",
    ],
    # The folder of notes and all deciders beside it know the kernel only.
    "actors/notes/synthesis.py": [
        "headrace.actors.completing", "headrace.actors.notes", "headrace.actors.runtime",
        "headrace.runtime", "attrs",
    ],
    "actors/notes/*": ["headrace.actors.notes", "headrace.runtime", "attrs", "msgspec"],
    "actors/text/*": ["headrace.actors.text", "headrace.runtime", "attrs", "msgspec", "regex"],
    # What answers may be, written in terms of how they are read.
    "actors/grammar/*": [
        "headrace.actors.grammar", "headrace.actors.text", "headrace.runtime",
        "attrs", "msgspec", "regex",
    ],
    "actors/*": ["headrace.actors", "headrace.runtime", "attrs", "msgspec", "outcome", "trio"],
    "http/wire/*": ["headrace.http.wire", "headrace.runtime", "attrs", "msgspec"],
    "http/*": [
        "headrace.http", "headrace.actors", "headrace.runtime",
        "attrs", "backports.zstd", "click", "compression.zstd", "h11", "h2", "httpx", "hypercorn",
        "msgspec", "opentelemetry", "platformdirs", "prometheus_client", "quart", "quart_trio",
        "rich", "structlog", "trio", "werkzeug",
    ],
}  # fmt: skip

# Deciders and parsers: values in, values out. Time, chance and waiting come in as arguments.
PURE = [
    "actors/grammar/*",
    "actors/allocation.py",
    "actors/engine/disk_index.py",
    "actors/engine/radix.py",
    "actors/eviction.py",
    "actors/fit.py",
    "actors/jobs/book.py",
    "actors/jobs/ending.py",
    "actors/jobs/job.py",
    "actors/gate.py",
    "actors/dialect.py",
    "actors/ledger.py",
    "actors/messages.py",
    "actors/notes/extracting.py",
    "actors/notes/linking.py",
    "actors/notes/merging.py",
    "actors/notes/note.py",
    "actors/notes/order.py",
    "actors/notes/planning.py",
    "actors/notes/roots.py",
    "actors/notes/segmenting.py",
    "actors/notes/source.py",
    "actors/notes/titles.py",
    "actors/pace.py",
    "actors/patience.py",
    "actors/placement.py",
    "actors/prompting.py",
    "actors/rations.py",
    "actors/reports.py",
    "actors/residence.py",
    "actors/residency.py",
    "actors/returning.py",
    "actors/room.py",
    "actors/schedule.py",
    "actors/text/*",
    "actors/thinking.py",
    "actors/tool_turns.py",
    "actors/troubles.py",
    "actors/waitlist.py",
    "actors/whole_device.py",
    "http/wire/*",
    "runtime/config.py",
    "runtime/footprint.py",
    "runtime/grouping.py",
    "runtime/constraints.py",
    "runtime/contracts.py",
    "runtime/errors.py",
    "runtime/frames.py",
    "runtime/ports.py",
    "runtime/restart.py",
    "runtime/settings.py",
]
NOT_IN_PURE = {"asyncio", "random", "secrets", "threading", "time", "trio", "uuid"}

# Modules that only some files may import, with those files; `runtime/testing/` may in any case.
ONLY_IN: dict[str, list[str]] = {
    "asyncio": [],
    # The real engine; everything else sees an engine through its port.
    "headrace.actors.engine": [
        "actors/engine/*",
        "actors/provision.py",
        "http/commands/doctor.py",
        "http/commands/fit.py",
    ],
    "logging": ["http/*"],
    "queue": ["runtime/thread.py"],
    "random": ["http/*"],
    # Jobs are rows with times of day and ids, whoever asks for them.
    "secrets": ["http/*", "actors/jobs/stamps.py"],
    "signal": ["http/*", "runtime/process.py", "runtime/worker_side.py"],
    "socket": ["http/*", "runtime/link.py", "runtime/process.py", "runtime/worker_side.py"],
    "subprocess": ["actors/library/command.py"],
    # A worker's watch on its parent must run even when the loop is stuck.
    "threading": ["runtime/thread.py", "runtime/worker_side.py"],
    # The engine's side measures its steps; nothing there waits.
    "time": ["http/*", "actors/engine/*", "actors/jobs/stamps.py"],
    "uuid": ["http/*"],
}
TEST_KIT = "runtime/testing/*"
SHIELD_ONLY_IN = ["runtime/cleanup.py"]

# Awaits that a clean-up may make outside `bounded_cleanup`: they open one themselves, or end at
# once.
BOUNDED_IN_THEMSELVES = {
    "_stop",
    "stop",
    "aclose_forcefully",
    "cancel_shielded_checkpoint",
    "conclude",
}

LINES_IN_A_FILE = 400
LINES_IN_A_FUNCTION = 60


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Each with its name; rules read and do not change them."""
    return [(name_of(path), ast.parse(path.read_text(encoding="utf-8"))) for path in sources()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names imported anywhere in the file, also inside functions and type checks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


# ---- the rules: each takes a file's name and syntax tree and gives what is wrong with it ----


def direction(name: str, tree: ast.AST) -> Iterator[str]:
    layer = next(rule for pattern, rule in LAYERS.items() if fnmatch.fnmatch(name, pattern))
    for module in imports(tree):
        if not within(module, [*layer, *sys.stdlib_module_names]):
            yield f"{name} imports {module}"


def places(name: str, tree: ast.AST) -> Iterator[str]:
    for module in imports(tree):
        for scarce, patterns in ONLY_IN.items():
            if within(module, [scarce]) and not matches(name, [TEST_KIT, *patterns]):
                yield f"{name} imports {module}"


def purity(name: str, tree: ast.AST) -> Iterator[str]:
    if matches(name, PURE):
        for module in imports(tree):
            if within(module, NOT_IN_PURE):
                yield f"{name} imports {module}"


def one_shield(name: str, tree: ast.AST) -> Iterator[str]:
    if matches(name, SHIELD_ONLY_IN):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "shield":
            yield f"{name}:{node.lineno} opens a shield"
        elif isinstance(node, ast.Attribute) and node.attr == "shield":
            yield f"{name}:{node.lineno} touches a shield"


def bounded_ends(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for statement in cleanup_of(node):
            for found in unbounded(statement):
                yield f"{name}:{found.lineno} waits without a bound in a clean-up"


def cleanup_of(node: ast.AST) -> list[ast.stmt]:
    """The statements of a node that also run when the scope is cancelled."""
    if isinstance(node, ast.Try):
        caught = [h for h in node.handlers if h.type is None or "BaseEx" in ast.unparse(h.type)]
        caught += [h for h in node.handlers if h.type and "Cancelled" in ast.unparse(h.type)]
        return node.finalbody + [statement for handler in caught for statement in handler.body]
    if isinstance(node, ast.AsyncFunctionDef) and node.name == "__aexit__":
        return node.body
    return []


def unbounded(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.With) and "bounded_cleanup" in map(callee, node.items):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    if isinstance(node, ast.AsyncFor | ast.AsyncWith):
        yield node
    if isinstance(node, ast.Await) and callee(node) not in BOUNDED_IN_THEMSELVES:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from unbounded(child)


def callee(node: ast.Await | ast.withitem) -> str:
    """The last name of what is called: `conclude` in `await self.ref.conclude(message)`."""
    call = node.value if isinstance(node, ast.Await) else node.context_expr
    return ast.unparse(call.func).split(".")[-1] if isinstance(call, ast.Call) else ""


def small_files(name: str, tree: ast.AST) -> Iterator[str]:
    lines = max((getattr(node, "end_lineno", 0) or 0 for node in ast.walk(tree)), default=0)
    if lines > LINES_IN_A_FILE:
        yield f"{name} has {lines} lines"


def small_functions(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_IN_A_FUNCTION:
                yield f"{name}:{node.lineno} {node.name} has {lines} lines"


# What belongs to one protocol alone. Only the description of all of them may know several.
PROTOCOLS: dict[str, list[str]] = {
    "messages": ["anthropic_*"],
    "responses": ["openai_responses", "responses_*"],
    "chat": ["openai_chat", "chat_stream"],
    "completions": ["openai_completions", "completion_stream"],
    "embeddings": ["openai_embeddings"],
    "decisions": ["decisions"],
    "systemone": ["systemone"],
}
WIRE = "headrace.http.wire."
KNOWS_ALL_PROTOCOLS = ["http/wire/openapi.py"]


def apart(name: str, tree: ast.AST) -> Iterator[str]:
    """No protocol knows another."""
    own = protocol_of(Path(name).stem) if name.startswith("http/wire/") else None
    if own is None or matches(name, KNOWS_ALL_PROTOCOLS):
        return
    for module in imports(tree):
        if module.startswith(WIRE):
            other = protocol_of(module.removeprefix(WIRE).split(".")[0])
            if other not in (None, own):
                yield f"{name} imports {module}"


def protocol_of(file: str) -> str | None:
    return next((name for name, files in PROTOCOLS.items() if matches(file, files)), None)


RULES: list[Rule] = [
    apart,
    direction,
    places,
    purity,
    one_shield,
    bounded_ends,
    small_files,
    small_functions,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps(rule: Rule) -> None:
    assert [breach for name, tree in trees() for breach in rule(name, tree)] == []


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (direction, "runtime/x.py", "import mlx.core"),
        (direction, "runtime/x.py", "from headrace.actors import model"),
        (direction, "runtime/x.py", "def f():\n    from headrace import http"),
        (direction, "actors/x.py", "import headrace.http.app"),
        (direction, "actors/x.py", "import mlx_lm"),
        (direction, "actors/x.py", "import quart"),
        (direction, "actors/engine/x.py", "import trio"),
        (direction, "actors/engine/x.py", "from headrace.actors import model"),
        (direction, "http/x.py", "import mlx_lm"),
        (direction, "http/wire/x.py", "from headrace.actors.messages import Admit"),
        (direction, "http/x.py", "from .app import create_app"),
        (apart, "http/wire/anthropic_x.py", "from headrace.http.wire.openai_chat import parse"),
        (apart, "http/wire/responses_x.py", "import headrace.http.wire.anthropic_tools"),
        (places, "actors/x.py", "import threading"),
        (places, "http/x.py", "import queue"),
        (places, "http/x.py", "from headrace.actors import engine"),
        (places, "actors/model.py", "from headrace.actors.engine.load import load"),
        (purity, "actors/schedule.py", "from time import monotonic"),
        (purity, "http/wire/x.py", "import trio.lowlevel"),
        (one_shield, "runtime/x.py", "trio.CancelScope(shield=True)"),
        (one_shield, "runtime/x.py", "scope.shield = wanted"),
        (bounded_ends, "runtime/x.py", "try: pass\nfinally: await end()"),
        (bounded_ends, "runtime/x.py", "try: pass\nexcept BaseException: await end()"),
        (bounded_ends, "runtime/x.py", "try: pass\nexcept (A, trio.Cancelled): await end()"),
        (bounded_ends, "runtime/x.py", "async def __aexit__(self): await self.end()"),
        (bounded_ends, "runtime/x.py", "try: pass\nfinally:\n  async with x: pass"),
        (small_files, "runtime/x.py", "\n" * LINES_IN_A_FILE + "x = 1"),
        (small_functions, "runtime/x.py", "def f():\n" + "    x = 1\n" * LINES_IN_A_FUNCTION),
    ],
)
def test_a_breach_is_seen(rule: Rule, name: str, text: str) -> None:
    assert list(rule(name, ast.parse(text)))


def test_a_bounded_clean_up_is_none() -> None:
    text = "try: pass\nfinally:\n  with bounded_cleanup(1): await end()\n  await ref.conclude(m)"
    assert not list(bounded_ends("runtime/x.py", ast.parse(text)))


@pytest.mark.parametrize("pattern", [*PURE, *SHIELD_ONLY_IN])
def test_the_lists_name_files_that_exist(pattern: str) -> None:
    assert any(matches(name_of(path), [pattern]) for path in sources())


def test_the_standard_librarys_http_is_not_shadowed() -> None:
    # An `http/__init__.py` would win over it wherever the root is on the path.
    assert not (ROOT / "http" / "__init__.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))
    code = "import http.client, headrace.http.wire; print(http.client.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not Path(ran.stdout.strip()).is_relative_to(ROOT / "http")


def test_every_folder_of_code_is_a_package_that_gets_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.parent.relative_to(ROOT) for path in sources()}
    packages = {"headrace." + ".".join(folder.parts) for folder in folders}
    assert packages == set(project["tool"]["setuptools"]["packages"])
