"""Imports what pages import, for a process that kernels are copies of; see `kernels`."""

import gc
import sys
from contextlib import suppress
from importlib import import_module

from headbook import paths

PATH = list(sys.path)
VARIABLES = paths.variables()
KERNELS_OWN = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
"""ipykernel's default environment, which matplotlib reads when it is imported."""
QUIET = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
"""ipykernel's debugger would warn that it may miss breakpoints in Python's own modules."""

MORE = (
    "headbook.chapters.page", "headbook.plots", "ipykernel.debugger", "ipykernel.kernelapp",
    "myst_nb", "papermill",
    "headbook.released.hugging_text",  # the last, as transformers need not be installed
)  # fmt: skip
"""Imports of notebooks and their runner besides chapters."""

# A fault in a chapter is that page's alone: the kernel that opens it fails, and says so.
with paths.with_variables(KERNELS_OWN | QUIET | VARIABLES), suppress(Exception):
    import_module("headbook.chapters.chapter").chapters()
    for module in MORE:
        import_module(module)

gc.freeze()  # a copy's collector leaves alone, and so shares, what was here before it
