"""Entry point of ``python -m rlreport``, which imports no modules from the current folder.

That folder is not trusted. Modules that Python imports before this one, such as ``types``, can
still come from it; ``python -P -m rlreport`` prevents that.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from rlreport.cli import main

    main(prog_name="rlreport")
