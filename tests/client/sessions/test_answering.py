"""Results that require input: the answers of handlers and callers, the repeated requests, and their bounds."""

import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.errors import Cancelled, InputNeeded, InternalError, ProtocolError
from tests.support.fakes import LIMIT, Fake, start

DISCOVERED = {"resultType": "complete", "supportedVersions": [revisions.NEWEST.name],
              "ttlMs": 0, "cacheScope": "private",
              "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def asking(requests=None, state=None):
    """Return a result that requires input."""
    return {"resultType": "input_required", **({} if requests is None else {"inputRequests": requests}),
            **({} if state is None else {"requestState": state})}


def elicit(message="?"):
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": FORM}}


def sample(text="?"):
    return {"method": "sampling/createMessage",
            "params": {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 5}}


def named(request):
    """Answer a form with its own message."""
    return {"name": request.message}


class Script(Fake):
    """A modern server that answers tool calls with one result after another, the last one again and again."""

    def __init__(self, *results, **answers):
        self._left = list(results)
        super().__init__({"server/discover": DISCOVERED, "tools/call": self._next, **answers})

    def _next(self, params):
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]

    def connect(self, **options):
        return super().connect(**{"era": "modern", **options})

    @property
    def calls(self):
        """The params of each tool call, without _meta."""
        return [{name: value for name, value in message["params"].items() if name != "_meta"}
                for message in self.sent if message.get("method") == "tools/call"]


CALL = {"name": "t", "arguments": {"a": 1}}


def call(client, **options):
    return client.call_tool("t", {"a": 1}, **options)


# --- repeated requests -------------------------------------------------------------------------------------


def test_answers_go_with_the_same_request_under_a_new_id():
    with Script(asking({"who": elicit("name?")}, "s1"), DONE) as script:
        with script.connect(elicitation_handler=named) as client:
            assert call(client).text == "done"
        assert script.calls == [CALL, {**CALL, "requestState": "s1", "inputResponses": {  # MRTR-27
            "who": {"action": "accept", "content": {"name": "name?"}}}}]
        assert script.got("tools/call", 1)["id"] != script.got("tools/call", 2)["id"]


def test_the_pauses_of_a_server_that_only_gives_states_count_to_the_longest_time():
    with Script(asking(state="more")) as script, script.connect() as client:
        with pytest.raises(mcplite.RequestTimeout, match=r"within 0\.3 s in all, .*max_timeout"):
            call(client, max_timeout=0.3)
        assert len(script.calls) < 6, "the pauses grow"


@pytest.mark.parametrize("state", ["", " ", "{\"a\": 1}", "ä\u2028\U0001f600\x00", "x" * 100_000])
def test_a_state_is_returned_unchanged(state):
    with Script(asking({"q": elicit()}, state), DONE) as script, script.connect(elicitation_handler=named) as client:
        call(client)
        assert script.calls[1]["requestState"] == state  # MRTR-24, MRTR-25


def test_an_empty_array_is_an_empty_object():
    # as PHP writes it
    asked = {"q": {"method": "roots/list", "params": []}}
    with Script(asking([], "s1"), asking(asked), DONE) as script, script.connect(roots=[]) as client:
        assert call(client).text == "done"
        assert [one.get("inputResponses") for one in script.calls][2] == {"q": {"roots": []}}


def test_each_round_sends_its_own_answers_and_the_state_of_the_last_result():
    with Script(asking({"q": elicit("1")}, "s1"), asking({"r": elicit("2")}), asking(state="s3"), DONE) as script:
        with script.connect(elicitation_handler=named) as client:
            call(client)
        assert [sorted(params.get("inputResponses", {})) for params in script.calls] == [[], ["q"], ["r"], []]
        # MRTR-26: a result without a state takes back that of the round before.
        assert [params.get("requestState", "none") for params in script.calls] == ["none", "s1", "none", "s3"]
        assert "inputResponses" not in script.calls[3]  # nothing was asked, so nothing is answered


def test_every_kind_of_question_is_answered():
    questions = {"form": elicit(), "model": sample(), "roots": {"method": "roots/list"}, "none": elicit()}
    with Script(asking(questions), DONE) as script:
        with script.connect(elicitation_handler=lambda request: False, roots=["file:///here"],
                            sampling_handler=lambda request: "because") as client:
            call(client)
        answers = script.calls[1]["inputResponses"]
        assert list(answers) == list(questions)
        assert answers["form"] == answers["none"] == {"action": "decline"}  # MRTR-30
        assert answers["model"]["content"]["text"] == "because"
        assert answers["roots"] == {"roots": [{"uri": "file:///here"}]}


