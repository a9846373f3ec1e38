"""The engine: threads, queues and locks that carry JSON-RPC; it knows no method name and no socket."""
