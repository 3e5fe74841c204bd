"""transformers, imported with one look into its models' files in place of two.

It looks into some 2,600 files for the names that it could give, once for itself and once for the
package of its models. Each look takes 0.5 s of processor time, an eighth of a load.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import transformers
from transformers.utils import import_utils


def import_models() -> None:
    """Import that package with what the first look has found; whatever else it does is its own.
    Where transformers does it in another way, nothing is gained and nothing lost."""
    look = getattr(import_utils, "define_import_structure", None)
    if look is None:
        return
    models = Path(transformers.__file__).parent / "models"

    def known(path: Any, prefix: str | None = None) -> Any:
        if prefix is not None or Path(path) != models / "__init__.py":
            return look(path, prefix)
        return _within(look(models, prefix="models"))  # which transformers keeps

    import_utils.define_import_structure = known
    try:
        importlib.import_module("transformers.models")
    finally:
        import_utils.define_import_structure = look


def _within(structure: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """The same seen from the package; what transformers has added for itself is left out."""
    return {
        backends: {
            name.removeprefix("models."): names
            for name, names in found.items()
            if name.startswith("models.")
        }
        for backends, found in structure.items()
    }
