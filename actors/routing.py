"""Which model a name means. Pure (wire contract 2.1)."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

import attrs

from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import Warning_
from headrace.runtime.errors import Code, RequestError

KNOWN_MODELS_SHOWN = 50


@attrs.frozen
class Names:
    """The rules for names. `aliases` mean the current model, "" among them an absent name."""

    aliases: tuple[str, ...] = ("default", "local", "")
    # Further names of models, by name.
    model_names: Mapping[str, str] = attrs.field(factory=dict)
    # Where models are, each with its id: a folder is its model, however it was written.
    places: Mapping[str, str] = attrs.field(factory=dict)
    # Whether a name that nobody has is answered by the current model, with a warning.
    unknown_is_current: bool = False


@attrs.frozen
class Route:
    """The id of the model that answers, and what the client must be told about it."""

    model_id: str
    warnings: tuple[Warning_, ...] = ()


def route(name: str | None, names: Names, known: Collection[str], current: str | None) -> Route:
    """Where a request goes that asked for `name`.

    Raises `RequestError`: missing_field, model_not_found with the known ids, no_current_model.
    """
    asked = name or ""
    if asked in known:
        return Route(asked)
    if (meant := _meant(asked, names, known)) is not None:
        return Route(meant)
    if asked in names.aliases:
        return Route(_current(current))
    if not asked:
        raise RequestError(Code.MISSING_FIELD, "The field 'model' is required.", param="model")
    if names.unknown_is_current:
        answering = _current(current)
        text = f"there is no model {asked!r}; {answering!r} answered"
        return Route(answering, (Warning_("model_fallback", text, "model"),))
    shown = sorted(known)[:KNOWN_MODELS_SHOWN]
    raise RequestError(
        Code.MODEL_NOT_FOUND,
        f"The model {asked!r} does not exist. Known models: {', '.join(shown) or 'none'}.",
        param="model",
        details={"known_models": shown},
    )


def only_companion(specs: Mapping[str, ModelSpec]) -> str | None:
    """The id of the companion that answers where no model is current: there must be no other."""
    companions = [spec.id for spec in specs.values() if spec.role == "companion"]
    return companions[0] if len(companions) == 1 else None


def _meant(asked: str, names: Names, known: Collection[str]) -> str | None:
    """The id that stands behind a further name or a place."""
    name = names.model_names.get(asked, asked)
    # By the letters alone: what a client made up is not looked for on the disk.
    places = (name, posixpath.normpath(name)) if name else ()
    ids = (name, *(names.places[place] for place in places if place in names.places))
    return next((model_id for model_id in ids if model_id in known), None)


def _current(current: str | None) -> str:
    if current is None:
        raise RequestError(Code.NO_CURRENT_MODEL, "No model is current; name one.", param="model")
    return current
