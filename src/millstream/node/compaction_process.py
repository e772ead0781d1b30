"""The compactor, tied to the life of the node that started it.

Why: a node that is killed leaves its children behind. A compactor that lives on would write into the same
`.cleaned` files as the one of the next node, in the same directory, and neither would know.
Invariants: when the other end of the lifeline (a pipe, inherited as the descriptor named by the one argument) is
closed, by whatever end of the node, the process is gone before it writes another file.
"""

import os
import sys
import threading

from millstream.log.compactor import main as compact


def _die_with(lifeline: int) -> None:
    os.read(lifeline, 1)  # nobody ever writes: it returns when the node is gone
    os._exit(1)


def main() -> int:
    threading.Thread(target=_die_with, args=(int(sys.argv[1]),), daemon=True).start()
    return compact()


if __name__ == "__main__":
    sys.exit(main())
