"""Logins at an issuer of four workers: each page, token and attempt is any worker's, also after workers were killed."""

import collections
import os
import signal
import threading
from types import SimpleNamespace

import pytest

from tests.support.fleets import running_fleet, running_store
from tests.support.forks import POSIX_ONLY
from tests.support.issuers import Person, RawClient
from tests.support.processes import at_once, free_port, wait_until

pytestmark = POSIX_ONLY
STATUS = {403: "wrong", 429: "too many"}


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def fleet(request, tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("logins"), free_port()
    with running_store(request.param, folder) as (backend, _):
        with running_fleet("tests.support.issuing_app:application", folder, folder, backend, spread=True, port=port,
                           ISSUER_PORT=str(port)) as fleet:
            yield fleet


@pytest.fixture
def client(fleet):
    return RawClient(SimpleNamespace(url=fleet.url[:-len("/mcp")], endpoint=fleet.url), client_name="Desk")


def kill_all(fleet):
    """Kill all workers, and wait for those that the master starts in their place."""
    old = set(fleet.workers())
    for worker in old:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(set(fleet.workers()) - old) == 4)


def test_a_login_goes_through_all_workers(client):
    workers = set()
    for number in range(8):
        person = Person(f"user{number}")
        tokens = client.tokens(person)
        assert client.call(tokens["access_token"]).startswith(f"user{number} ")
        tokens = client.refresh(tokens["refresh_token"]).json()
        assert client.call(tokens["access_token"]).startswith(f"user{number} ")
        workers.update(page.headers["x-worker"] for page in person.pages)
    assert len(workers) > 1


def test_a_login_goes_on_although_the_workers_die_between_its_steps(fleet, client):
    person = Person("user9")
    page = person.get(client.request())
    kill_all(fleet)
    page = person.get(person.submit(page, username="user9", password="user9").headers["location"])
    kill_all(fleet)
    told = person.submit(page, decision="allow").headers["location"]
    kill_all(fleet)
    tokens = client.redeem(told.partition("code=")[2].partition("&")[0]).json()
    kill_all(fleet)
    assert client.call(tokens["access_token"]).startswith("user9 ")
    assert "access_token" in client.refresh(tokens["refresh_token"]).json()
    assert 'value="allow"' in person.get(client.request()).text  # the browser is still logged in


def test_all_workers_count_the_wrong_passwords_of_one_user_together(client):
    found, lock = collections.Counter(), threading.Lock()

    def guess(number):
        person = Person("user10", f"guess {number}")
        page = person.get(client.request())
        answer = person.submit(page, username=person.name, password=person.password)
        with lock:
            found[STATUS[answer.status_code]] += 1

    at_once(guess, range(16))
    assert found == {"wrong": 6, "too many": 10}


def test_a_grant_that_a_user_ends_at_one_worker_has_ended_at_all(client):
    person = Person("user11")
    tokens = client.tokens(person)
    assert client.call(tokens["access_token"]).startswith("user11 ")
    page = person.get(client.url + "/grants")
    assert person.submit(page, decision="end").is_redirect
    assert [client.call(tokens["access_token"]) for _ in range(8)] == ["refused"] * 8
    assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_of_one_code_at_all_workers_one_gets_tokens_at_most(client):
    code, answers = client.code(Person("user12"))["code"], []
    at_once(lambda: answers.append(client.redeem(code).json()), 8)
    assert len(answers) == 8 and sum("access_token" in answer for answer in answers) <= 1
