"""A laboratory of runs with known truths, to measure the health checks with.

``python -m benchmarks.lab --help`` lists what can be made; README.md says how.
Nothing here looks at the checks: the truths come from what was planted.
"""
