from mcplite.client.sessions.rate_limit import Pace


def test_so_many_in_any_minute():
    now = [0.0]
    pace = Pace(2, lambda: now[0])
    assert [pace.admit(), pace.admit(), pace.admit()] == [True, True, False]
    now[0] = 59.9
    assert not pace.admit()
    now[0] = 60.0
    assert [pace.admit(), pace.admit(), pace.admit()] == [True, True, False]
    now[0] = 90.0
    assert not pace.admit()
    now[0] = 120.0
    assert pace.admit()


def test_what_was_refused_does_not_count():
    now = [0.0]
    pace = Pace(1, lambda: now[0])
    pace.admit()
    for second in range(1, 60):
        now[0] = second
        assert not pace.admit()
    now[0] = 60.0
    assert pace.admit()


def test_none_is_any_number():
    pace = Pace(None)
    assert all(pace.admit() for _ in range(10_000))
