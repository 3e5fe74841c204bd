"""Whole coding agents against the server: does each complete a turn?

    python bench/agents.py claude           # or codex, opencode, pi; none: all of them

An agent's first prompt is longer than what the default model can read, so the model is scripted
and says one word; the agent, the wire and the server are the real ones. Agents are fetched from the
npm registry into `build/agents/` (55 to 430 MB each), and run in a home folder of their own.
They may try to reach their makers: run it in a network namespace that has loopback alone, once they
are fetched (`unshare -rn sh -c 'ip link set lo up; python bench/agents.py'`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.scripted import Timings
from headrace.runtime.testing.site import Site, open_site

FETCHED = Path(__file__).resolve().parent.parent / "build" / "agents"
ASKED = "Reply with one word."
SAID = "Hello."
TURN_SECONDS = 180.0


@attrs.frozen
class Agent:
    """How to fetch it, how to run one turn, and what it finds in its home and environment.

    `{base}` is the server's address, `{home}` the agent's home folder.
    """

    package: str
    program: str
    arguments: Sequence[str]
    environment: dict[str, str] = attrs.field(factory=dict)
    files: dict[str, str] = attrs.field(factory=dict)


CODEX = """\
model = "scripted"
model_provider = "local"
approval_policy = "never"
[model_providers.local]
name = "local"
base_url = "{base}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
"""
OPENCODE = {
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{base}/v1", "apiKey": "any"},
            "models": {"scripted": {}},
        }
    },
    "autoupdate": False,
    "share": "disabled",
}
PI = {
    "providers": {
        "local": {
            "baseUrl": "{base}/v1",
            "api": "openai-completions",
            "apiKey": "any",
            "models": [{"id": "scripted", "contextWindow": 32768, "maxTokens": 1024}],
        }
    }
}
AGENTS = {
    "claude": Agent(
        "@anthropic-ai/claude-code@2.1.197",
        "claude",
        ["-p", ASKED],
        environment={
            "ANTHROPIC_BASE_URL": "{base}",
            "ANTHROPIC_AUTH_TOKEN": "any",
            "ANTHROPIC_MODEL": "scripted",
            "ANTHROPIC_SMALL_FAST_MODEL": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": Agent(
        "@openai/codex@0.171.0",
        "codex",
        ["exec", "--skip-git-repo-check", ASKED],
        environment={"LOCAL_KEY": "any"},
        files={".codex/config.toml": CODEX},
    ),
    "opencode": Agent(
        "opencode-ai@1.18.33",
        "opencode",
        ["run", "-m", "local/scripted", ASKED],
        files={"work/opencode.json": json.dumps(OPENCODE)},
    ),
    "pi": Agent(
        "@mariozechner/pi-coding-agent@0.73.1",
        "pi",
        ["-p", "--provider", "local", "--model", "scripted", ASKED],
        files={".pi/agent/models.json": json.dumps(PI)},
    ),
}


def fetched(name: str, agent: Agent) -> Path:
    """Its program, which is fetched on the first call."""
    folder = FETCHED / name
    program = folder / "node_modules" / ".bin" / agent.program
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", agent.package], cwd=folder, check=True
        )
    return program


async def turn(program: Path, agent: Agent, site: Site, home: Path) -> None:
    base = f"http://127.0.0.1:{site.port}"
    (home / "work").mkdir()
    for name, text in agent.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{base}", base))
    environment = {name: value.replace("{base}", base) for name, value in agent.environment.items()}
    ran = await trio.run_process(
        [program, *agent.arguments],
        cwd=home / "work",
        env={"PATH": os.environ["PATH"], "HOME": str(home)} | environment,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    if ran.returncode or SAID not in ran.stdout.decode():
        raise SystemExit(f"exit {ran.returncode}\n{(ran.stdout + ran.stderr).decode()[-2000:]}")


async def main(names: Sequence[str]) -> None:
    quick = Timings(seconds_per_prefill_token=0.0, seconds_per_decode=0.001)
    for name in names:
        program = fetched(name, AGENTS[name])
        model = ScriptedModel(
            load_seconds=0,
            scripts={"": Script(SAID)},
            timings=quick,
            context_window=1_000_000,
            kv_bytes_per_token=1,
        )
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as home, trio.fail_after(TURN_SECONDS):
            async with open_site(model, unknown_model="current") as site:
                await turn(program, AGENTS[name], site, Path(home))
                await site.idle(within=5)
        print(f"{name:10} a turn in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(AGENTS)}; all of them if none")
    trio.run(main, parser.parse_args().names or list(AGENTS))
