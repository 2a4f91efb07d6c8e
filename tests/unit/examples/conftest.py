"""Where the packages of the examples are found."""

import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"

for folder in ("network", "imoocpod"):
    sys.path.append(str(EXAMPLES / folder))
