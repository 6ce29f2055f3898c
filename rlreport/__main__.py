"""Entry point of ``rlreport`` and ``python -m rlreport``, which imports little at first.

With ``-m``, it imports no modules from the current folder, which is not trusted. Modules that
Python imports before this one, such as ``types``, can still come from it; ``python -P -m rlreport``
prevents that.
"""

import sys


def main() -> None:
    """Run the command line in this process, and exit."""
    from rlreport import signals

    signals.end_at_once()
    from rlreport.cli.main import main as run

    try:
        try:
            run(prog_name="rlreport")
        finally:
            # Python's own end takes a moment; an interrupt in it would print a traceback.
            signals.ignore()
    except KeyboardInterrupt:  # a further one, while the command handled the first
        sys.exit(signals.INTERRUPTED)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    main()
