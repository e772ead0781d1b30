"""The shop's modules import each other by name, as a program's files do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "shop"))
