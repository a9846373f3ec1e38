"""Notifications about changes: events, one subscription, and the manager that keeps them open."""
