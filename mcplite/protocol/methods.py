"""Facts about the protocol's methods."""

__all__ = ["REPEATABLE"]


#: What may run twice without harm, so that it is sent again when nobody knows whether it has run.
REPEATABLE = frozenset({
    "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "server/discover", "subscriptions/listen", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
})
