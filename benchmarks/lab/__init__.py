"""Generators of runs with known truths, to measure the accuracy of the health checks.

``python -m benchmarks.lab --help`` lists what can be made; README.md says how.
The code does not use the checks: truths follow from the faults that were planted.
"""
