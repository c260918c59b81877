"""Repeated calls of a service: which errors pass, how long to wait, and when to give up."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any, TypeVar

from graph_retrievers.concurrency import seconds_to_end
from graph_retrievers.errors import GraphRetrieverError, reason

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

# Seconds: the first pause, which doubles; the longest pause of our own; all attempts of a call together.
_FIRST, _LONGEST, _TOTAL = 1.0, 60.0, 600.0
# Seconds between two warnings.
_QUIET = 60.0
# Not the generator of the program, and none that forked processes share.
_CHANCE = random.SystemRandom()

# Names of exceptions without a status, or of one of their classes, in the clients of many services.
_NAMES = {
    *("RateLimitError", "TooManyRequests", "TooManyRequestsError", "ResourceExhausted"),
    *("TimeoutError", "Timeout", "APITimeoutError", "TimeoutException", "ReadTimeoutError", "ConnectTimeoutError"),
    *("ConnectionError", "APIConnectionError", "NetworkError", "RemoteProtocolError", "EndpointConnectionError"),
    *("InternalServerError", "ServiceUnavailable", "ServiceUnavailableError", "DeadlineExceeded"),
    # Lost connections of aiohttp, urllib3, requests, http.client, asyncio and ssl; a name that DNS does not answer now.
    *("ClientConnectionError", "ClientPayloadError", "ProtocolError", "NewConnectionError", "MaxRetryError"),
    *("ChunkedEncodingError", "IncompleteRead", "IncompleteReadError", "SSLEOFError", "SSLZeroReturnError", "gaierror"),
}
# What an OSError has whose class does not say that a connection failed.
_NETWORK_ERRORS = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
}


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed later: too many requests, a time-out, a failure of the server or of the connection.

    The status of HTTP decides where the error has one: 408, 429 and from 500 on. Otherwise the name of one of its classes does,
    the number of an OSError, or the error that caused it. A ValueError, a TypeError and the errors of this package never pass.

    Examples
    --------
    >>> is_transient(TimeoutError()), is_transient(ConnectionResetError()), is_transient(ValueError())
    (True, True, False)
    """
    # A chain may lead back to its beginning.
    visited: set[int] = set()
    cause: Any = error
    while isinstance(cause, Exception) and id(cause) not in visited:
        passes = _passes(cause)
        if passes is not None:
            return passes
        visited.add(id(cause))
        # URLError of urllib has its cause as an attribute.
        cause = cause.__cause__ or getattr(cause, "reason", None)
    return False


def _passes(error: Exception) -> bool | None:
    """Return whether an error passes, as far as it says so itself; None if its cause decides."""
    if isinstance(error, (GraphRetrieverError, ValueError, TypeError)):
        return False
    # What OpenAI answers with status 429 when an account is empty; waiting does not fill it.
    if getattr(error, "code", None) == "insufficient_quota":
        return False
    status = status_of(error)
    if status is not None:
        return status in (408, 429) or status >= 500
    if any(kind.__name__ in _NAMES for kind in type(error).__mro__):
        return True
    return True if isinstance(error, OSError) and error.errno in _NETWORK_ERRORS else None


