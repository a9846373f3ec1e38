"""One request: its context, its questions to the client, dispatch to the handler."""
