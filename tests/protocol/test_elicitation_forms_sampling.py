import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.elicitation_forms import check_messages, pick_model
from mcplite.types import ModelHint, ModelPreferences


def text(role="user"):
    return {"role": role, "content": {"type": "text", "text": "x"}}


def uses(*ids, also=()):
    return {"role": "assistant", "content": [*also, *({"type": "tool_use", "id": id, "name": "t", "input": {}} for id in ids)]}


def results(*ids, role="user", also=()):
    return {"role": role, "content": [*({"type": "tool_result", "toolUseId": id, "content": []} for id in ids), *also]}


WORDS = {"type": "text", "text": "x"}


@pytest.mark.parametrize("messages", [
    [], [text()], [text(), text("assistant"), text()], [text(), uses("a"), results("a")],
    [text(), uses("a", "b", also=[WORDS]), results("b", "a"), text("assistant")],
    [uses("a"), results("a"), uses("a"), results("a")],
    [{"role": "user", "content": []}], [{"role": "user", "content": [WORDS, WORDS]}],
    [{"role": "assistant", "content": uses("a")["content"][0]}, {"role": "user", "content": results("a")["content"][0]}],
])
def test_good_conversations(messages):
    assert check_messages(messages) is None


@pytest.mark.parametrize("messages, problem", [
    ([5], r"messages[0] needs a role"), ([{"content": WORDS}], "messages[0] needs a role"),
    ([text(), {"role": "system", "content": WORDS}], "messages[1] needs a role"),
    ([{"role": ["user"], "content": WORDS}], "messages[0] needs a role"),
    ([{"role": "user"}], "messages[0] needs content"), ([{"role": "user", "content": "x"}], "messages[0] needs content"),
    ([{"role": "user", "content": None}], "messages[0] needs content"),
    ([{"role": "user", "content": [WORDS, "x"]}], "messages[0] needs content: a block, or a list of blocks"),
    # SAMP-11
    ([uses("a"), results("a", also=[WORDS])], "messages[1]: tool results stand alone"),
    ([uses("a"), results("a", role="assistant")], "messages[1]: tool results stand alone"),
    # SAMP-12
    ([uses("a"), text()], "messages[1] must answer the tool uses a and nothing else; it answers none"),
    ([uses("a", "b"), results("a")], "must answer the tool uses a, b and nothing else; it answers a"),
    ([uses("a"), results("a", "b")], "it answers a, b"), ([uses("a"), results("a", "a")], "it answers a, a"),
    ([uses("a"), text("assistant"), results("a")], "messages[1] must answer"),
    ([uses("a")], "the tool uses a have no results"), ([uses("a"), results("a"), uses("b")], "tool uses b have no results"),
    ([results("a")], "messages[0] answers tool uses that are not in the message before: a"),
    ([uses("a"), results("a"), results("a")], "messages[2] answers tool uses that are not in the message before"),
    ([{**uses("a"), "role": "user"}], "messages[0]: only an assistant message can use tools"),
])
def test_broken_conversations(messages, problem):
    assert problem in check_messages(messages)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["role", "content", "type", "id", "toolUseId"]), inner, max_size=4), max_leaves=10)
BLOCKS = st.one_of(JSON, st.just({"type": "tool_use", "id": "a"}), st.just({"type": "tool_result", "toolUseId": "a"}),
                   st.fixed_dictionaries({"type": JSON, "id": JSON}))


@given(st.lists(JSON | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]),
                                              "content": BLOCKS | st.lists(BLOCKS, max_size=3)}), max_size=4))
def test_any_messages_get_a_verdict(messages):
    verdict = check_messages(messages)
    assert verdict is None or verdict.strip()


MODELS = ["small-1", "Claude-Sonnet-4", "claude-opus", "gemini"]


@pytest.mark.parametrize("hints, model", [
    # SAMP-18, SAMP-19
    ([], "small-1"), (["sonnet"], "Claude-Sonnet-4"), (["CLAUDE"], "Claude-Sonnet-4"), (["gpt", "gemini"], "gemini"),
    (["opus", "small"], "claude-opus"), (["gpt"], "small-1"), (["", None, "opus"], "claude-opus"),
])
def test_models(hints, model):
    preferences = ModelPreferences(hints=[ModelHint(name=name) for name in hints])
    assert pick_model(preferences, MODELS) == model


def test_without_preferences_or_models():
    assert pick_model(None, MODELS) == "small-1"
    assert pick_model(ModelPreferences(), MODELS) == "small-1"
    assert pick_model(None, []) is None
    assert pick_model(ModelPreferences(hints=[ModelHint(name="x")]), []) is None
