"""How the run of a job ended, and its failures in words for who asked for it. Pure."""

from __future__ import annotations

import sqlite3
from typing import Literal, TypeAlias

import attrs

from headrace.actors.jobs.job import CANCELLED, Result
from headrace.runtime.errors import RequestError

UNFORESEEN = "The job failed unexpectedly."


@attrs.frozen
class Ending:
    """`error` says why it is not done; then the result has a summary at most."""

    status: Literal["done", "failed", "cancelled"]
    result: Result = attrs.field(factory=Result)
    error: str = ""


CANCELLED_BY_CLIENT = Ending("cancelled", error=CANCELLED)
CLOSING = Ending("cancelled", error="The server was stopped.")

_Failure: TypeAlias = BaseException | BaseExceptionGroup[BaseException]


def failed(error: _Failure) -> Ending:
    told = first(error)
    details = told.info.details if isinstance(told, RequestError) else None
    return Ending("failed", Result(summary=details), words(told))


def first(error: _Failure) -> BaseException:
    """Of errors that came together, the first that says something."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [first(part) for part in error.exceptions]
    return next((part for part in found if foreseen(part)), found[0])


def foreseen(error: BaseException) -> bool:
    return isinstance(error, RequestError | OSError | sqlite3.Error)


def words(error: BaseException) -> str:
    """Of an error that nobody foresaw nothing gets out."""
    if isinstance(error, RequestError):
        return error.info.message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    if isinstance(error, sqlite3.Error):
        return "The jobs' database could not be written."
    return UNFORESEEN
