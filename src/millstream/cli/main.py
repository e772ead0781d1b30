"""The `millstream` command.

Why: the entry point that packaging names. `up` takes the short way of `start`; all the rest is in `root`.
"""

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["up"]:
        from millstream.cli.start import read_flags, start_and_exit

        flags = read_flags(arguments[1:])
        if flags is not None:
            start_and_exit(flags)

    from millstream.cli.root import app

    app()


if __name__ == "__main__":
    main()
