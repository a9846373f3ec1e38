from mcplite.protocol.meta import REPEATABLE
from mcplite.revisions import REVISIONS


def test_repeatable_methods_are_requests_of_a_client():
    known = {method for revision in REVISIONS for method in revision.client_requests | revision.task_requests}
    assert REPEATABLE < known
    # A tool has effects, a second handshake would begin another session, and a task is cancelled once.
    assert known - REPEATABLE == {"initialize", "tools/call", "tasks/cancel"}
