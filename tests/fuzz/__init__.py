"""Programs that try to break the library, each with tests of it: `run.py` runs them all.

A package, so that its modules do not hide those of the same name in other folders of tests.
"""
