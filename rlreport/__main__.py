"""``python -m rlreport``: without modules of the current folder, which may hold others' files.

What Python itself imports before there is a program (``types``) it still takes from there, unless
it is told ``-P``.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from rlreport.cli import main

    main(prog_name="rlreport")
