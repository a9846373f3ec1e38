"""Subscriptions to changes at a server: the events, one subscription, and all of a client."""
