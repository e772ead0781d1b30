"""The `millstream` command.

Why: the entry point that packaging names; all the rest is in `root`.
"""

from millstream.cli.root import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
