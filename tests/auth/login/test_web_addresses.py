"""Addresses: which belong to the internet, in each form that they are written in, and who may send us to others."""

import ipaddress
import socket

import pytest
from hypothesis import example, given, strategies as st

from mcplite.auth.login.web import AddressGuard, is_address, is_public

PUBLIC, OTHER, PUBLIC6 = "93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"
addresses = st.integers(0, (1 << 32) - 1).map(ipaddress.IPv4Address)


class Names(dict):
    """Addresses by name; ``asked`` is what was looked up."""


@pytest.fixture
def names(monkeypatch):
    """What names mean; others are looked up by the system. Of several lists each is taken once, the last for ever."""
    real, known = socket.getaddrinfo, Names()

    def lookup(host, port, *arguments, **options):
        lookup.asked.append(host)
        if host not in known:
            return real(host, port, *arguments, **options)
        answers = known[host]
        if isinstance(answers[0], list):
            answers = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in answers]

    lookup.asked = known.asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return known


# --- is_public -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", [
    "1.1.1.1", "8.8.8.8", PUBLIC, "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
    "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "223.255.255.255", PUBLIC6, "2001:4860:4860::8888", "2a00:1450:4001:81b::200e", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "2606:4700::5efe:808:808",
    "2606:4700::200:5efe:808:808",
])
def test_public_addresses(text):
    assert is_public(text) is True


@pytest.mark.parametrize("text", [
    # IPv4
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.0.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    # IPv6
    "::", "::1", "::1:0", "::1:808:808", "233.252.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "fc00::1", "fd00::1",
    "fdff::ffff", "fec0::1", "feff::1", "ff02::1", "ff0e::1", "2001:db8::1", "100::1", "4000::1", "8000::1", "e000::1",
    # IPv4 in IPv6
    "::ffff:10.0.0.1", "::ffff:a00:1", "::FFFF:127.0.0.1", "0:0:0:0:0:ffff:a9fe:a9fe", "::ffff:0.0.0.0", "::ffff:100.64.0.1",
    "::ffff:0:10.0.0.1", "::10.0.0.1", "::127.0.0.1", "::2", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:a00:1::", "2002:7f00:1::1", "2002:a9fe:a9fe::", "2001:0:808:808::f5ff:fffe", "2001:0:a00:1::f7f7:f7f7",
    "2606:4700::5efe:a00:1", "2606:4700::200:5efe:a00:1", "fe80::5efe:a00:1",
    # The second half of such an address is chosen freely; the first half says whose it is.
    "fe80::5efe:808:808", "fe80::200:5efe:808:808", "fd12:3456::5efe:808:808", "fc00::100:5efe:808:808",
    # RFC 8215 leaves open which of the bits are the IPv4 address, so that the last ones may be there to deceive.
    "64:ff9b:1::808:808", "64:ff9b:1:a00:0:100:808:808", "64:ff9b:1:a00:0:100::",
    # no addresses at all
    "", "localhost", "1.2.3", "2130706433", "0x7f.1", "1.2.3.4.5", "[::1]", "::1/128", "10.0.0.1 ",
])
def test_other_addresses(text):
    assert is_public(text) is False


@given(addresses)
@example(ipaddress.IPv4Address("10.0.0.1"))
@example(ipaddress.IPv4Address(PUBLIC))
def test_an_embedded_address_is_judged_as_itself(address):
    number, judged = int(address), is_public(str(address))
    assert is_public(str(ipaddress.IPv6Address(0xFFFF << 32 | number))) is judged
    assert is_public(str(ipaddress.IPv6Address((0x64 << 112) | (0xFF9B << 96) | number))) is judged
    assert is_public(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1))) is judged
    teredo = (0x2001 << 112) | (number << 64) | (int(ipaddress.IPv4Address(PUBLIC)) ^ 0xFFFF_FFFF)
    assert is_public(str(ipaddress.IPv6Address(teredo))) is judged
    teredo = (0x2001 << 112) | (int(ipaddress.IPv4Address(PUBLIC)) << 64) | (number ^ 0xFFFF_FFFF)
    assert is_public(str(ipaddress.IPv6Address(teredo))) is judged
    isatap = (0x2606_4700 << 96) | (0x5EFE << 32) | number
    assert is_public(str(ipaddress.IPv6Address(isatap))) is judged


