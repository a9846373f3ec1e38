"""What several processes of one server add: leases, messages between them, shared sessions, and the health of their store."""
