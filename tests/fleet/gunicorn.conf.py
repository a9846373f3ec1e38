"""The settings of the workers: one that ends tells the server, which ends the streams that clients hold open.

Without this the interpreter waits for the threads of those streams, until the master kills the worker.
"""


def worker_exit(server, worker):
    from server import endpoint

    endpoint.close()
