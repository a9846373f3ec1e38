"""Whether parts of requests were replaced for the whole process."""

import functools
import sys
from unittest import mock

import pytest
import requests
import urllib3

from mcplite.net.routes import requests_is_patched


class Other(requests.Session):
    def send(self, request, **options):
        return super().send(request, **options)


class Wrapper:
    """An object that looks like what it wraps, as those of tracing libraries do."""

    def __init__(self, wrapped):
        self.__wrapped__ = wrapped

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)


def wrapped(function):
    @functools.wraps(function)
    def replacement(*arguments, **options):
        return function(*arguments, **options)

    return replacement


PLACES = [(requests.Session, "request"), (requests.Session, "send"), (requests.Session, "get_adapter"),
          (requests.adapters.HTTPAdapter, "send"), (urllib3.connectionpool.HTTPConnectionPool, "urlopen")]


def test_nothing_is_replaced():
    assert not requests_is_patched()


@pytest.mark.parametrize("owner, name", PLACES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("replace", [wrapped, Wrapper, mock.MagicMock])
def test_a_method_was_replaced(monkeypatch, owner, name, replace):
    monkeypatch.setattr(owner, name, replace(getattr(owner, name)))
    assert requests_is_patched()


def test_the_class_was_replaced(monkeypatch):
    monkeypatch.setattr(requests, "Session", Other)
    assert requests_is_patched()


def test_the_connections_were_replaced(monkeypatch):
    class Recording(urllib3.connection.HTTPConnection):
        pass

    monkeypatch.setattr(urllib3.connectionpool.HTTPConnectionPool, "ConnectionCls", Recording)
    assert requests_is_patched()


@pytest.mark.parametrize("missing", ["requests", "urllib3.connectionpool"])
def test_what_is_not_loaded_was_not_replaced(monkeypatch, missing):
    monkeypatch.delitem(sys.modules, missing)
    assert not requests_is_patched()
    assert missing not in sys.modules
