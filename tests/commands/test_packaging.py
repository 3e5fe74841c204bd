"""The service files and the Dockerfile: what can be checked without systemd, launchd or docker."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.http.cli import COMMANDS
from headrace.http.serve import FAREWELL_SECONDS, RELEASE_SECONDS
from headrace.runtime.config import NO_SETTINGS, PREFIX, usual_file
from headrace.runtime.settings import Settings, kinds

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
LONGEST_STOP_SECONDS = Settings().shutdown_timeout_s + RELEASE_SECONDS + FAREWELL_SECONDS


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string((PACKAGING / "headrace.service").read_text(encoding="utf-8"))
    return parser


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, the rest) of each, with continued lines joined."""
    text = (PACKAGING / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def is_command(words: list[str]) -> bool:
    return Path(words[0]).name == "headrace" and words[1] in {c.name for c in COMMANDS}


@pytest.mark.parametrize("file", sorted(PACKAGING.iterdir()), ids=lambda file: file.name)
def test_the_variables_that_a_file_names_exist(file: Path) -> None:
    named = set(re.findall(rf"{PREFIX}[A-Z_]+", file.read_text(encoding="utf-8")))
    assert {name.removeprefix(PREFIX).lower() for name in named - NO_SETTINGS} <= set(kinds())


def test_the_unit_starts_the_server_and_gives_it_time_to_drain(
    unit: configparser.ConfigParser,
) -> None:
    service = unit["Service"]
    assert is_command(shlex.split(service["ExecStart"]))
    assert float(service["TimeoutStopSec"]) > LONGEST_STOP_SECONDS
    assert (service["KillSignal"], service["KillMode"]) == ("SIGTERM", "mixed")
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_unit_has_a_user_and_a_folder_of_its_own_and_no_more(
    unit: configparser.ConfigParser,
) -> None:
    service = unit["Service"]
    hardened = {
        "DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectKernelModules",
        "ProtectKernelTunables", "ProtectControlGroups", "RestrictNamespaces", "LockPersonality",
        "RestrictSUIDSGID",
    }  # fmt: skip
    assert {name for name in hardened if service[name] != "yes"} == set()
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    # The one place it may write to is the one its settings name.
    assert service["StateDirectory"] == "headrace"
    text = (PACKAGING / "headrace.service").read_text(encoding="utf-8")
    assert f"HEADRACE_HOME=/var/lib/{service['StateDirectory']}" in text


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is on Linux only")
def test_the_unit_finds_its_config_file_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PACKAGING / "headrace.service").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^Environment=XDG_CONFIG_HOME=(.*)$", text, re.MULTILINE)
    monkeypatch.setenv("XDG_CONFIG_HOME", folder)
    assert str(usual_file()) == "/etc/headrace/headrace.toml"
    assert text.count(str(usual_file())) == 2


def test_the_agent_starts_the_server_and_gives_it_time_to_drain() -> None:
    agent = plistlib.loads((PACKAGING / "dev.headrace.plist").read_bytes())
    shell, option, line = agent["ProgramArguments"]
    assert (shell, option) == ("/bin/sh", "-c")
    words = shlex.split(line)
    assert words[0] == "exec"
    assert is_command(words[1:])
    assert agent["ExitTimeOut"] > LONGEST_STOP_SECONDS
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["Umask"] == 0o077


def test_the_image_is_built_from_what_is_there() -> None:
    copied = [rest.split()[:-1] for name, rest in dockerfile() if name == "COPY"]
    sources = [source for words in copied if "--from=build" not in words for source in words]
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = set(project["tool"]["setuptools"]["package-dir"].values())
    assert folders | {project["project"]["readme"], "pyproject.toml"} <= set(sources)
    extras = project["project"]["optional-dependencies"]
    assert {"cpu", "cuda"} <= set(extras)
    assert ("ARG", "BACKEND=cpu") in dockerfile()


def test_the_image_runs_as_a_user_who_is_not_root_and_is_stopped_by_a_drain() -> None:
    instructions = dockerfile()
    names = [name for name, _ in instructions]
    assert names.count("FROM") == 2
    last = instructions[len(names) - names[::-1].index("FROM") :]
    assert ("USER", "headrace") in last
    assert ("STOPSIGNAL", "SIGTERM") in last
    assert is_command(["headrace", *re.findall(r'"(\w+)"', dict(last)["CMD"])])
    # The kind with brackets: a shell would keep the signal to itself.
    assert dict(last)["ENTRYPOINT"] == '["headrace"]'
