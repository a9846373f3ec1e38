"""How fast mcplite is, compared with a plain-stdlib floor and the official SDK in the same run.

``python -m benchmarks`` runs everything and prints a table; see ``__main__.py`` for the options and
``targets.py`` for the targets. A machine's speed changes within seconds, so only ratios count: peer and
floor take turns, slice by slice, and a figure is the median over the slices. Calls have a second floor, "floor2", which
is as fast as Python can be; their goals are stated against it.

``python -m benchmarks.journeys`` does not measure time: it counts the files that one call passes through.
``python -m benchmarks.round_trips`` counts what requests cost a shared backend, and ``python -m benchmarks.fleet``
simulates a fleet on one; docs/deploying.rst has what follows from both.
"""
