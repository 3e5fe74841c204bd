"""Every setting of a runtime and its server, in one frozen class.

The class is the only list: the command line, the environment, the config file and the reports
are made from it (`runtime.config`), so a setting has one name and one rule everywhere. Names
and defaults follow the wire contract, section 15; units are in the names, `_s` is seconds.
"""

from __future__ import annotations

import functools
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import attrs
import msgspec
import platformdirs

from headrace.runtime.errors import SettingError

MIB = 1 << 20
GIB = 1 << 30

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
CountOrZero: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
# A year bounds what a clock is asked to wait for; it also keeps infinity out.
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]
SecondsOrZero: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=31_536_000)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Temperature: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=100)]
Question: TypeAlias = Literal["noul", "choice", "score"]


def setting(default: Any, summary: str, *, secret: bool = False) -> Any:
    """A field with its default and the line that explains it; a secret is shown nowhere."""
    return attrs.field(
        default=default, repr=not secret, metadata={"help": summary, "secret": secret}
    )


def home_folder() -> Path:
    return platformdirs.user_cache_path("headrace")


def each_question_at_one() -> dict[Question, float]:
    return {"noul": 1.0, "choice": 1.0, "score": 1.0}


@attrs.frozen(kw_only=True)
class Settings:
    """Validated once, when made: a `Settings` that exists is a good one.

    Raises `SettingError`, which names the setting. Values are read strictly: `True` is no
    number and `"8080"` no port. Lists become tuples and tables are copied.
    """

    # -- models
    model: Text | None = setting(None, "model to serve: a folder or a hub id; none: the default")
    models: tuple[Text, ...] = setting((), "more models to load at the start")
    aliases: tuple[str, ...] = setting(
        ("default", "local", ""), 'names of the current model; "" stands for no name'
    )
    model_names: dict[Text, Text] = setting(attrs.Factory(dict), "names of our own for model ids")
    unknown_model: Literal["error", "current"] = setting(
        "error", "how a name that no model has is answered: error, or current model"
    )
    home: Path = setting(attrs.Factory(home_folder), "folder of what is fetched and converted")
    in_process: bool | None = setting(
        None, "run models in this process; none: a server gives each a process of its own"
    )

    # -- the front door
    host: Text = setting("127.0.0.1", "address to listen on")
    port: Port = setting(8080, "port to listen on; 0: any free one")
    allowed_hosts: tuple[Text, ...] = setting((), "host names answered besides loopback ones")
    allowed_origins: tuple[Text, ...] = setting((), "web origins that may call; *: all")
    cors_credentials: bool = setting(False, "let allowed origins send credentials")
    api_keys: tuple[Text, ...] = setting((), "keys that let a client in; none: all", secret=True)
    api_keys_file: Path | None = setting(None, "file of more such keys, one a line; # comments")
    metrics_public: bool = setting(False, "show /metrics without a key")
    tls_certificate: Path | None = setting(
        None, "PEM file of the certificate and those above it; with it clients speak TLS"
    )
    tls_key: Path | None = setting(None, "PEM file of the certificate's key, without a passphrase")

    # -- limits on what a client sends and how long it takes
    max_body_bytes: Bytes = setting(64 * MIB, "size of a JSON body, also after decoding")
    max_upload_bytes: Bytes = setting(256 * MIB, "size of a multipart or audio body")
    header_timeout_s: Seconds = setting(30.0, "seconds for a request's head")
    body_idle_s: Seconds = setting(30.0, "seconds between two bytes of a body")
    body_total_s: Seconds = setting(300.0, "seconds for a whole body")
    keepalive_s: SecondsOrZero = setting(10.0, "seconds of silence before a sign of life; 0: none")
    write_stall_s: Seconds = setting(30.0, "seconds without reading before a client counts as gone")
    allow_private_media: bool = setting(False, "fetch media from private addresses too")

    # -- admission and the batch
    queue_limit: CountOrZero = setting(64, "requests that may wait for one model")
    queue_timeout_s: SecondsOrZero = setting(600.0, "seconds a request may wait; 0: for ever")
    request_timeout_s: SecondsOrZero = setting(0.0, "seconds a request may take; 0: for ever")
    max_rows: Count = setting(32, "rows that one model generates at a time")
    max_n: Count = setting(16, "choices that one request may ask for")
    prefill_chunk_tokens: Count = setting(512, "most prompt tokens between two decode steps")
    prefill_chunk_s: SecondsOrZero = setting(
        0.25, "seconds that such a chunk may take; 0: as long as its tokens take"
    )
    blas_threads: Count = setting(1, "BLAS threads on a CPU; more than 1 only with idle cores")

    max_requests_per_client: CountOrZero = setting(
        0, "requests that one client may have under way; 0: as many as there are places"
    )

    # -- memory
    memory_budget_bytes: Bytes | None = setting(
        None, "most bytes in use; none: what the device has, or 3/4 of RAM"
    )
    model_budget_bytes: Bytes | None = setting(
        None, "most bytes of resident models; none: the memory budget"
    )
    prompt_cache_bytes: Bytes = setting(8 * GIB, "most bytes of kept prompt prefixes")
    prompt_cache_disk_bytes: Bytes = setting(
        0, "most bytes a model keeps of them on disk, over restarts; 0: none"
    )

    idle_unload_s: SecondsOrZero = setting(
        0.0, "seconds unused until a model is unloaded; 0: never"
    )

    # -- ends and failures
    shutdown_timeout_s: SecondsOrZero = setting(30.0, "seconds for requests to end at a stop")
    step_timeout_s: Seconds = setting(60.0, "seconds after which a step counts as hung")
    restart_limit: CountOrZero = setting(3, "restarts of a model allowed in one period")
    restart_period_s: Seconds = setting(60.0, "seconds over which restarts are counted")

    # -- answers
    thinking: Literal["model", "on", "off"] = setting("model", "think when a request does not say")
    embedding_pooling: Literal["none", "last", "mean"] = setting(
        "none", "how a plain text model embeds; none: it does not"
    )
    responses_file: Text | None = setting(
        None, "file of stored responses; none: in memory, or one in the home folder of a server"
    )
    responses_ttl_s: Seconds = setting(3600.0, "seconds a stored response is kept")
    responses_store_bytes: Bytes = setting(32 * MIB, "most bytes of stored responses")
    jobs_folder: Text | None = setting(
        None, "folder of jobs; none: a temporary one, or one in the home folder of a server"
    )
    memory_folders: tuple[Text, ...] = setting(
        (), "folders that notes may be written below, besides memory in the home folder"
    )
    job_queue_limit: CountOrZero = setting(64, "jobs of one kind that may wait")
    batch_rows: Count = setting(4, "lines of a batch that run at a time, while nobody else waits")
    files_store_bytes: Bytes = setting(4 * GIB, "most bytes of the files of batches")
    decision_max_questions: Count = setting(400, "questions in one decision request")
    decision_temperature: dict[Question, Temperature] = setting(
        attrs.Factory(each_question_at_one), "temperature by kind of question; missing: 1"
    )

    # -- operation
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "least level logged")
    log_json: bool = setting(False, "log one JSON object a line")
    debug_trace: bool = setting(
        False, "show recent actor messages at /debug/trace, to clients on this machine"
    )
    otel: bool = setting(
        False, "send spans by OpenTelemetry; its OTEL_ variables say where, and under which name"
    )
    test_jobs: bool = setting(False, "offer the job kinds that exist for tests")

    def __attrs_post_init__(self) -> None:
        for name in kinds():
            object.__setattr__(self, name, checked(name, getattr(self, name)))

    def public(self) -> dict[str, Any]:
        """Name to plain value, without the secrets: for reports and logs."""
        return {
            field.name: plain(getattr(self, field.name))
            for field in attrs.fields(Settings)
            if not field.metadata["secret"]
        }


@functools.cache
def kinds() -> dict[str, Any]:
    """Each setting's annotation, bounds included, in the order of the class."""
    hints = typing.get_type_hints(Settings, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(Settings)}


def checked(name: str, value: Any) -> Any:
    """`value` in the setting's own type. Raises `SettingError` without repeating the value."""
    kind = kinds()[name]
    if typing.get_origin(kind) is Literal and value not in typing.get_args(kind):
        raise SettingError(f"{name}: expected one of {', '.join(typing.get_args(kind))}")
    try:
        return msgspec.convert(value, kind, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise SettingError(f"{name}: {_lower(str(error))}") from None


def plain(value: Any) -> Any:
    """A setting's value as JSON and TOML can hold it."""
    return msgspec.to_builtins(value, enc_hook=str)


def _path(kind: type, value: object) -> Path:
    if not isinstance(value, str | Path) or value == "":
        raise ValueError("expected a path")
    return Path(value).expanduser()


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