@pytest.mark.parametrize("use", [
    lambda client: client.call_tool("t"), lambda client: client.get_prompt("p"),
    lambda client: client.read_resource("r:1"),
])
def test_questions_of_these_methods_are_answered(use):
    results = [asking({"q": elicit()}), {**DONE, "messages": [], "contents": [], "ttlMs": 0, "cacheScope": "private"}]
    first = {"tools/call": list(results), "prompts/get": list(results), "resources/read": list(results)}
    answers = {method: lambda params, method=method: first[method].pop(0) for method in first}
    with Script(DONE, **answers) as script, script.connect(elicitation_handler=named) as client:
        use(client)
        assert len([message for message in script.sent if "inputResponses" in message["params"]]) == 1  # MRTR-02


@pytest.mark.parametrize("use", [
    lambda client: client.list_tools(), lambda client: client.ping(), lambda client: client.request("example/own"),
    lambda client: client.complete(prompt="p", argument="a", value=""),
])
def test_questions_of_other_methods_are_errors(use):
    asked = []
    answer = asking({"q": elicit()}, "s1")
    discovered = [DISCOVERED, answer]
    with Script(DONE, **{"tools/list": answer, "example/own": answer, "completion/complete": answer,
                         "server/discover": lambda params: discovered.pop(0)}) as script:
        with script.connect(elicitation_handler=asked.append) as client:
            with pytest.raises(ProtocolError, match="questions, which are allowed only for"):
                use(client)
        assert asked == [] and len(script.sent) == 2  # MRTR-03


@pytest.mark.parametrize("result", [
    asking(), {**asking(), "inputRequests": None, "requestState": None}, asking([]), asking("q"), asking([elicit()]), asking(3),
    asking({"q": None}), asking({"q": "elicit"}), asking({"q": []}), asking({"q": {}}), asking({"q": {"params": {}}}),
    asking({"q": {"method": 3}}), asking({"q": {"method": "roots/list", "params": None}}),
    asking({"q": {"method": "roots/list", "params": [1]}}), asking({"q": elicit(), "r": 1}), asking(state=3), asking(state={}),
    asking({"q": elicit()}, ["s1"]), asking(state=False),
], ids=repr)
def test_malformed_questions_are_errors(result):
    asked = []
    with Script(result) as script, script.connect(elicitation_handler=asked.append, roots=[]) as client:
        with pytest.raises(ProtocolError) as caught:
            call(client)
        assert asked == [] and len(script.calls) == 1 and caught.value.raw == result


@pytest.mark.parametrize("question", [
    sample(), {"method": "roots/list"}, {"method": "ping"}, {"method": "tools/list"},
    {"method": "elicitation/create", "params": {"mode": "url", "message": "?", "url": "https://example.com/"}},
    {"method": "elicitation/create", "params": {"message": "?"}}, {"method": "elicitation/create"},
], ids=repr)
def test_undeclared_questions_are_errors(question):
    with Script(asking({"q": question})) as script, script.connect(elicitation_handler=named) as client:
        with pytest.raises(ProtocolError, match="did not declare"):
            call(client)
        assert len(script.calls) == 1  # MRTR-08


def test_questions_of_two_concurrent_calls_are_independent():
    both = threading.Barrier(2)

    def answer(request):
        both.wait(LIMIT)  # now both calls have asked
        return {"name": request.message}

    def react(params):
        if "requestState" not in params:
            return asking({"q": elicit(params["name"])}, f"state of {params['name']}")
        said = params["inputResponses"]["q"]["content"]["name"]
        return {**DONE, "content": [{"type": "text", "text": f"{params['name']}: {said}, {params['requestState']}"}]}

    with Script(DONE, **{"tools/call": react}) as script, script.connect(elicitation_handler=answer) as client:
        thread, outcome = start(client.call_tool, "a")
        assert client.call_tool("b").text == "b: b, state of b"  # MRTR-28
        thread.join(LIMIT)
        assert outcome[0].text == "a: a, state of a"


# --- the handlers ------------------------------------------------------------------------------------------


def test_several_questions_are_answered_in_parallel():
    together = threading.Barrier(3)

    def answer(request):
        together.wait(LIMIT)  # returns only when both handlers run
        return {"name": request.message}

    with Script(asking({key: elicit(key) for key in "abc"}), DONE) as script:
        with script.connect(elicitation_handler=answer) as client:
            assert call(client).text == "done"
        assert script.calls[1]["inputResponses"] == {  # MRTR-22
            key: {"action": "accept", "content": {"name": key}} for key in "abc"}


def test_a_user_who_refuses_ends_the_call():
    with Script(asking({"q": sample()})) as script:
        with script.connect(sampling_handler=lambda request: False) as client:
            with pytest.raises(Cancelled, match="rejected"):
                call(client)
            assert len(script.calls) == 1  # MRTR-30
            client.ping()


def crash(request):
    raise RuntimeError("secret")


