"""Everything is in setup.cfg; this file is for tools that still ask for it."""
from setuptools import setup
setup()
