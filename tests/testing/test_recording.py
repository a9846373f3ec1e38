"""The transport that records every message."""

from mcplite.rpc.channels import MemoryChannel
from mcplite.testing import Recorded, Recording


def test_a_recording_passes_every_message_on():
    ours, theirs = MemoryChannel.pair()
    channel = Recording(ours)
    assert channel.name == ours.name and channel.interruptible
    deep = b"[" * 100_000
    theirs.write(deep)
    assert channel.read(1) == deep
    theirs.write(b"no json")
    assert channel.buffered and channel.read(1) == b"no json"
    channel.consume()
    channel.wake()
    assert channel.read(1) is None
    channel.write(b"{}")
    assert theirs.read(1) == b"{}"
    assert channel.messages == [Recorded("<-", deep), Recorded("<-", b"no json"), Recorded("->", {})]
    channel.close()
