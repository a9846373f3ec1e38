"""Users: the password file and the command's changes to it, the cost of a check, the limit of attempts."""

import contextlib
import hashlib
import logging
import os
import stat
import threading

import pytest

from mcplite.auth.issuer import users as module
from mcplite.auth.issuer.users import (
    PasswordFile,
    PasswordLimit,
    TooManyAttempts,
    User,
    Users,
    change_user,
    hash_password,
    remove_user,
    user_from,
    user_members,
)
from mcplite.backend.memory import MemoryBackend
from mcplite.backend.sqlite import SQLiteBackend
from mcplite.errors import BackendError
from tests.support.fakes import Clock
from tests.support.processes import at_once

ANN, BOB = "correct horse", "battery staple"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Hashes that cost little; the parameters stand in each hash, so that nothing else differs."""
    monkeypatch.setattr(module, "_N", 16)
    monkeypatch.setattr(module, "_UNKNOWN", module._UNKNOWN._replace(n=16))


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "users.txt")
    change_user(path, "ann", ANN, new=True)
    change_user(path, "bob", BOB, ["notes:read", "notes:write"], new=True)
    return path


@pytest.fixture
def work(monkeypatch):
    """The parameters of each hash that is computed."""
    done = []
    original = hashlib.scrypt

    def scrypt(data, **options):
        done.append((options["n"], options["r"], options["p"], options["dklen"]))
        return original(data, **options)

    monkeypatch.setattr(hashlib, "scrypt", scrypt)
    return done


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "wb") as file:
        file.write(text.encode("utf-8"))
    os.chmod(path, 0o600)


# --- users ------------------------------------------------------------------------------------------------------

def test_a_user_is_shown_by_the_name_or_else_by_the_subject():
    assert User("u-17", "Ann").shown_name == "Ann"
    assert User("u-17").shown_name == "u-17"


def test_a_user_needs_a_subject():
    with pytest.raises(ValueError, match="subject"):
        User("")


def test_a_user_does_not_show_claims():
    assert "secret" not in repr(User("ann", claims={"key": "secret"}))


@pytest.mark.parametrize("user", [
    User("ann"), User("17", "Ann", "ann@example.com", ("staff",), frozenset({"b", "a"}), {"team": ["x"]}),
    User("none", scopes=frozenset()),
])
def test_a_stored_user_comes_back(user):
    found = user_from(user_members(user))
    assert found == user and found.claims == user.claims


@pytest.mark.parametrize("call", [lambda users: users.check("a", "b"), lambda users: users.find("a")])
def test_users_of_ones_own_say_how_to_look_up(call):
    with pytest.raises(NotImplementedError):
        call(Users())


# --- the file ---------------------------------------------------------------------------------------------------

def test_a_user_with_the_right_password_is_found(path):
    users = PasswordFile(path)
    assert users.check("ann", ANN) == User("ann")
    assert users.check("bob", BOB) == User("bob", scopes=frozenset({"notes:read", "notes:write"}))
    assert users.find("bob").scopes == {"notes:read", "notes:write"}


@pytest.mark.parametrize("name, password", [
    ("ann", BOB), ("ann", ""), ("ann", ANN + " "), ("ann", ANN[:-1]), ("ann", "x" * 100_000), ("Ann", ANN), ("", ANN),
    ("carol", ANN), ("#", ANN), ("ann:", ANN), ("a" * 100_000, ANN), ("ann\n", ANN), ("ann", "\ud800"), ("\ud800", ANN),
])
def test_a_wrong_name_or_password_finds_no_user(path, name, password):
    assert PasswordFile(path).check(name, password) is None


def test_one_text_in_two_normal_forms_is_one_name_and_one_password(path):
    change_user(path, "Zoe\u0301", "pa\u0301ss", new=True)
    assert PasswordFile(path).check("Zo\u00e9", "p\u00e1ss") == User("Zo\u00e9")


@pytest.mark.parametrize("name, password", [
    ("ann", ANN), ("ann", "wrong"), ("carol", "wrong"), ("", ""), ("ann", "x" * 5000), ("carol", "x" * 5000)])
def test_each_check_does_the_same_work(path, work, name, password):
    users = PasswordFile(path)
    work.clear()
    users.check(name, password)
    assert work == [(16, 8, 5, 32)]


def test_a_file_without_users_does_the_work_too(tmp_path, work, caplog):
    path = str(tmp_path / "users.txt")
    write(path, "# none yet\n")
    assert PasswordFile(path).check("ann", ANN) is None
    assert len(work) == 1 and "has no users" in caplog.text


def test_a_hash_has_its_parameters_and_a_salt_of_its_own():
    kind, n, r, p, salt, digest = hash_password(ANN).split("$")
    assert (kind, r, p) == ("scrypt", "8", "5") and int(n) & (int(n) - 1) == 0
    assert hash_password(ANN).split("$")[4:] != [salt, digest]


@pytest.mark.slow
def test_new_hashes_cost_what_guides_advise(monkeypatch):
    monkeypatch.undo()
    # OWASP's rows of equal strength: with 2**14 and eight blocks it takes five passes.
    assert hash_password(ANN).startswith("scrypt$16384$8$5$")


@pytest.mark.parametrize("password", ["", "x" * 1025, "\u00e9" * 600])
def test_a_password_that_cannot_be_hashed(password):
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        hash_password(password)


def test_a_hash_of_ones_own_table_is_checked(work):
    hash = module.hash_password("pa\u0301ss")
    work.clear()
    assert module.check_password("p\u00e1ss", hash) and not module.check_password("pass", hash)
    assert not module.check_password("x" * 5000, hash) and not module.check_password("", hash)
    assert not module.check_password("p\u00e1ss", None)
    assert len(set(work)) == 1 and len(work) == 5


@pytest.mark.parametrize("hash", ["", "x", "scrypt$1$2$3", "scrypt$3$8$1$AAAAAAAAAAAAAAAA$" + "A" * 43])
def test_a_malformed_hash_of_ones_own_table(hash):
    with pytest.raises(ValueError) as caught:
        module.check_password("x", hash)
    assert "AAAA" not in str(caught.value)


def test_comments_blank_lines_and_line_ends_of_windows(path):
    write(path, "\ufeff# people\r\n\r\n" + text_of(path).replace("\n", "\r\n"))
    users = PasswordFile(path)
    assert users.check("ann", ANN) and users.find("bob").scopes == {"notes:read", "notes:write"}


def test_an_empty_list_of_scopes_is_no_scope(path):
    change_user(path, "ann", None, [], new=False)
    assert PasswordFile(path).find("ann").scopes == frozenset()


GOOD = "scrypt$16$8$5$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("line, problem", [
    ("carol", "no colon"),
    ("carol:", "set the password again"),
    ("carol:plain", "set the password again"),
    ("carol:$apr1$abc$def", "set the password again"),
    ("carol:scrypt$16$8$5$AAAA", "set the password again"),
    ("carol:scrypt$x$8$5$AAAAAAAAAAAAAAAA$" + "A" * 43, "must be numbers"),
    ("carol:scrypt$16$8$5$A!AAAAAAAAAAAAAA$" + "A" * 43, "base64url"),
    ("carol:scrypt$15$8$5$AAAAAAAAAAAAAAAA$" + "A" * 43, "power of 2"),
    ("carol:scrypt$0$8$5$AAAAAAAAAAAAAAAA$" + "A" * 43, "power of 2"),
    ("carol:scrypt$16$-8$5$AAAAAAAAAAAAAAAA$" + "A" * 43, "power of 2"),
    ("carol:scrypt$1073741824$8$1$AAAAAAAAAAAAAAAA$" + "A" * 43, "MiB"),
    ("carol:scrypt$16384$8$17$AAAAAAAAAAAAAAAA$" + "A" * 43, "at most 16"),
    ("carol:scrypt$16$8$5$AAAA$" + "A" * 43, "at least 8 bytes"),
    ("carol:scrypt$16$8$5$AAAAAAAAAAAAAAAA$AAAA", "16 to 64"),
    (":" + GOOD, "1 to 128 characters"),
    (" carol:" + GOOD, "cannot be a name"),
    ("car\u202eol:" + GOOD, "cannot be a name"),
    ("x" * 129 + ":" + GOOD, "1 to 128 characters"),
    ("ann:" + GOOD, "earlier line"),
    ("carol:" + GOOD + ":a\"b", "is not a scope"),
    ("carol:" + GOOD + ":offline_access", "leave it out"),
])
def test_a_malformed_line_is_named_and_no_hash_is_shown(path, line, problem):
    write(path, text_of(path) + "# more\n" + line + "\n")
    with pytest.raises(ValueError, match="line 4: ") as caught:
        PasswordFile(path)
    assert problem in str(caught.value) and "AAAA" not in str(caught.value)


def test_a_file_that_is_not_utf_8(path):
    with open(path, "ab") as file:
        file.write(b"J\xf6rg:" + GOOD.encode() + b"\n")
    with pytest.raises(ValueError, match="line 3: it is not UTF-8"):
        PasswordFile(path)


def test_a_missing_file_says_how_to_make_it(tmp_path):
    with pytest.raises(ValueError, match="python -m mcplite users add .*users.txt NAME"):
        PasswordFile(tmp_path / "users.txt")


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_refused(path, mode):
    os.chmod(path, mode)
    with pytest.raises(ValueError, match="chmod go-w"):
        PasswordFile(path)


# --- a file that changes ------------------------------------------------------------------------------------------

def test_a_change_counts_at_once(path):
    users = PasswordFile(path)
    change_user(path, "carol", "third", new=True)
    change_user(path, "ann", "new password", new=False)
    remove_user(path, "bob")
    assert users.check("carol", "third") and users.check("ann", "new password")
    assert users.check("ann", ANN) is None and users.check("bob", BOB) is None and users.find("bob") is None


def test_a_line_that_becomes_malformed_costs_its_user_alone(path, caplog):
    users = PasswordFile(path)
    write(path, text_of(path).replace("ann:scrypt", "ann:crypt"))
    assert users.check("ann", ANN) is None and users.check("bob", BOB)
    assert "line 1" in caplog.text and [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_file_that_is_gone_is_an_error_and_no_wrong_password(path):
    users = PasswordFile(path)
    os.unlink(path)
    for look in (lambda: users.check("ann", ANN), lambda: users.find("ann")):
        with pytest.raises(OSError):
            look()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_file_that_others_can_write_from_now_on_is_not_believed(path):
    users = PasswordFile(path)
    change_user(path, "ann", "new password", new=False)
    os.chmod(path, 0o622)
    with pytest.raises(OSError, match="chmod go-w"):
        users.check("ann", ANN)


def test_few_checks_run_at_once(path, monkeypatch):
    users = PasswordFile(path)
    running, most, entered, go = [], [], threading.Semaphore(0), threading.Event()

    def slow(hash, password):
        running.append(password)
        most.append(len(running))
        entered.release()
        go.wait(30)
        running.remove(password)
        return hash.digest

    monkeypatch.setattr(module._PasswordHash, "of", slow)
    def check(number):
        with contextlib.suppress(TimeoutError):  # it began once turns had become short
            users.check("ann", str(number))

    threads = [threading.Thread(target=check, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(module._MOST_CHECKS):
        assert entered.acquire(timeout=30)
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.01)
    with pytest.raises(OSError, match="too many"):
        users.check("bob", BOB)
    go.set()
    for thread in threads:
        thread.join(30)
    assert max(most) <= module._MOST_CHECKS


# --- changes ------------------------------------------------------------------------------------------------------

def test_a_new_file_is_for_its_owner_alone(path):
    assert os.name != "posix" or stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["users.txt"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_change_keeps_the_mode_and_the_other_lines(path):
    write(path, "# people\n\n" + text_of(path) + "mistake\n")
    os.chmod(path, 0o640)
    before = text_of(path)
    change_user(path, "carol", "third", new=True)
    remove_user(path, "carol")
    assert text_of(path) == before and stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_a_change_keeps_what_it_is_not_told(path):
    change_user(path, "bob", "other password", new=False)
    assert PasswordFile(path).check("bob", "other password").scopes == {"notes:read", "notes:write"}
    change_user(path, "bob", None, ["x"], new=False)
    assert PasswordFile(path).check("bob", "other password").scopes == {"x"}


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_change_goes_through_a_link(path, tmp_path):
    link = str(tmp_path / "link.txt")
    os.symlink(path, link)
    change_user(link, "carol", "third", new=True)
    assert os.path.islink(link) and PasswordFile(path).check("carol", "third")


@pytest.mark.parametrize("change, problem", [
    (lambda path: change_user(path, "ann", "x", new=True), "has a user 'ann'"),
    (lambda path: change_user(path, "carol", "x", new=False), "no user 'carol'"),
    (lambda path: change_user(path, "ca:rol", "x", new=True), "cannot be a name"),
    (lambda path: change_user(path, "carol\nroot:x", "x", new=True), "cannot be a name"),
    (lambda path: change_user(path, "carol", "", new=True), "1 to 1024 bytes"),
    (lambda path: change_user(path, "carol", "x", ["a\nb:"], new=True), "is not a scope"),
    (lambda path: change_user(path, "carol", None, new=True), "no user 'carol'"),
    (lambda path: remove_user(path, "carol"), "no user 'carol'"),
])
def test_a_change_that_is_refused_leaves_the_file_alone(path, change, problem):
    before = text_of(path)
    with pytest.raises(ValueError, match=problem):
        change(path)
    assert text_of(path) == before and os.listdir(os.path.dirname(path)) == ["users.txt"]


def test_two_commands_at_once_do_not_lose_a_change(path):
    write(path + ".new", "")
    with pytest.raises(OSError, match=r"remove .*users\.txt\.new"):
        change_user(path, "carol", "x", new=True)
    os.unlink(path + ".new")
    change_user(path, "carol", "x", new=True)


def test_a_missing_file_is_made_by_adding_only(tmp_path):
    path = str(tmp_path / "none.txt")
    with pytest.raises(OSError):
        remove_user(path, "ann")
    assert os.listdir(tmp_path) == []


# --- attempts -----------------------------------------------------------------------------------------------------

class OneUser(Users):
    """A user ann with the password "right"; counts the checks."""

    checks = 0

    def check(self, name, password):
        self.checks += 1
        return User(name) if (name, password) == ("ann", "right") else None


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limit(clock):
    return PasswordLimit(MemoryBackend(clock), clock)


def attempts(limit, users, name="ann", password="wrong", address="192.0.2.1", most=1000):
    """Try until an attempt is refused; return how many were not, and the seconds of the refusal."""
    for number in range(most):
        try:
            limit.check(users, name, password, address)
        except TooManyAttempts as refused:
            return number, refused.seconds
    return most, 0


def test_one_address_has_few_attempts_at_one_name(limit, clock):
    users = OneUser()
    assert attempts(limit, users) == (6, 30)
    assert users.checks == 6
    with pytest.raises(TooManyAttempts):
        limit.check(users, "ann", "right", "192.0.2.1")  # the right one is not checked, either
    clock.now += 30
    assert limit.check(users, "ann", "right", "192.0.2.1") == User("ann")


def test_the_right_password_begins_again(limit):
    users = OneUser()
    for _ in range(5):
        assert attempts(limit, users, most=5) == (5, 0)
        assert limit.check(users, "ann", "right", "192.0.2.1")
    # The wrong ones go on counting for the address.
    assert attempts(limit, users)[0] == 5


def test_one_address_has_few_attempts_at_many_names(limit):
    users = OneUser()
    for number in range(30):
        limit.check(users, f"user {number}", "wrong", "192.0.2.1")
    with pytest.raises(TooManyAttempts):
        limit.check(users, "user 30", "wrong", "192.0.2.1")
    assert limit.check(users, "ann", "right", "192.0.2.2")


def test_many_addresses_have_few_attempts_at_one_name(limit, clock):
    users = OneUser()
    found = sum(attempts(limit, users, address=f"192.0.2.{number}")[0] for number in range(100))
    assert found == 60
    clock.now += 3600
    assert attempts(limit, users, address="198.51.100.1")[0] == 6


def test_an_address_that_is_refused_does_not_lock_out_the_name(limit):
    users = OneUser()
    for _ in range(10):
        attempts(limit, users)
    assert limit.check(users, "ann", "right", "192.0.2.2")


def test_guesses_from_many_addresses_do_not_lock_out_a_user_where_they_have_logged_in(limit):
    users = OneUser()
    assert limit.check(users, "ann", "right", "192.0.2.1")
    for number in range(2, 100):
        attempts(limit, users, address=f"192.0.2.{number}")
    with pytest.raises(TooManyAttempts):
        limit.check(users, "ann", "right", "198.51.100.1")
    assert limit.check(users, "ann", "right", "192.0.2.1")
    assert attempts(limit, users)[0] == 6  # they may guess as few passwords as each other one


def test_a_day_of_guessing_tries_few_passwords(limit, clock):
    users = OneUser()
    for _ in range(24 * 60):
        attempts(limit, users)
        clock.now += 60
    assert users.checks < 3000


def test_attempts_at_once_do_not_pass_the_limit(limit):
    users, refused = OneUser(), []

    def attempt():
        try:
            limit.check(users, "ann", "wrong", "192.0.2.1")
        except TooManyAttempts:
            refused.append(1)

    at_once(attempt, 20)
    assert users.checks <= 6 and len(refused) == 20 - users.checks


def test_workers_count_together(tmp_path):
    users = OneUser()
    with_one, other = (SQLiteBackend(str(tmp_path / "x.db")) for _ in range(2))
    try:
        first, second = PasswordLimit(with_one), PasswordLimit(other)
        assert attempts(first, users, most=3) == (3, 0)
        assert attempts(second, users)[0] == 3
        with pytest.raises(TooManyAttempts):
            first.check(users, "ann", "right", "192.0.2.1")
    finally:
        with_one.close()
        other.close()


def test_two_forms_of_one_name_count_together(limit):
    users = OneUser()
    assert attempts(limit, users, "Zo\u00e9", most=3) == (3, 0)
    assert attempts(limit, users, "Zoe\u0301")[0] == 3


def test_a_store_that_is_down_and_users_that_are_down_are_errors(limit, clock):
    class Down(Users):
        def check(self, name, password):
            raise ConnectionError("the database is down")

    with pytest.raises(ConnectionError):
        limit.check(Down(), "ann", "right", "192.0.2.1")
    backend = MemoryBackend(clock)
    backend.swap = lambda *arguments: (_ for _ in ()).throw(BackendError("down"))
    users = OneUser()
    with pytest.raises(BackendError):
        PasswordLimit(backend, clock).check(users, "ann", "right", "192.0.2.1")
    assert users.checks == 0


def test_a_count_that_is_not_ours_is_an_error(clock):
    backend = MemoryBackend(clock)
    backend.get = lambda key: b"?"
    with pytest.raises(BackendError, match="did not write"):
        PasswordLimit(backend, clock).check(OneUser(), "ann", "right", "192.0.2.1")


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 100_000, "a\x00b", "n\u00e4me/../x"])
def test_any_name_and_address_can_be_counted(limit, name):
    assert limit.check(OneUser(), name, "wrong", name) is None
