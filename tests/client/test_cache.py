"""Which results are cached, for how long, and what makes them stale."""

import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.client.cache import Cache
from tests.support.fakes import LIMIT, Clock, Fake, Refusal

METHODS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
TOOLS, PROMPTS, RESOURCES, UPDATED = (
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "notifications/resources/updated")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return Cache(clock=clock)


def result(ttl=1000, scope="private", **more):
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": scope, **more}


def keep(cache, method="tools/list", params=None, **members):
    cache.keep(method, params, result(**members), cache.epoch)


def kept(cache, *requests):
    return [request for request in requests if cache.find(*request) is not None]


# --- how long ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scope", ["public", "private"])
def test_a_result_is_cached_for_its_ttl(cache, clock, method, scope):
    assert cache.find(method, {"uri": "a:b"}) is None
    keep(cache, method, {"uri": "a:b"}, ttl=1500, scope=scope, tools=[])
    clock.now += 1.4
    assert cache.find(method, {"uri": "a:b"}) == result(1500, scope, tools=[])  # CACHE-10
    clock.now += 0.2
    assert cache.find(method, {"uri": "a:b"}) is None  # CACHE-11


@pytest.mark.parametrize("ttl", [0, -1, -0.5, None, "1000", "long", [], {}, [1000], float("nan")])
def test_a_result_with_an_invalid_ttl_is_not_cached(cache, ttl):
    keep(cache, ttl=ttl)
    assert cache.find("tools/list", None) is None  # CACHE-09


@pytest.mark.parametrize("ttl", [10 ** 12, 10 ** 400, 1e300, float("inf")],
                         ids=["much", "no float", "a float", "infinity"])
def test_results_are_cached_for_a_day_at_most(cache, clock, ttl):
    keep(cache, ttl=ttl)
    clock.now += 86_000
    assert cache.find("tools/list", None) is not None
    clock.now += 1000
    assert cache.find("tools/list", None) is None


# --- the key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [
    "tools/call", "prompts/get", "completion/complete", "server/discover", "ping", "example/own",
])
def test_only_lists_and_resources_are_cached(cache, method):
    keep(cache, method)
    assert cache.find(method, None) is None


def test_a_result_is_for_the_same_request_only(cache):
    keep(cache, "tools/list", None, tools=["first page"])
    keep(cache, "tools/list", {"cursor": "a"}, tools=["page a"])
    keep(cache, "resources/read", {"uri": "x:1"}, contents=["x"])
    assert cache.find("tools/list", None)["tools"] == ["first page"]  # CACHE-06
    assert cache.find("tools/list", {"cursor": "a"})["tools"] == ["page a"]
    assert cache.find("resources/read", {"uri": "x:1"})["contents"] == ["x"]
    assert kept(cache, ("tools/list", {"cursor": "b"}), ("tools/list", {"cursor": ""}), ("prompts/list", None),
                ("resources/read", {"uri": "x:2"}), ("resources/read", {"uri": "x:1", "own": 1}),
                ("resources/read", None)) == []


def test_all_params_are_part_of_the_key(cache):
    # CACHE-15
    # CACHE-06: the result may depend on the _meta of a request.
    keep(cache, "resources/read", {"uri": "x:1", "own": [1], "_meta": {"a": 1}})
    assert cache.find("resources/read", {"_meta": {"a": 1}, "own": [1], "uri": "x:1"}) is not None
    assert cache.find("resources/read", {"own": [1], "uri": "x:1"}) is None
    assert cache.find("resources/read", {"own": [1], "uri": "x:1", "_meta": {"a": 2}}) is None
    keep(cache, "tools/list")
    assert cache.find("tools/list", None) is not None and cache.find("tools/list", {}) is not None


@pytest.mark.parametrize("extra", [
    {"inputResponses": {}}, {"requestState": "s"}, {"inputResponses": {"q": {}}, "requestState": ""},
])
def test_results_of_answered_questions_are_not_cached(cache, extra):
    params = {"uri": "x:1", **extra}
    keep(cache, "resources/read", params)
    assert kept(cache, ("resources/read", params), ("resources/read", {"uri": "x:1"})) == []  # CACHE-07


