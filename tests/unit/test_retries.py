"""Calls of a service that are made again: after which errors, after how long, how often, and what is logged."""

import errno
import logging
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from graph_retrievers.errors import InvalidVectorError, TimeLimitError
from graph_retrievers.signals import retries
from graph_retrievers.signals.retries import Retries, is_transient, retry_after


def failure(name="APIError", bases=(Exception,), **attributes):
    """An error as a client of a service raises it."""
    error = type(name, bases, {})("it failed")
    vars(error).update(attributes)
    return error


def caused(error, cause):
    error.__cause__ = cause
    return error


def boto(status, **headers):
    return failure("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers}})


def http_error(status, **headers):
    found = Message()
    for name, value in headers.items():
        found[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://127.0.0.1", status, "told", found, None)


PASSING = [
    *(failure(status_code=status) for status in (408, 429, 500, 503, 529)),
    failure(http_status=502),
    failure(code=429),
    failure(status=504),
    failure(response=SimpleNamespace(status_code=429)),
    boto(429),
    http_error(503),
    *(failure(name) for name in ("RateLimitError", "APITimeoutError", "TimeoutException", "APIConnectionError")),
    # A class below one of these names, as ConnectError of httpx.
    failure("ConnectError", (type("NetworkError", (Exception,), {}),)),
    TimeoutError(),
    ConnectionRefusedError(),
    urllib.error.URLError(ConnectionRefusedError()),
    caused(failure("GoogleError"), failure(code=429)),
    # Lost connections, by the classes of aiohttp and by the number of an OSError; also as the cause of another error.
    failure("ServerDisconnectedError", (type("ClientConnectionError", (Exception,), {}),)),
    failure("ClientConnectorError", (type("ClientOSError", (type("ClientConnectionError", (Exception,), {}), OSError), {}),)),
    failure("ClientPayloadError"),
    OSError(errno.EHOSTUNREACH, "no route"),
    caused(failure("Wrapped"), caused(failure("Wrapper"), OSError(errno.ENETUNREACH, "no network"))),
]
FINAL = [
    *(failure(status_code=status) for status in (400, 401, 403, 404, 413, 422)),
    # The status counts, not the name.
    failure("RateLimitError", status_code=400),
    failure("RateLimitError", status_code=429, code="insufficient_quota"),
    failure(),
    failure(code="429"),
    failure(status_code=True),
    ValueError("429"),
    failure("Late", (ValueError,), status_code=429),
    TypeError(),
    KeyboardInterrupt(),
    caused(failure(), ValueError()),
    caused(again := failure(), again),
    PermissionError(errno.EACCES, "not yours"),
    FileNotFoundError(errno.ENOENT, "no such file"),
    caused(failure(status_code=400), TimeoutError()),
    InvalidVectorError("NaN"),
    TimeLimitError("over"),
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_is_tried_again(error):
    assert is_transient(error)


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_what_stays_is_not_tried_again(error):
    assert not is_transient(error)


def test_the_pause_that_a_service_asks_for_is_read():
    assert retry_after(failure(response=SimpleNamespace(headers={"retry-after": "7"}))) == 7
    assert retry_after(failure(headers={"Retry-After": "1.5"})) == 1.5
    assert retry_after(http_error(429, Retry_After="3")) == 3
    assert retry_after(boto(429, **{"retry-after": "4"})) == 4
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 95 < retry_after(http_error(429, Retry_After=moment)) <= 100
    for unreadable in (
        {},
        {"Retry-After": "soon"},
        {"Retry-After": "-3"},
        None,
        5,
        {"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"},
    ):
        assert retry_after(failure(headers=unreadable)) == 0
    assert retry_after(TimeoutError()) == 0


class Clock:
    """A clock that a pause moves, in place of the real one."""

    def __init__(self, monkeypatch, again):
        self.now, self.pauses = 1000.0, []
        monkeypatch.setattr(retries.time, "monotonic", lambda: self.now)
        again._stopped.wait = self.wait

    def wait(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def failing(times, error=None):
    """A call that fails some times, and the list of its attempts."""
    asked = []

    def call():
        asked.append(len(asked))
        if len(asked) <= times:
            raise error or failure("RateLimitError")
        return "answer"

    return call, asked


def test_pauses_grow_and_are_not_the_same_for_two_callers(monkeypatch):
    found = []
    for _ in range(2):
        clock = Clock(monkeypatch, again := Retries(6, "A service"))
        call, asked = failing(5)
        assert again(call) == "answer" and len(asked) == 6
        assert all(2**step <= pause <= 1.5 * 2**step for step, pause in enumerate(clock.pauses)), clock.pauses
        found.append(clock.pauses)
    assert found[0] != found[1]


def test_a_longer_pause_that_is_asked_for_is_kept(monkeypatch):
    clock = Clock(monkeypatch, again := Retries(6, "A service"))
    call, _ = failing(1, http_error(429, Retry_After="30"))
    assert again(call) == "answer"
    assert 30 <= clock.pauses[0] <= 30.5


@pytest.mark.parametrize("most", [0, 3])
def test_after_so_many_attempts_the_error_is_raised(monkeypatch, most):
    Clock(monkeypatch, again := Retries(most, "A service"))
    call, asked = failing(99, error := failure("RateLimitError"))
    with pytest.raises(type(error)) as raised:
        again(call)
    assert raised.value is error and len(asked) == most + 1


def test_after_ten_minutes_the_error_is_raised(monkeypatch):
    clock = Clock(monkeypatch, again := Retries(10**6, "A service"))
    call, asked = failing(10**6)
    with pytest.raises(Exception, match="it failed"):
        again(call)
    assert 500 < clock.now - 1000 < 600 and 10 < len(asked) < 20
    # A pause that would end later is not begun.
    clock.pauses.clear()
    call, asked = failing(1, http_error(429, Retry_After="3600"))
    with pytest.raises(urllib.error.HTTPError):
        again(call)
    assert asked == [0] and clock.pauses == []


def test_an_error_that_stays_is_raised_at_once(monkeypatch):
    clock = Clock(monkeypatch, again := Retries(6, "A service"))
    call, asked = failing(1, failure(status_code=401))
    with pytest.raises(Exception, match="it failed"):
        again(call)
    assert asked == [0] and clock.pauses == []


def test_a_burst_of_failures_is_one_warning(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "graph_retrievers")
    clock = Clock(monkeypatch, again := Retries(6, "The model 'm'"))
    for _ in range(8):
        again(failing(2)[0])
    loud = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert loud[0].startswith("The model 'm' failed (RateLimitError: it failed); the request is sent again in 1.")
    assert len(loud) == 1 and len(caplog.records) == 16
    clock.now += 60
    again(failing(1)[0])
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 2
