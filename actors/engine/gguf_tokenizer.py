"""A Hugging Face tokenizer.json and its companions, rebuilt from GGUF metadata.

Two kinds exist: "gpt2" (byte-level BPE with a list of merges) and "llama" (SentencePiece BPE,
where merges follow from the scores). A byte-level tokenizer also needs its pre-tokenizer, which
GGUF gives by name only; a name that is not in the table is refused, because a wrong split
gives plausible but different token ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.runtime.errors import Code, RequestError

Json = dict[str, Any]

# Values of tokenizer.ggml.token_type.
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_DIGIT = {"type": "Digits", "individual_digits": True}

# The split patterns are those of the models' own published tokenizer files.
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def _split(pattern: str) -> list[Json]:
    isolated = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return [{**isolated, "invert": False}, {**_BYTE_LEVEL, "use_regex": False}]


# tokenizer.ggml.pre -> (pre-tokenizer steps, NFC normalizer, take whole words before merging)
_PRE_TOKENIZERS: dict[str, tuple[list[Json], bool, bool]] = {
    "gpt-2": ([{**_BYTE_LEVEL, "use_regex": True}], False, False),
    "smollm": ([_DIGIT, {**_BYTE_LEVEL, "use_regex": True}], False, False),
    "llama-bpe": (_split(_LLAMA3_SPLIT), False, True),
    "qwen2": (_split(_QWEN2_SPLIT), True, False),
}


def tokenizer_json(metadata: Json) -> Json:
    """The content of tokenizer.json. Raises `RequestError` (load-failed) for unknown kinds."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        parts = _byte_level(metadata)
    elif kind == "llama":
        parts = _sentence_piece(metadata)
    else:
        raise _unsupported(f"tokenizer kind {kind!r}", ["gpt2", "llama"])
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(metadata),
        "post_processor": _post_processor(metadata, kind),
        **parts,
    }


def tokenizer_config(metadata: Json, context_window: int) -> Json:
    """The content of tokenizer_config.json, with the chat template where there is one."""
    tokens = _listed(metadata, "tokens")
    config: Json = {
        # The class that takes tokenizer.json as it is; the named ones rebuild parts of it.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context_window,
    }
    names = (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    for ours, theirs in names:
        if (token := metadata.get(f"tokenizer.ggml.{theirs}_token_id")) is not None:
            config[f"{ours}_token"] = tokens[token]
    if template := metadata.get("tokenizer.chat_template"):
        config["chat_template"] = template
    return config


def generation_config(metadata: Json) -> Json:
    """The content of generation_config.json: which ids begin, end and pad a text."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = [metadata.get(f"tokenizer.ggml.{key}") for key in keys]
    config: Json = {"eos_token_id": list(dict.fromkeys(end for end in ends if end is not None))}
    for ours, theirs in (("bos", "bos"), ("pad", "padding")):
        if (token := metadata.get(f"tokenizer.ggml.{theirs}_token_id")) is not None:
            config[f"{ours}_token_id"] = token
    return config


def _unsupported(what: str, known: list[str]) -> RequestError:
    return RequestError(
        Code.LOAD_FAILED, f"GGUF {what} is not supported; supported: {', '.join(known)}"
    )


def _listed(metadata: Json, name: str) -> list[Any]:
    found = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, list):
        raise RequestError(Code.LOAD_FAILED, f"the GGUF file has no tokenizer.ggml.{name}")
    return found


def _byte_level(metadata: Json) -> Json:
    name = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if name not in _PRE_TOKENIZERS:
        raise _unsupported(f"pre-tokenizer {name!r}", sorted(_PRE_TOKENIZERS))
    steps, composed, whole_words = _PRE_TOKENIZERS[name]
    tokens = _listed(metadata, "tokens")
    # Neither half of a merge is empty, so the separating space is never at index 0.
    merges = [
        [merge[:at], merge[at + 1 :]]
        for merge in _listed(metadata, "merges")
        for at in [merge.index(" ", 1)]
    ]
    return {
        "normalizer": {"type": "NFC"} if composed else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": _bpe(tokens, merges, ignore_merges=whole_words),
    }


def _sentence_piece(metadata: Json) -> Json:
    tokens = _listed(metadata, "tokens")
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    to_space: Json = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    to_mark: Json = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizers = [{"type": "Prepend", "prepend": "▁"}, to_mark] if prefix else [to_mark]
    decoders: list[Json] = [to_space, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    model = _bpe(tokens, list(_merges_by_score(metadata)), fuse_unk=True, byte_fallback=True)
    if (unknown := metadata.get("tokenizer.ggml.unknown_token_id")) is not None:
        model["unk_token"] = tokens[unknown]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }


def _bpe(tokens: list[str], merges: list[list[str]], **settings: bool) -> Json:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": merges,
        **settings,
    }


def _merges_by_score(metadata: Json) -> Iterator[list[str]]:
    """Every split of a piece into two known pieces, best score of the whole piece first.

    SentencePiece joins the neighbours whose union scores highest; this order makes BPE do so.
    """
    tokens, scores = _listed(metadata, "tokens"), _listed(metadata, "scores")
    kinds = _listed(metadata, "token_type")
    ids = {token: i for i, token in enumerate(tokens) if kinds[i] == _NORMAL}
    found = [
        (-scores[whole], ids[token[:at]], ids[token[at:]], token[:at], token[at:])
        for token, whole in ids.items()
        for at in range(1, len(token))
        if token[:at] in ids and token[at:] in ids
    ]
    return ([left, right] for *_, left, right in sorted(found))


def _added_tokens(metadata: Json) -> list[Json]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    return [
        {"id": number, "content": token, **plain, "special": kind == _CONTROL}
        for number, (token, kind) in enumerate(
            zip(_listed(metadata, "tokens"), kinds, strict=False)
        )
        if kind in (_CONTROL, _USER_DEFINED)
    ]


def _post_processor(metadata: Json, kind: str) -> Json | None:
    """Puts the begin token first where the model was trained so."""
    begins = kind == "llama" or metadata.get("tokenizer.ggml.pre") == "llama-bpe"
    begin = metadata.get("tokenizer.ggml.bos_token_id")
    if begin is None or not metadata.get("tokenizer.ggml.add_bos_token", begins):
        return None
    token = _listed(metadata, "tokens")[begin]
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    text = [{"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B")]
    return {
        "type": "TemplateProcessing",
        "single": [special, text[0]],
        "pair": [special, text[0], special, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [begin], "tokens": [token]}},
    }
