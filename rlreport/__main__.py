"""``python -m rlreport``."""

from rlreport.cli import main

if __name__ == "__main__":
    main(prog_name="rlreport")
