"""The addresses of the shop."""

from django.http import HttpResponse
from django.urls import path

from mcplite.contrib.django import mcp_view

from .mcp import mcp

urlpatterns = [path("", lambda request: HttpResponse("the shop")), path("mcp", mcp_view(mcp, trusted_proxies=["127.0.0.1"]))]
