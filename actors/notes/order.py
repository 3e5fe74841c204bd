"""What a job of notes is asked for: the type of its config, and what follows from it. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headrace.actors.notes.source import Source, Turn
from headrace.actors.notes.titles import cleaned
from headrace.runtime.errors import Code, RequestError

# A job's config stands in its row, which is listed, and written again as the job goes on.
MOST_SOURCE_BYTES = 256 << 10
MOST_SPEAKER, MOST_SOURCE_NAME = 40, 60

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    type: Literal["text"] = "text"


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """A message of a conversation."""

    role: Name
    content: str | list[TextPart]
    name: Name | None = None

    def turn(self) -> Turn:
        speaker = cleaned(self.name or "", MOST_SPEAKER) or cleaned(self.role, MOST_SPEAKER)
        if isinstance(self.content, str):
            return Turn(speaker, self.content)
        return Turn(speaker, "\n\n".join(part.text for part in self.content))


class TextFile(msgspec.Struct, forbid_unknown_fields=True):
    """`text` is what the file says: the server reads no files."""

    name: Name
    text: str

    def source(self) -> Source:
        name = cleaned(self.name, MOST_SOURCE_NAME)
        return Source(name, (Turn(cleaned(self.name, MOST_SPEAKER), self.text),))


class SynthesizeConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`title` names the conversation; `segment_tokens` is about how much one row reads, and
    `answer_tokens` the most that it writes."""

    folder: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    messages: list[Said] = []
    files: list[TextFile] = []
    title: Name = "conversation"
    model: Name | None = None
    dry_run: bool = False
    segment_tokens: Annotated[int, msgspec.Meta(ge=64, le=8192)] = 512
    segment_turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    answer_tokens: Annotated[int, msgspec.Meta(ge=1, le=2048)] = 384

    def sources(self) -> list[Source]:
        """Raises `RequestError` (invalid_value) where there is nothing to read, or too much."""
        talk = Source(
            cleaned(self.title, MOST_SOURCE_NAME), tuple(said.turn() for said in self.messages)
        )
        sources = [talk, *(file.source() for file in self.files)]
        turns = [turn for source in sources for turn in source.turns]
        if not all(source.name for source in sources) or not all(turn.speaker for turn in turns):
            raise _refused("title, role and the name of a file need a visible character.")
        size = sum(_bytes(turn.text) for turn in turns)
        if not size:
            raise _refused("messages or files must hold some text.")
        if size > MOST_SOURCE_BYTES:
            raise _refused(f"messages and files hold {size} bytes; {MOST_SOURCE_BYTES} may be.")
        return sources


def _bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise _refused("messages and files must be Unicode text.") from None


def _refused(text: str) -> RequestError:
    return RequestError(Code.INVALID_VALUE, text, param="config")
