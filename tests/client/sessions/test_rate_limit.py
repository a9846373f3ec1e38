from mcplite.client.sessions.rate_limit import RateLimit


def test_the_limit_holds_in_any_minute():
    now = [0.0]
    limit = RateLimit(2, lambda: now[0])
    assert [limit.admit(), limit.admit(), limit.admit()] == [True, True, False]
    now[0] = 59.9
    assert not limit.admit()
    now[0] = 60.0
    assert [limit.admit(), limit.admit(), limit.admit()] == [True, True, False]
    now[0] = 90.0
    assert not limit.admit()
    now[0] = 120.0
    assert limit.admit()


def test_refused_events_do_not_count():
    now = [0.0]
    limit = RateLimit(1, lambda: now[0])
    limit.admit()
    for second in range(1, 60):
        now[0] = second
        assert not limit.admit()
    now[0] = 60.0
    assert limit.admit()


def test_none_means_no_limit():
    limit = RateLimit(None)
    assert all(limit.admit() for _ in range(10_000))


def test_an_event_that_is_taken_back_does_not_count():
    limit = RateLimit(1, lambda: 0.0)
    assert limit.admit() and not limit.admit()
    limit.retract()
    assert limit.admit() and not limit.admit()
    for _ in range(2):
        limit.retract()
    assert limit.recent == 0
