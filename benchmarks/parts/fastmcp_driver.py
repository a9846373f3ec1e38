"""fastmcp as a client; runs in an environment that has ``fastmcp`` 4, in its legacy mode."""


import anyio
import official_driver
from fastmcp import Client


class Commands(official_driver.Commands):
    """The commands of a driver; its client is a layer on the official SDK's."""

    progress_option = "progress_handler"

    async def open(self, target, era="legacy"):
        self.client = Client(target, mode="legacy")
        await self.client.__aenter__()
        return len(await self.client.list_tools())


if __name__ == "__main__":
    anyio.run(official_driver.answer_commands, Commands())