def leave(request):
    raise SystemExit


@pytest.mark.parametrize("failing", [crash, leave])
def test_a_handler_that_fails_ends_the_call(failing, caplog):
    begun = threading.Event()

    def wait(request):
        assert begun.wait(LIMIT)  # so that the one that fails runs on a thread of its own
        return {}

    def fail(request):
        begun.set()
        return failing(request)

    with Script(asking({"a": elicit(), "b": sample()})) as script:
        with script.connect(elicitation_handler=wait, sampling_handler=fail) as client:
            with pytest.raises(InternalError) as caught:
                call(client)
            assert "secret" not in str(caught.value) and len(script.calls) == 1
            assert not caught.value.received  # it was not the server
    assert "failed" in caplog.text


@pytest.mark.parametrize("first", ["elicitation", "sampling"])
def test_other_handlers_are_cancelled_when_one_fails(first, caplog):
    asked = threading.Event()

    def wait(request):
        asked.set()
        assert request.token.wait(LIMIT), "the handler was not cancelled"
        raise Cancelled("called off")

    def fail(request):
        assert asked.wait(LIMIT)
        raise RuntimeError("no")

    questions = {"elicitation": elicit(), "sampling": sample()}
    ordered = {first: questions.pop(first), **questions}
    with Script(asking(ordered)) as script, script.connect(elicitation_handler=wait, sampling_handler=fail) as client:
        with pytest.raises(InternalError):
            call(client)


@pytest.mark.parametrize("questions", [{"a": elicit()}, {"a": elicit(), "b": elicit()}], ids=["one", "two"])
@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_handlers_are_cancelled_with_their_call_and_their_client(questions, how):
    token, asked = mcplite.CancelToken(), threading.Semaphore(0)

    def wait(request):
        asked.release()
        assert request.token.wait(LIMIT)
        return {}

    with Script(asking(questions)) as script, script.connect(elicitation_handler=wait) as client:
        thread, outcome = start(call, client, cancel=token)
        for _ in questions:
            assert asked.acquire(timeout=LIMIT)
        token.cancel("lost interest") if how == "cancelled" else client.close()
        thread.join(LIMIT)
        assert isinstance(outcome[0], Cancelled if how == "cancelled" else mcplite.errors.ConnectionClosed)
        assert how == "closed" or outcome[0].reason == "lost interest"
        assert len(script.calls) == 1 and "notifications/cancelled" not in script.methods()  # nothing was on its way


def test_no_more_handlers_run_at_once_than_the_client_was_made_for():
    lock, running, peaks = threading.Lock(), [], []

    def answer(request):
        with lock:
            running.append(request)
            peaks.append(len(running))
        threading.Event().wait(0.01)  # time for the others to come in as well
        with lock:
            running.remove(request)
        return False

    with Script(asking({str(number): elicit() for number in range(50)}), DONE) as script:
        with script.connect(elicitation_handler=answer, max_handlers=3) as client:
            assert call(client).text == "done"
        assert len(script.calls[1]["inputResponses"]) == 50 and max(peaks) <= 3


def test_no_handler_starts_after_a_failure(caplog):
    asked = []

    def fail(request):
        asked.append(request)
        raise RuntimeError("no")

    with Script(asking({str(number): elicit() for number in range(20)})) as script:
        with script.connect(elicitation_handler=fail, max_handlers=1) as client, pytest.raises(InternalError):
            call(client)
    assert len(asked) == 1


@pytest.mark.parametrize("how", ["cancelled", "closed"])
@pytest.mark.slow
def test_a_handler_that_ignores_its_token_does_not_block_the_call(how):
    asked, go_on, token = threading.Event(), threading.Event(), mcplite.CancelToken()

    def stubborn(request):
        asked.set()
        go_on.wait(LIMIT)
        return {}

    with Script(asking({"q": elicit()})) as script, script.connect(elicitation_handler=stubborn) as client:
        thread, outcome = start(call, client, cancel=token)
        assert asked.wait(LIMIT)
        token.cancel("enough") if how == "cancelled" else client.close()
        thread.join(LIMIT)
        assert isinstance(outcome[0], Cancelled if how == "cancelled" else mcplite.errors.ConnectionClosed)
        go_on.set()


def test_too_many_questions_in_a_minute_are_an_error():
    # ELIC-22, SAMP-21
    with Script(asking({str(number): elicit() for number in range(4)})) as script:
        with script.connect(elicitation_handler=lambda request: {}, questions_per_minute=3) as client:
            with pytest.raises(mcplite.errors.ProtocolError, match="questions_per_minute"):
                call(client)


