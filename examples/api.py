"""A server of an API: its tools are the operations of the OpenAPI document that the API serves.

    API_DOCUMENT=https://pets.example/openapi.json python -m mcplite call examples/api.py getPet id:=7

The variables API_KEY and the like, by the names of the document's security schemes, have the credentials. Operations that
change something are left out.
"""
import os

from mcplite.openapi import from_openapi

mcp = from_openapi(
    os.environ["API_DOCUMENT"],
    include="GET /*",
    environment_prefix="API",
    resources=True,
)

if __name__ == "__main__":
    mcp.run()
