"""The vocabulary: the protocol's objects as plain dataclasses, the superset of all revisions."""

from .asking import *  # noqa: F401,F403
from .asking import __all__ as _asking
from .base import Model as Model
from .content import *  # noqa: F401,F403
from .content import __all__ as _content
from .lifecycle import *  # noqa: F401,F403
from .lifecycle import __all__ as _lifecycle
from .marks import NULL as NULL
from .prompts import *  # noqa: F401,F403
from .prompts import __all__ as _prompts
from .resources import *  # noqa: F401,F403
from .resources import __all__ as _resources
from .tools import *  # noqa: F401,F403
from .tools import __all__ as _tools

__all__ = ["Model", "NULL", *_asking, *_content, *_lifecycle, *_prompts, *_resources, *_tools]
