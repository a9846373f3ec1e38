"""The command line of the project."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
