"""The content of one message: a string, or an array of parts, as text."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.fields import Fields, wrong_type
from headrace.runtime.errors import Code, RequestError

# The member that holds the text, by the type of the part.
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}

# What a model that reads text alone says to a part of another kind.
MEDIA_PARTS = {
    "image_url": Code.VISION_TOWER_ABSENT,
    "image": Code.VISION_TOWER_ABSENT,
    "input_image": Code.VISION_TOWER_ABSENT,
    "input_audio": Code.AUDIO_TOWER_UNAVAILABLE,
    "audio": Code.AUDIO_TOWER_UNAVAILABLE,
    "audio_url": Code.AUDIO_TOWER_UNAVAILABLE,
    "video_url": Code.VIDEO_UNSUPPORTED,
    "video": Code.VIDEO_UNSUPPORTED,
}


def read_content(value: Any, path: str) -> str:
    """The text itself, or the texts of the parts joined by a line break."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of parts")
    return "\n".join(_part(part, f"{path}[{index}]") for index, part in enumerate(value))


def _part(value: Any, path: str) -> str:
    fields = Fields.of(value, path)
    kind = fields.required_text("type")
    if kind in TEXT_PARTS:
        return fields.required_text(TEXT_PARTS[kind])
    if kind in MEDIA_PARTS:
        message = f"{path}: the model reads text only and cannot take a part of type {kind!r}."
        raise RequestError(MEDIA_PARTS[kind], message, param=path)
    message = f"{path}: parts of type {kind[:40]!r} are not supported."
    raise RequestError(Code.UNSUPPORTED_CONTENT_PART, message, param=path)
