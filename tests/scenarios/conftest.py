"""The modules of this folder are imported as `scenarios.NAME`, as in `make differential`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
