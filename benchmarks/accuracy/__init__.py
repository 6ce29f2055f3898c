"""The accuracy of the health checks on random runs: what is found, raised wrongly, and dated right.

``python -m benchmarks.accuracy`` measures all families and writes ``docs/accuracy.md``.
"""
