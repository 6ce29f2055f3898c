"""The same runs judged by rlreport and by other tools: what each finds, and what it raises wrongly.

``python -m benchmarks.others --rl-doctor PYTHON --runmedic PYTHON --rolloutscope PYTHON`` prints
the table of ``docs/others.md``. What a tool reads, and what its findings are taken for, is in the
module with its name.
"""
