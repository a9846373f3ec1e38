"""The engine: threads, queues and locks that carry JSON-RPC messages over a channel.

It knows no method name, no header and no socket.
"""
