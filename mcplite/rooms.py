"""The rooms around the core: what a user writes, and the function of the folder that does it, loaded when it is used.

The core imports no room. A copy of the package without one of these folders works, except for the rows of the table that name
the folder.
"""

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, Tuple

if TYPE_CHECKING:
    from .skills.client_skills import ClientSkills as ClientSkills
    from .tasks.client_tasks import ClientTasks as ClientTasks
    from .tasks.task_follower import Task as Task

__all__ = ["ROOMS", "has", "load"]

#: For each feature, as a user writes it: the module that provides it, and the name in that module.
ROOMS: Dict[str, Tuple[str, str]] = {
    "backend=": ("backend.from_url", "open_shared_backend"),
    "a shared backend": ("fleet.fleet_processes", "FleetProcesses"),
    "a session of a shared backend": ("fleet.shared_sessions", "SharedSessions"),
    "a question with a shared backend": ("fleet.remote_answers", "SharedCalls"),
    "auth=": ("auth.verify.bearer_auth", "BearerAuth"),
    "--token-env": ("auth.verify.bearer_auth", "StaticTokens"),
    "--issuer": ("auth.issuer.issuer", "Issuer"),
    "the file of --issuer": ("auth.issuer.users", "PasswordFile"),
    "--log-json": ("middleware.request_logs", "JSONFormatter"),
    "--health": ("middleware.health", "health_routes"),
    "--reload": ("proxy.reloading", "serve_and_reload"),
    "--reload-child": ("proxy.reloaded_child", "ReloadedChild"),
    "Server.mount()": ("proxy.hub", "mount"),
    "a configuration file": ("proxy.hub", "hub_of"),
    "an OpenAPI document": ("openapi.provider", "from_openapi"),
    "task='optional'": ("tasks.server_tasks", "enable_tasks"),
    "Server.run_task()": ("tasks.server_tasks", "run_task"),
    "start_tool()": ("tasks.client_tasks", "tasks_of_client"),
    "a question as a task": ("tasks.received_tasks", "take_question"),
    "Server.add_skills()": ("skills.server_skills", "add_skills"),
    "Client.skills": ("skills.client_skills", "ClientSkills"),
    "Elicit(task=True)": ("tasks.question_tasks", "ask_as_task"),
}


@lru_cache(maxsize=None)
def has(folder: str) -> bool:
    """Whether this copy of the package has a folder; nothing of it is loaded."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(f"{__package__}.{folder}", import_module(__package__).__path__) is not None


def load(word: str) -> Any:
    """Return the function or the class that provides what a user has written.

    :param word: a key of :data:`ROOMS`.
    :raises ImportError: this copy of the package lacks the folder, or the module in it; the text names it, and the word.
    """
    module, name = ROOMS[word]
    folder = module.partition(".")[0]
    try:
        found = import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        missing = {f"{__package__}.{folder}": f"folder {folder}/", f"{__package__}.{module}": f"{folder}/ but for its core"}
        if error.name not in missing:
            raise  # a library that the folder uses is missing
        raise ImportError(f"this copy of {__package__} has no {missing[error.name]} ({word})") from error
    return getattr(found, name)