@given(addresses)
def test_an_address_that_python_takes_for_private_is_never_public(address):
    assert not (is_public(str(address)) and (address.is_private or address.is_multicast or address.is_reserved))


# --- the guard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [
    ["10.0.0.1"], [OTHER, "10.0.0.1"], ["10.0.0.1", OTHER], [OTHER, PUBLIC6, "::1"], ["::ffff:10.0.0.1"], ["fe80::1%lo"],
    ["64:ff9b::a00:1"], ["169.254.169.254"], ["0.0.0.0"], [OTHER, "fd00::5efe:808:808"],
])
def test_each_address_of_a_name_is_checked(names, found):
    names.update({"mcp.example": [PUBLIC], "as.example": found})
    with pytest.raises(OSError, match="as.example is at an address of a private network") as caught:
        AddressGuard("https://mcp.example/mcp")("as.example", 443)
    assert not any(address in str(caught.value) for address in found)


@pytest.mark.parametrize("host", [
    "127.0.0.1", "[::1]", "::1", "[::ffff:127.0.0.1]", "0", "0.0.0.0", "127.1", "0x7f.1", "0x7f000001", "2130706433",
    "017700000001", "0177.0.0.1", "10.1", "192.168.257", "0xa9fea9fe", "2852039166",
])
def test_a_number_is_an_address_however_it_is_written(names, host):
    names["mcp.example"] = [PUBLIC]
    with pytest.raises(OSError, match="a private network"):
        AddressGuard("https://mcp.example/mcp")(host, 443)


@pytest.mark.parametrize("home", ["10.1.2.3", "127.0.0.1", "::1", "fd00::1", "100.64.0.1"])
def test_a_private_server_may_name_any(names, home):
    names.update({"mcp.example": [home], "inner.example": ["10.0.0.1"], "as.example": [OTHER]})
    guard = AddressGuard("https://mcp.example/mcp", home)
    assert guard("inner.example", 443) == ["10.0.0.1"]
    assert guard("as.example", 443) == [OTHER]
    assert guard("127.0.0.1", 443) == ["127.0.0.1"]


@pytest.mark.parametrize("home", [["127.0.0.1"], ["::1"], ["10.1.2.3"], ["127.0.0.1", "10.1.2.3"]])
@pytest.mark.parametrize("found", ["127.0.0.1", "127.255.255.254", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1",
                                   "64:ff9b::7f00:1"])
def test_a_name_that_is_looked_up_again_does_not_lead_to_this_machine(names, home, found):
    # AUTH-36: it meant a public address when the server was asked, and this machine a moment later.
    names.update({"mcp.example": home, "as.example": [OTHER, found]})
    guard = AddressGuard("https://mcp.example/mcp")
    for host in (found, "as.example"):
        with pytest.raises(OSError, match="a private network"):
            guard(host, 443)


def test_a_server_in_a_private_network_may_name_others_there_without_an_address(names):
    names.update({"mcp.example": ["10.1.2.3"], "inner.example": ["10.0.0.1"]})
    assert AddressGuard("https://mcp.example/mcp")("inner.example", 443) == ["10.0.0.1"]


def test_the_address_where_a_server_was_met_counts_and_not_its_name(names):
    names.update({"mcp.example": ["127.0.0.1"], "inner.example": ["10.0.0.1"]})
    guard = AddressGuard("https://mcp.example/mcp", PUBLIC)
    for host in ("127.0.0.1", "inner.example"):
        with pytest.raises(OSError, match="a private network"):
            guard(host, 443)
    assert "mcp.example" not in names.asked


@pytest.mark.parametrize("url", ["http://localhost:8000/mcp", "http://127.0.0.1:8000/mcp", "http://[::1]:8000/mcp",
                                 "https://10.0.0.1/", "https://[fd00::1]/"])
def test_a_server_without_a_name_is_judged_by_its_address(names, url):
    assert AddressGuard(url)("127.0.0.1", 443) == ["127.0.0.1"]


