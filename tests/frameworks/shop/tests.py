"""Tests of the site by Django's own means, as its authors write them; ``tests/frameworks/test_django.py`` runs them."""

import json

from django.contrib.auth import get_user_model
from django.test import TestCase

from .models import Order

OPENING = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


class ViewTest(TestCase):
    def post(self, message, **headers):
        sent = self.client.post("/mcp", json.dumps(message), content_type="application/json",
                                HTTP_ACCEPT="application/json, text/event-stream", **headers)
        self.assertEqual(sent.status_code, 200, sent.content)
        return sent

    def call(self, tool):
        session = self.post(OPENING).headers["Mcp-Session-Id"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        return self.post(message, HTTP_MCP_SESSION_ID=session).json()["result"]

    def test_a_tool_sees_the_transaction_of_the_test(self):
        Order.objects.create(article="tea")
        self.assertEqual(self.call("orders")["content"][0]["text"], '["tea"]')

    def test_a_user_who_has_logged_in_is_the_principal(self):
        ada = get_user_model().objects.create(username="ada")
        self.client.force_login(ada)
        found = json.loads(self.call("who")["content"][0]["text"])
        self.assertEqual((found["user"], found["principal"]), ("ada", str(ada.pk)))
