"""Access lists of Windows: whom the files of a store are for."""

import os
import subprocess

from mcplite.auth.login import windows_files
from mcplite.auth.login.file_store import FileStore
from tests.support.keeping import NEW, OLD
from tests.support.systems import windows_only

pytestmark = windows_only


def test_everything_is_for_its_user_alone(tmp_path):
    path = tmp_path / "one" / "two" / "credentials.json"
    store = FileStore(path)
    store.save("a", OLD)
    with store.lock("a", lambda: None):
        made = [os.path.join(folder, name) for folder, folders, files in os.walk(tmp_path) for name in folders + files]
        assert len(made) == 5
        lists = [subprocess.run(["icacls", name], stdout=subprocess.PIPE, check=True).stdout for name in made]
        # One entry for the user and one for the system, and none that is inherited from the folder above.
        assert [(text.count(b":("), text.count(b"(I)")) for text in lists] == [(2, 0)] * 5
    store.save("a", NEW)
    assert store.load("a") == NEW


def test_the_user_has_an_identifier():
    assert windows_files._our_user().startswith("S-1-5-")