def test_callers_get_copies(cache):
    given = result(tools=[{"name": "a"}])
    cache.keep("tools/list", None, given, cache.epoch)
    given["tools"][0]["name"] = "changed by who got it from the server"
    found = cache.find("tools/list", None)
    assert found["tools"] == [{"name": "a"}]
    found["tools"].append("changed by who got it from the cache")
    assert cache.find("tools/list", None)["tools"] == [{"name": "a"}]


def test_the_number_of_results_is_bounded(cache, clock):
    uris = [f"x:{number}" for number in range(1500)]
    for uri in uris:
        keep(cache, "resources/read", {"uri": uri})
    found = [uri for uri in uris if cache.find("resources/read", {"uri": uri}) is not None]
    assert found == uris[500:]  # the oldest have gone


def test_stale_results_are_dropped_first(cache, clock):
    keep(cache, "resources/read", {"uri": "fresh"}, ttl=10_000)
    for number in range(999):
        keep(cache, "resources/read", {"uri": f"x:{number}"}, ttl=1000)
    clock.now += 5
    keep(cache, "resources/read", {"uri": "one more"}, ttl=10_000)
    assert kept(cache, ("resources/read", {"uri": "fresh"}), ("resources/read", {"uri": "one more"})) == [
        ("resources/read", {"uri": "fresh"}), ("resources/read", {"uri": "one more"})]


# --- stale results -------------------------------------------------------------------------------------------


EVERYTHING = [("tools/list", None), ("tools/list", {"cursor": "a"}), ("prompts/list", None), ("resources/list", None),
              ("resources/templates/list", None), ("resources/read", {"uri": "x:1"}), ("resources/read", {"uri": "x:2"})]


@pytest.mark.parametrize("notification, uri, gone", [
    (TOOLS, None, EVERYTHING[:2]), (PROMPTS, None, EVERYTHING[2:3]), (RESOURCES, None, EVERYTHING[3:5]),
    (UPDATED, "x:1", EVERYTHING[5:6]), (UPDATED, "x:3", []), ("notifications/message", None, []),
    # A strange member of another notification does not matter.
    (TOOLS, "x:1", EVERYTHING[:2]), ("notifications/message", "x:1", []),
])
def test_a_notification_drops_the_results_it_concerns(cache, notification, uri, gone):
    for method, params in EVERYTHING:
        keep(cache, method, params)
    cache.changed(notification, uri)
    assert kept(cache, *EVERYTHING) == [request for request in EVERYTHING if request not in gone]  # CACHE-14


def test_a_result_overtaken_by_a_change_is_not_cached(cache):
    epoch = cache.epoch
    cache.changed(TOOLS)
    cache.keep("tools/list", None, result(), epoch)  # the result may be from before the change
    assert cache.find("tools/list", None) is None
    keep(cache)
    assert cache.find("tools/list", None) is not None


# --- through a client --------------------------------------------------------------------------------------------


def one():
    return "1"


@pytest.fixture
def served():
    """A server whose lists are good for an hour, and the URL of it."""
    server = mcplite.Server("here", cache=mcplite.CacheHint(3600),
                            options=mcplite.ServerOptions(page_size=2, declare=["prompts"]))
    for name in "abc":
        server.add_tool(one, name=name)
    server.add_resource("x:1", one)
    with mcplite.serve(server) as running:
        yield server, running.url


def sent(client, use):
    """Return the number of messages sent by a call, and its result."""
    before = client.counters.messages_sent
    value = use()
    return client.counters.messages_sent - before, value


@pytest.mark.parametrize("use, messages", [
    (lambda client: client.list_tools(), 2), (lambda client: client.list_resources(), 1),
    (lambda client: client.list_prompts(), 1), (lambda client: client.list_resource_templates(), 1),
    (lambda client: client.read_resource("x:1"), 1),
])
def test_fresh_results_are_not_requested_again(served, use, messages):
    with mcplite.connect(served[1], timeout=LIMIT) as client:
        (first, fetched), (second, known) = sent(client, lambda: use(client)), sent(client, lambda: use(client))
        assert (first, second) == (messages, 0) and repr(fetched) == repr(known)


