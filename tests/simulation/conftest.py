"""The modules of this folder are imported as `simulation.NAME`, as in `make simulate`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