def test_a_server_with_a_public_address_is_public_whatever_else_it_has(names):
    # Who names the server chooses its addresses: one of 10.0.0.0/8 more, and nothing would be refused any more.
    for mixed in ([PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC6, "127.0.0.1"]):
        names.update({"mcp.example": mixed, "inner.example": ["10.0.0.2"]})
        with pytest.raises(OSError, match="a private network"):
            AddressGuard("https://mcp.example/mcp")("inner.example", 443)


def test_the_server_itself_may_be_anywhere(names):
    names["mcp.example"] = [PUBLIC]
    guard = AddressGuard("https://MCP.example/mcp")
    assert guard("mcp.example", 443) == ["mcp.example"] and guard("MCP.EXAMPLE", 8443) == ["MCP.EXAMPLE"]
    assert AddressGuard("http://[::1]:8000/mcp")("[::1]", 9000) == ["::1"]
    assert names.asked == []


@pytest.mark.parametrize("host", ["mcp.example.evil.example", "evil-mcp.example", "mcp.example.", "xmcp.example",
                                  "Xmcp.example"])
def test_only_the_very_name_is_the_server_itself(names, host):
    names.update({"mcp.example": [PUBLIC], host: ["10.0.0.1"]})
    with pytest.raises(OSError, match="a private network"):
        AddressGuard("https://mcp.example/mcp")(host, 443)


def test_the_checked_address_is_the_one_that_is_returned(names):
    names.update({"mcp.example": [PUBLIC], "as.example": [[OTHER], ["10.0.0.1"]]})
    guard = AddressGuard("https://mcp.example/mcp")
    assert guard("as.example", 443) == [OTHER]
    assert names.asked.count("as.example") == 1
    with pytest.raises(OSError, match="a private network"):  # each connection is checked
        guard("as.example", 443)


def test_the_servers_own_address_is_looked_up_once(names):
    names.update({"mcp.example": [[PUBLIC], ["10.0.0.1"]], "inner.example": ["10.0.0.2"]})
    guard = AddressGuard("https://mcp.example/mcp")
    for _ in range(2):
        with pytest.raises(OSError, match="a private network"):
            guard("inner.example", 443)
    assert names.asked.count("mcp.example") == 1


def test_an_unknown_name_is_an_error(names, monkeypatch):
    def unknown(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match="not known"):
        AddressGuard("https://mcp.example/mcp")("as.example", 443)


def test_hosts_of_urls_that_the_caller_gave_may_be_anywhere(names):
    names.update({"server.example": [PUBLIC], "other.internal": ["10.0.0.8"]})
    guard = AddressGuard("https://server.example/mcp", given=["https://login.internal:8443/x", "https://[fd00::1]/"])
    assert guard("login.internal", 443) == ["login.internal"] and guard("[FD00::1]", 443) == ["FD00::1"]
    assert names.asked == [], "they are used as they are"
    with pytest.raises(OSError, match="other.internal is at an address of a private network"):
        guard("other.internal", 443)


def test_a_server_that_only_a_proxy_knows_is_not_taken_for_a_private_one(names, monkeypatch):
    names["login.internal"] = ["10.0.0.8"]
    lookup = socket.getaddrinfo

    def unknown(host, port, *arguments, **options):
        if host == "server.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return lookup(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match="private network"):
        AddressGuard("https://server.example/mcp")("login.internal", 443)


@pytest.mark.parametrize("host, expected", [
    ("127.0.0.1", True), ("[::1]", True), ("::1", True), ("[fe80::1%eth0]", True), ("fe80::1%25", True), ("example.com", False),
    ("x127.0.0.1", False), ("127.0.0.1x", False), ("X127.0.0.1X", False), ("127.0.0.1 ", False), ("", False), ("127.1", False),
])
def test_hosts_that_are_addresses(host, expected):
    assert is_address(host) is expected


def test_a_zone_does_not_change_what_an_address_is(names):
    assert is_public(PUBLIC6 + "%eth0") and not is_public("fe80::1%eth0")
    names.update({"server.internal": ["10.0.0.1"], "here.example": ["::1%lo"], "there.example": ["fe80::2%eth0"]})
    assert AddressGuard("https://server.internal/mcp")("there.example", 443) == ["fe80::2%eth0"]
    with pytest.raises(OSError, match="private network"):
        AddressGuard("https://server.internal/mcp")("here.example", 443)