@pytest.mark.slow
def test_the_time_of_handlers_does_not_count():
    def ponder(request):
        threading.Event().wait(2.5)
        return {}

    with Script(asking({"q": elicit()}), DONE) as script, script.connect(elicitation_handler=ponder) as client:
        assert call(client, timeout=2, max_timeout=2).text == "done"


@pytest.mark.slow
def test_the_time_of_all_rounds_is_bounded():
    def slow(params):
        threading.Event().wait(0.4)
        return asking({"q": elicit()})

    with Script(DONE, **{"tools/call": slow}) as script, script.connect(elicitation_handler=named) as client:
        with pytest.raises(mcplite.RequestTimeout, match=r"within 2 s in all.*\(max_timeout\)"):
            call(client, timeout=2, max_timeout=2)
        assert 1 < len(script.calls) < 10  # each came in time, all together did not


def test_a_handler_may_call_the_server():
    def answer(request):
        return {"name": client.get_prompt("p").description}

    with Script(asking({"a": elicit(), "b": elicit()}), DONE,
                **{"prompts/get": {"resultType": "complete", "messages": [], "description": "x"}}) as script:
        with script.connect(elicitation_handler=answer, max_handlers=1) as client:
            assert call(client).text == "done"
        assert script.calls[1]["inputResponses"]["b"]["content"] == {"name": "x"}


# --- how often ---------------------------------------------------------------------------------------------


class Patient(mcplite.CancelToken):
    """A token that notes how long it is waited for, and does not wait."""

    def __init__(self, ends=None):
        super().__init__()
        self.waits, self._ends = [], ends

    def wait(self, timeout=None):
        self.waits.append(timeout)
        if len(self.waits) == self._ends:
            self.cancel("enough")
        return self.cancelled


def test_endless_questions_are_an_error_and_each_is_answered_without_a_pause():
    asked, token = [], Patient()
    with Script(asking({"q": elicit()}, "s")) as script:
        with script.connect(elicitation_handler=lambda request: asked.append(request) or False) as client:
            with pytest.raises(ProtocolError, match=r"10 rounds.*several questions in one round, as with ctx\.ask"):
                call(client, cancel=token)
            assert len(asked) == 10 and len(script.calls) == 11 and token.waits == []  # MRTR-29, and without a pause
            client.ping()


@pytest.mark.parametrize("empty", [asking(state="s"), asking({}, "s"), asking({})], ids=repr)
def test_requests_without_questions_are_repeated_with_growing_pauses(empty):
    token = Patient()
    with Script(empty) as script, script.connect() as client, pytest.raises(ProtocolError, match="10 rounds"):
        call(client, cancel=token)
    assert len(token.waits) == 10 and len(script.calls) == 11  # MRTR-23
    assert token.waits == sorted(token.waits) and 0 < token.waits[0] < 1
    assert all(later == min(2 * sooner, token.waits[-1]) for sooner, later in zip(token.waits, token.waits[1:]))
    state = {"requestState": "s"} if "requestState" in empty else {}
    assert script.calls[1:] == [{**CALL, **state}] * 10


def test_a_call_is_cancelled_in_a_pause():
    token = Patient(ends=2)
    with Script(asking(state="s")) as script, script.connect() as client, pytest.raises(Cancelled, match="enough"):
        call(client, cancel=token)
    assert len(script.calls) == 2


# --- by hand -----------------------------------------------------------------------------------------------


def test_a_caller_answers_and_another_client_continues():
    asked = []
    questions = {"who": elicit("name?")}
    with Script(asking(questions, "s1")) as script, script.connect(elicitation_handler=asked.append) as client:
        with pytest.raises(InputNeeded) as caught:
            call(client, rounds=False)
        assert caught.value.requests == questions and caught.value.state == "s1"
        assert asked == [] and len(script.calls) == 1 and "tools/call" in str(caught.value)
    answers = {"who": {"action": "accept", "content": {"name": "me"}}}
    with Script(DONE) as script, script.connect() as client:
        assert call(client, rounds=False, input_responses=answers, request_state=caught.value.state).text == "done"
        assert script.calls == [{**CALL, "inputResponses": answers, "requestState": "s1"}]


def test_manual_answers_are_sent_once():
    with Script(asking({"q": elicit("second")}, "s2"), asking(state="s3"), DONE) as script:
        with script.connect(elicitation_handler=named) as client:
            call(client, input_responses={"p": {"action": "decline"}}, request_state="s1")
        second = {"q": {"action": "accept", "content": {"name": "second"}}}
        assert script.calls == [
            {**CALL, "inputResponses": {"p": {"action": "decline"}}, "requestState": "s1"},
            {**CALL, "inputResponses": second, "requestState": "s2"}, {**CALL, "requestState": "s3"}]


def test_manual_rounds_are_checked_too():
    with Script(asking()) as script, script.connect() as client, pytest.raises(ProtocolError):
        call(client, rounds=False)