def status_of(error: Exception) -> int | None:
    """Return the status of HTTP that an error has; None if it has none."""
    response = getattr(error, "response", None)
    values = [getattr(error, name, None) for name in ("status_code", "http_status", "status", "code")]
    values += [getattr(response, name, None) for name in ("status_code", "status")]
    if isinstance(response, Mapping):
        # The errors of botocore have a mapping.
        values.append((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
    return next((int(value) for value in values if isinstance(value, int) and 100 <= value < 600), None)


def retry_after(error: BaseException) -> float:
    """Return the seconds that a service asks to wait, in the header ``Retry-After`` of an error's response; 0 if it does not."""
    response = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None)
    if isinstance(response, Mapping):
        headers = (response.get("ResponseMetadata") or {}).get("HTTPHeaders")
    headers = getattr(error, "headers", None) if headers is None else headers
    try:
        text = next((str(headers[name]) for name in headers or () if str(name).lower() == "retry-after"), "0")
        seconds = float(text) if text.replace(".", "", 1).isdigit() else _until(text)
        return max(seconds, 0.0)
    except (TypeError, ValueError, LookupError):
        return 0.0


def _until(text: str) -> float:
    moment = parsedate_to_datetime(text)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def pause_sentence(error: BaseException) -> str:
    """Return a sentence on the pause that a service asks for in an error; "" if it asks for none.

    Examples
    --------
    >>> error = ConnectionError()
    >>> error.headers = {"Retry-After": "3600"}
    >>> pause_sentence(error)
    'The service asks to wait 3,600 seconds before the next request (Retry-After).'
    """
    seconds = retry_after(error)
    return f"The service asks to wait {seconds:,.0f} seconds before the next request (Retry-After)." if seconds else ""


def _note(error: Exception) -> None:
    text = pause_sentence(error)
    if text and text not in getattr(error, "__notes__", ()):
        error.add_note(text)


class Retries:
    """Calls of one service, repeated while they fail with an error that passes (:func:`is_transient`).

    Pauses double from one second to one minute, each longer by a random part of up to a half, so that calls that failed together
    do not come again together. A longer ``Retry-After`` is respected. The last error is raised after `most` repetitions, or
    if the next attempt would begin more than ten minutes after the first, or after the time limit of the search
    (:func:`~graph_retrievers.concurrency.ending_in`). A note of the error then has the pause that the service asked for. A
    warning is logged at most once a minute. Any number of threads may call it.

    Parameters
    ----------
    most : int
        Repetitions of a call; 0 for none.
    what : str
        What is called, for the log.

    Examples
    --------
    >>> answers = iter([1])
    >>> Retries(3, "a service")(lambda: next(answers))
    1
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._label = most, what
        self._stopped, self._lock, self._last_warning, self.count = Event(), Lock(), float("-inf"), 0

    def stop(self) -> None:
        """End all pauses: a call that waits is made once more, and no other call is repeated."""
        self._stopped.set()

    def __call__(self, call: Callable[[], _T]) -> _T:
        """Return what `call` returns."""
        began = time.monotonic()
        try:
            return call()
        except Exception as error:
            failed = [error]
        from tenacity import Retrying

        def again() -> _T:
            if failed:
                # The first attempt, which most calls need alone.
                raise failed.pop()
            return call()

        try:
            return Retrying(sleep=self._sleep, **self._rules(time.monotonic() - began))(again)
        except Exception as error:
            _note(error)
            raise

    async def call_async(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `call` returns when it is awaited."""
        from tenacity import AsyncRetrying

        try:
            return await AsyncRetrying(sleep=asyncio.sleep, **self._rules())(call)
        except Exception as error:
            _note(error)
            raise

    def _rules(self, spent: float = 0.0) -> dict[str, Any]:
        from tenacity import retry_if_exception, stop_after_attempt, stop_before_delay, stop_when_event_set

        # Nobody reads an answer that comes after the caller's time limit.
        longest = stop_before_delay(max(min(_TOTAL - spent, seconds_to_end()), 0.0))
        return {
            "retry": retry_if_exception(is_transient),
            "wait": self._pause,
            "stop": stop_after_attempt(self._most + 1) | longest | stop_when_event_set(self._stopped),
            "before_sleep": self._log_repetition,
            "reraise": True,
        }

    def _pause(self, state: Any) -> float:
        delay = min(_FIRST * 2 ** (state.attempt_number - 1), _LONGEST)
        return max(delay, retry_after(state.outcome.exception())) + delay * _CHANCE.uniform(0, 0.5)

    def _sleep(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def _log_repetition(self, state: Any) -> None:
        with self._lock:
            self.count += 1
            warns = time.monotonic() - self._last_warning >= _QUIET
            self._last_warning = time.monotonic() if warns else self._last_warning
        logger.log(
            logging.WARNING if warns else logging.DEBUG,
            "%s failed (%s); the request is sent again in %.1f s, repetition %d of at most %d.",
            self._label,
            reason(state.outcome.exception()),
            state.upcoming_sleep,
            state.attempt_number,
            self._most,
        )
