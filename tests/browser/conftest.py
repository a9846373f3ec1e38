"""A real Chromium, and the inspector's page in it."""

import shutil

import pytest

import mcplite
from mcplite.inspector.inspector_server import InspectedTarget, Inspector
from tests.support import gallery
from tests.support.chromium import Chromium
from tests.support.inspecting import Page


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    with Chromium(profile) as chromium:
        yield chromium
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def inspect(chromium):
    """Return a function that opens the page for servers, by their names or as they are inspected."""
    pages = []

    def inspect(servers, **options):
        inspector = Inspector(servers if isinstance(servers, list) else
                              [InspectedTarget(name, target) for name, target in servers.items()]).start()
        pages.append((inspector, None))
        tab = chromium.tab(**{"width": 1280, "height": 800, **options})
        pages[-1] = (inspector, tab)
        return Page(inspector, tab)

    yield inspect
    for inspector, tab in pages:
        if tab is not None:
            tab.visit("about:blank")
        inspector.close()
        for server in inspector.servers.values():
            if isinstance(server.target, mcplite.Server):
                server.target.close()


@pytest.fixture
def page(inspect):
    """The page for the gallery, in this process."""
    page = inspect({"gallery": gallery.server()})
    page.expect("Find paintings")
    yield page
    assert page.complaints == [] and page.foreign_requests() == []
