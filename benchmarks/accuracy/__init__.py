"""The accuracy of the health checks on random runs: what is found, what is raised wrongly, and when.

``python -m benchmarks.accuracy`` measures all families and writes ``docs/accuracy.md``.
"""
