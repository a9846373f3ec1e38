"""Hooks of the site: a user by a header, as tokens of an API would give it, and a refusal."""

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied


class Hooks:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        request.tenant = request.headers.get("X-Tenant", "none")
        if request.tenant == "refused":
            raise PermissionDenied("this tenant is not served")
        if request.headers.get("X-Early"):
            request.body  # as logging middleware does
        name = request.headers.get("X-User")
        if name:
            request.user = get_user_model().objects.get(username=name)
        return self.get_response(request)
