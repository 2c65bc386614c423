"""`python -m polvet`: the command line."""

from polvet.cli import main

if __name__ == "__main__":
    main()