def test_a_change_notification_makes_the_list_stale(served):
    server, url = served
    with mcplite.connect(url, timeout=LIMIT) as client, client.listen(tools=True) as events:
        assert len(client.list_tools()) == 3 and sent(client, client.list_tools)[0] == 0
        server.add_tool(one, name="d")
        assert isinstance(events.get(LIMIT), mcplite.ToolsChanged)
        messages, tools = sent(client, client.list_tools)
        assert messages == 2 and [tool.name for tool in tools] == ["a", "b", "c", "d"]  # CACHE-14
        assert sent(client, client.list_tools)[0] == 0


def test_a_client_without_cache_caches_nothing(served):
    with mcplite.connect(served[1], timeout=LIMIT, options=mcplite.ClientOptions(cache=False)) as client:
        assert sent(client, client.list_tools)[0] == sent(client, client.list_tools)[0] == 2  # CACHE-19


def test_nothing_is_shared_between_clients(served):
    with mcplite.connect(served[1], timeout=LIMIT) as client, mcplite.connect(served[1], timeout=LIMIT) as other:
        client.list_tools()
        assert sent(other, other.list_tools)[0] == 2  # CACHE-08


def test_legacy_sessions_cache_nothing(served):
    with mcplite.connect(served[1], timeout=LIMIT, options=mcplite.ClientOptions(era="legacy", listen=False)) as client:
        assert sent(client, client.list_tools)[0] == sent(client, client.list_tools)[0] == 2


DISCOVERED = {"resultType": "complete", "supportedVersions": [revisions.NEWEST.name],
              "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}, "resources": {}}}


def fake(**answers):
    return Fake({"server/discover": DISCOVERED, **{name.replace("_", "/"): answer for name, answer in answers.items()}})


def test_errors_are_not_cached():
    answers = [Refusal(-32603), result(10_000, tools=[])]
    with fake(tools_list=lambda params: answers.pop(0)) as script, script.connect(era="modern") as client:
        with pytest.raises(mcplite.errors.InternalError):
            client.list_tools()
        assert client.list_tools() == [] and answers == []


@pytest.mark.slow
def test_the_size_of_results_is_bounded(cache):
    text = "x" * (4 << 20)
    for number in range(20):
        cache.keep("resources/read", {"uri": f"x:{number}"}, result(text=text), cache.epoch)
    found = [number for number in range(20) if cache.find("resources/read", {"uri": f"x:{number}"})]
    assert found == list(range(20 - len(found), 20)) and 4 <= len(found) <= 8
    cache.keep("resources/read", {"uri": "huge"}, result(text=text * 3), cache.epoch)
    assert cache.find("resources/read", {"uri": "huge"}) is None


def test_pages_of_a_changed_list_are_requested_again():
    # CACHE-16: the first page was kept, and the cursor in it means nothing any more.
    asked, changed = [], threading.Event()

    def page(params):
        asked.append(params.get("cursor"))
        if params.get("cursor") == "old":
            if changed.is_set():
                raise Refusal(-32602, "unknown cursor")
            return result(ttl=0, tools=[])
        return result(ttl=60_000, tools=[{"name": "a", "inputSchema": {"type": "object"}}],
                      **({} if changed.is_set() else {"nextCursor": "old"}))

    with fake(tools_list=page) as script, script.connect(era="modern") as client:
        assert len(client.list_tools()) == 1 and asked == [None, "old"]
        changed.set()
        assert len(client.list_tools()) == 1 and asked == [None, "old", "old", None]
        assert len(client.list_tools()) == 1 and len(asked) == 4
        assert len(client.list_tools(fresh=True)) == 1 and asked[4:] == [None]  # CACHE-17


def test_long_params_count_for_the_size():
    cache, result = Cache(), {"ttlMs": 60_000, "tools": []}
    cache.keep("tools/list", {"cursor": "x" * (9 << 20)}, result, cache.epoch)
    assert cache.find("tools/list", {"cursor": "x" * (9 << 20)}) is None
    for number in range(6):
        cache.keep("tools/list", {"cursor": f"{number}" * (7 << 20)}, result, cache.epoch)
    kept = [number for number in range(6) if cache.find("tools/list", {"cursor": f"{number}" * (7 << 20)}) is not None]
    assert kept == [2, 3, 4, 5]
