"""The modules of this folder are imported as `crash.NAME`, as in `make crash`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
