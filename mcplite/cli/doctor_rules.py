"""The rules of the command ``doctor``: by the code of a finding, how grave it is, and what clients make of it.

:mod:`.doctor` walks the server and names the codes; its printed report and its JSON take the texts from here.
"""

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple

__all__ = ["Finding", "RULES", "Rule", "SEVERITIES"]

#: The gravest first.
SEVERITIES = ("error", "warning", "note", "ok")


class Rule(NamedTuple):
    """What a finding means: how grave it is, which rule it breaks, and what clients do."""

    severity: str
    rule: str
    mcplite: str
    #: What the official SDKs do, in their versions of autumn 2026 (Python 1.30 and 2.3, TypeScript 1.32 and 2.4).
    python: str = ""
    typescript: str = ""


_ON = "goes on with the next well-known URL"
#: By the code of a finding.
RULES: Dict[str, Rule] = {
    # --- connection
    "unreachable": Rule("error", "A client has to reach the server by its URL.", "reports the reason", "raises", "throws"),
    "certificate": Rule("error", "Clients verify the certificate of https (RFC 9110, section 4.3.4).", "refuses to connect",
                        "refuses to connect", "refuses to connect"),
    "certificate-ends": Rule("warning", "A certificate has to be renewed before its end.", "connects until then",
                             "connects until then", "connects until then"),
    "not-https": Rule("error", "Tokens are sent over https only, except on this machine (OAuth 2.1, section 1.5).",
                      "sends no token to this URL", "sends tokens in the clear", "sends tokens in the clear"),
    # --- server
    "redirects": Rule("warning", "A redirect of a POST is not followed to another origin, as it would take the token along.",
                      "follows within the origin, where the method stays", "follows within the origin", "follows"),
    "not-found": Rule("error", "The endpoint has one path, which the URL has to name.", "reports the status", "raises",
                      "throws"),
    "forbidden-without-token": Rule("error", "A request without a token is answered with 401 (RFC 6750, section 3.1).",
                                    "reports the refusal, and does not log in", "raises, and does not log in",
                                    "throws, and does not log in"),
    "no-mcp": Rule("error", "The endpoint answers initialize with JSON or an event stream.", "reports the answer", "raises",
                   "throws"),
    "any-token": Rule("error", "A token that is not valid is answered with 401 (RFC 6750, section 3.1).",
                      "cannot know", "cannot know", "cannot know"),
    "bad-token-status": Rule("warning", "A token that is not valid is answered with 401 (RFC 6750, section 3.1).",
                             "does not refresh its token after it has expired", "does not refresh its token",
                             "does not refresh its token"),
    "bad-token-error": Rule("note", "The challenge for an invalid token has error=\"invalid_token\" (RFC 6750, section 3.1).",
                            "refreshes all the same", "refreshes all the same", "refreshes all the same"),
    # --- challenge
    "no-challenge": Rule("error", "A 401 has a WWW-Authenticate header (RFC 9110, section 15.5.2).",
                         "tries the well-known URLs", "tries the well-known URLs", "tries the well-known URLs"),
    "challenge-scheme": Rule("error", "The challenge has the scheme Bearer, or DPoP (RFC 6750, section 3).",
                             "tries the well-known URLs", "reads the parameters of any scheme", "tries the well-known URLs"),
    "challenge-order": Rule("note", "Several challenges may stand in one header (RFC 9110, section 11.6.1).",
                            "finds Bearer at any place", "takes the first parameter of a name",
                            "reads a header only if it begins with Bearer"),
    "challenge-malformed": Rule("error", "Parameters are name=\"value\" with commas between (RFC 9110, section 11.2).",
                                "reads up to the mistake, then tries the well-known URLs", "may find the parameter",
                                "may find the parameter"),
    "challenge-no-metadata": Rule("warning", "The challenge names the metadata by resource_metadata (RFC 9728, section 5.1).",
                                  "tries the well-known URLs", "tries the well-known URLs", "tries the well-known URLs"),
    "challenge-metadata-url": Rule("error", "resource_metadata is an absolute URL with https (RFC 9728, section 3).",
                                   "tries the well-known URLs", "asks http:// as well; raises for a path",
                                   "asks http:// as well; tries the well-known URLs for a path"),
    # --- metadata of the MCP server
    "resource-none": Rule("warning", "An MCP server has protected resource metadata (RFC 9728), since June 2025.",
                          "takes the origin of the server for its authorization server, as in early 2025",
                          "takes the origin for its authorization server", "takes the origin for its authorization server"),
    "resource-well-known": Rule("note", "The metadata is also at its well-known URL, for clients that see no challenge"
                                        " (RFC 9728, section 3.1).", "needs the challenge", "needs the challenge",
                                "needs the challenge"),
    "resource-not-json": Rule("warning", "Metadata is a JSON object (RFC 9728, section 3.2), and a 404 where there is none.",
                              _ON, _ON, "takes the origin for its authorization server"),
    "resource-fails": Rule("error", "Metadata is answered with 200, or 404 where there is none.",
                           "reports the failure if no other URL has it", "raises if no other URL has it",
                           "takes the origin for its authorization server"),
    "metadata-kind": Rule("note", "Metadata has the type application/json (RFC 9728, section 3.2).", "reads it", "reads it",
                          "reads it"),
    "resource-member": Rule("error", "The metadata has the member resource (RFC 9728, section 2).", _ON, _ON,
                            "takes the origin for its authorization server"),
    "resource-other": Rule("error", "resource is the URL that clients use, or a parent of it (RFC 9728, section 3.3).",
                           "refuses: a token for it could be used by another server", "raises: does not match expected",
                           "throws: does not match expected"),
    "issuers-none": Rule("error", "authorization_servers names at least one (MCP, authorization server location).",
                         "takes the origin for its authorization server", "takes the metadata for invalid",
                         "takes the origin for its authorization server"),
    "issuers-malformed": Rule("error", "authorization_servers is a list of URLs (RFC 9728, section 2).", "refuses",
                              "takes the metadata for invalid", "takes the origin for its authorization server"),
    "bearer-methods": Rule("warning", "Tokens are sent in the header (MCP, access token usage).", "sends them in the header",
                           "sends them in the header", "sends them in the header"),
    "no-cors": Rule("note", "Clients in web pages, such as the Inspector, can read metadata only with"
                            " Access-Control-Allow-Origin.", "does not need it", "does not need it", "needs it in a browser"),
    # --- metadata of an authorization server
    "issuer-url": Rule("error", "An issuer is a URL with https, without query and fragment (RFC 8414, section 2).", "refuses",
                       "sends the login there", "sends the login there"),
    "server-none": Rule("error", "An authorization server has metadata (RFC 8414, or OpenID discovery).",
                        "refuses, or uses /authorize, /token and /register if the server is its own authorization server",
                        "uses /authorize, /token and /register", "uses /authorize, /token and /register"),
    "server-not-json": Rule("warning", "Metadata is a JSON object (RFC 8414, section 3.2), and a 404 where there is none.",
                            _ON, _ON, "throws"),
    "server-fails": Rule("error", "Metadata is answered with 200, or 404 where there is none.",
                         "reports the failure if no other URL has it", "stops, and uses default endpoints", "throws"),
    "issuer-other": Rule("error", "issuer in the metadata is the one that the MCP server names (RFC 8414, section 3.3).",
                         "refuses", "raises: issuer mismatch", "version 2 throws, version 1 does not look"),
    "issuer-slash": Rule("warning", "issuer is compared to the letter (RFC 8414, section 3.3), also a last slash.",
                         "accepts the slash", "raises: issuer mismatch", "version 2 throws, version 1 does not look"),
    "endpoint-missing": Rule("error", "The metadata names authorization_endpoint and token_endpoint (RFC 8414, section 2).",
                             "refuses", "takes the metadata for invalid", "throws"),
    "endpoint-url": Rule("error", "Endpoints are URLs with https and without a fragment (RFC 6749, section 3).", "refuses",
                         "uses it", "uses it"),
    "no-s256": Rule("error", "code_challenge_methods_supported has S256 (MCP: clients refuse servers without it).", "refuses",
                    "logs in all the same", "throws, if there is a list"),
    "no-code": Rule("error", "response_types_supported is required, and has \"code\" (RFC 8414, section 2).",
                    "logs in all the same", "logs in all the same", "throws"),
    "no-registration": Rule("warning", "A client has to be known: by registration (RFC 7591), a metadata document, or by hand.",
                            "needs client_id=, or mcplite login --client-id", "raises, unless it is given a client",
                            "throws, unless it is given a client"),
    "no-public-clients": Rule("note", "Programs that keep no secret use token_endpoint_auth_methods_supported \"none\".",
                              "uses a secret, if registration gives it one", "uses a secret", "uses a secret"),
    "no-refresh": Rule("note", "grant_types_supported has refresh_token, so that users need not log in each time.",
                       "asks the user again when the token expires", "asks the user again", "asks the user again"),
    "no-iss": Rule("note", "The server names itself in its answers (RFC 9207), which guards against mix-up.",
                   "logs in all the same", "logs in all the same", "logs in all the same"),
    # --- what changes something at the server
    "register-refused": Rule("error", "A public client with a loopback redirect URI can register (RFC 7591; RFC 8252).",
                             "reports the reason", "raises", "throws"),
    "login-failed": Rule("error", "The user comes back with a code, which gets a token (OAuth 2.1, section 4.1).",
                         "reports the reason", "", ""),
    "token-refused": Rule("error", "The server accepts the token that its authorization server has given.",
                          "reports it, and does not log in in a circle", "", ""),
    "altered-token": Rule("error", "A server verifies its tokens (MCP, token handling).", "cannot know", "cannot know",
                          "cannot know"),
    "refresh-failed": Rule("warning", "A refresh token gets a new access token (OAuth 2.1, section 4.3).",
                           "asks the user again", "asks the user again", "asks the user again"),
    "no-revision": Rule("error", "A server speaks at least one revision of the protocol.", "reports the reason", "", ""),
}
assert all(rule.severity in SEVERITIES for rule in RULES.values())


@dataclass
class Finding:
    """One thing that the doctor has found out.

    ``code`` is a key of :data:`RULES`; empty for what is right. ``text`` says what was sent and what came.
    """

    step: str
    code: str
    text: str

    @property
    def severity(self) -> str:
        return RULES[self.code].severity if self.code else "ok"

    def record(self) -> Dict[str, Any]:
        """Return the finding for JSON."""
        record: Dict[str, Any] = {"step": self.step, "severity": self.severity, "text": self.text}
        if self.code:
            rule = RULES[self.code]
            clients = {"mcplite": rule.mcplite, "python": rule.python, "typescript": rule.typescript}
            record.update(code=self.code, rule=rule.rule, clients={name: text for name, text in clients.items() if text})
        return record
