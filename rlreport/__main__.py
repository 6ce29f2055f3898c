"""``python -m rlreport``, without importing modules from the current folder: it is not trusted.

Python's own early imports, such as ``types``, still come from there unless it runs with ``-P``.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from rlreport.cli import main

    main(prog_name="rlreport")
