"""Does mcplite stay the same for hours: ``python -m benchmarks.soak``, or ``make soak``.

A driver uses a server over HTTP and servers over stdio in all the ways of ``jobs.py``, side by side, and slowly enough
to leave a core free. ``samples.py`` looks at the processes, ``drift.py`` judges what it saw, ``__main__.py`` has the
options and the table.
"""
