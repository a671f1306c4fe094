"""The entry point of the executable."""

import os
import sys
from multiprocessing import freeze_support

if sys.platform == "linux":
    # The loader of the packer has set this variable for its own libraries. tcpdump needs those of the system.
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"  # the loader sets the variable again in our own processes

freeze_support()  # ends here in the worker processes of `analyze -j`

from pcli.cli.app import main  # noqa: E402

main()
