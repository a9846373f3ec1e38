# Short names for what is done often. PYTHON is the interpreter of an environment with .[test,docs,lint,types], and
# for a release .[release].
PYTHON ?= python3

SECONDS ?= 60

.PHONY: quick test cover fuzz mutants lint types map login-pictures terminal-pictures host-pictures docs bench costs attacks soak chaos torture fleet vendor-check build release clean

# What most changes touch, in a minute. "test" is what README and CONTRIBUTING give a time for; ARGUMENTS=--all runs every test.
quick:
	$(PYTHON) -m pytest -q -n 3 --dist worksteal $(addprefix tests/,types protocol rpc server/catalog server/functions server/handling net)

test:
	$(PYTHON) -m pytest $(ARGUMENTS)

# Child processes that are command lines are measured too.
cover:
	.ci/cover $(PYTHON) $(PYTHON) -m pytest --all

# Coverage-guided fuzzing with the extra "fuzz", on Python 3.11: each target for SECONDS.
fuzz:
	$(PYTHON) -m tests.fuzz --seconds $(SECONDS) $(ARGUMENTS)

# How many changes of the modules that guard something the tests notice: half an hour, with the extra "mutation".
mutants:
	$(PYTHON) .ci/mutants

lint:
	$(PYTHON) -m ruff check mcplite tests benchmarks examples docs

# As on each system: what Windows lacks, a check of sys.platform guards.
types:
	$(PYTHON) -m mypy --platform linux
	$(PYTHON) -m mypy --platform win32
	$(PYTHON) -m mypy --platform darwin

# The map of the package in docs/map.rst, from the docstrings, and the list of pages in docs/llms.txt.
map:
	$(PYTHON) docs/map.py

# The pictures of the login pages in docs/_static, with Chromium.
login-pictures:
	$(PYTHON) docs/login_pictures.py

# The pictures of the inspector's page in docs/_static, with Chromium.
inspector-pictures:
	$(PYTHON) docs/inspector_pictures.py

# The pictures of terminals in docs/_static/terminal, on POSIX.
terminal-pictures:
	$(PYTHON) docs/terminal_pictures.py

# The drawings of host applications in docs/_static/hosts, on POSIX.
host-pictures:
	$(PYTHON) docs/host_pictures.py

docs:
	$(PYTHON) -m sphinx -q -W -b html docs docs/_build/html
	$(PYTHON) docs/inventory.py docs/_build/html
	$(PYTHON) -m sphinx -q -b text docs docs/_build/text
	$(PYTHON) docs/llms.py docs/_build/html docs/_build/text

bench:
	$(PYTHON) -m benchmarks

# The table of what one client costs, in docs/security.rst, from the defaults of Limits.
costs:
	$(PYTHON) docs/costs.py

# What attacks of one client cost a server, and how another client fares meanwhile; some minutes, on Linux. With
# ARGUMENTS="--front nginx" or haproxy all requests come through that proxy.
attacks:
	$(PYTHON) benchmarks/attacks.py $(ARGUMENTS)

# An hour, at half a core; nothing may grow. ARGUMENTS are those of benchmarks/soak/__main__.py.
soak:
	$(PYTHON) -m benchmarks.soak $(ARGUMENTS)

# Signals, cut networks, full disks, ambiguous requests, and 400 calls in processes of each kind, for half an hour. It needs root
# and what tests/interop/install.sh installs; without them parts are skipped.
chaos:
	MCPLITE_CHAOS=whole $(PYTHON) -m pytest -s --all tests/chaos tests/interop/test_fronts.py tests/behaviour/test_forks.py \
		tests/frameworks/test_prefork.py

# Each call of the system fails once, in turn; the tests fail a sample. On Linux.
torture:
	MCPLITE_TORTURE=whole $(PYTHON) -m pytest -s --all tests/torture

# Four workers of gunicorn on SQLite, Redis and PostgreSQL, killed, replaced and cut off under load, for about twenty minutes.
# Parts need root. ARGUMENTS are those of tests/fleet/__main__.py.
fleet:
	$(PYTHON) -m tests.fleet $(ARGUMENTS)

vendor-check:
	$(PYTHON) -m pytest tests/test_vendored.py tests/test_imports.py tests/test_rooms.py

build:
	$(PYTHON) -m build

# The sdist and the wheel, reproducible byte for byte, an SBOM (CycloneDX) and checksums, in dist/.
release:
	.ci/release $(PYTHON)

clean:
	rm -rf build dist *.egg-info docs/_build htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .hypothesis mutants
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
