"""Kernels that start loaded: forks of a process that has imported what pages import.

A page that only reads spends more time on importing torch and the package than on measuring. So the
runner's processes come from multiprocessing's fork server, which imports LOADED once, and each of
them forks its kernel. jupyter_client sees a process like any other.

On Linux, and for kernels of one thread: a process that has threads must not be forked. All other
kernels start as usual.
"""

import asyncio
import atexit
import gc
import os
import signal
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from multiprocessing import forkserver, get_context, parent_process
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from headbook import paths

LOADED = [
    "papermill", "ipykernel.debugger", "ipykernel.kernelapp", "myst_nb", "torch", "pandas",
    "scipy.stats", "headbook.plots", "headbook.results", "headbook.claims.paper",
    "headbook.looking.measure", "headbook.looking.view", "headbook.released.hugging_text",
    "sklearn.linear_model", "sacrebleu", "transformers.models.bert.modeling_bert",
]  # fmt: skip
"""What is not installed is left out."""
AT_THE_START = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as ipykernel's own default
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
"""Variables that libraries read when they are imported."""


def processes(variables: Mapping[str, str]) -> BaseContext:
    """Starter of processes with these variables of the environment, loaded or empty."""
    if sys.platform != "linux" or variables.get("OMP_NUM_THREADS") != "1":
        return get_context("spawn")
    forkserver.set_forkserver_preload(LOADED)
    with paths.with_variables(AT_THE_START | dict(variables)):
        forkserver.ensure_running()
    return get_context("forkserver")


def fork_them() -> None:
    """From here on kernels of this process are forks of it, where it is loaded itself."""
    if sys.platform == "linux" and parent_process() and "torch" in sys.modules:
        factory = KernelProvisionerFactory.instance()
        name = "forked"
        factory.provisioners[name] = EntryPoint(name, f"{__name__}:Forked", factory.GROUP_NAME)
        factory.default_provisioner_name = name


class Forked(LocalProvisioner):
    """Starts a kernel as a fork of this process, which has no thread yet."""

    async def launch_kernel(self, cmd: list[str], **given: Any) -> KernelConnectionInfo:
        if len(list(Path("/proc/self/task").iterdir())) > 1:
            return await super().launch_kernel(cmd, **given)
        self.cwd = given.get("cwd") or str(Path.cwd())
        if not (pid := os.fork()):
            _be_kernel(cmd[cmd.index("-m") + 2 :], given["env"], self.cwd)
        self.process, self.pid, self.pgid = _Child(pid), pid, pid
        return self.connection_info


def _be_kernel(arguments: list[str], variables: Mapping[str, str], folder: str) -> None:
    """The child's life: a kernel, until that is shut down or its parent is gone."""
    import numpy as np
    import pandas as pd
    from ipykernel import kernelapp

    gc.freeze()  # what was imported is no garbage, and looking through it takes long
    os.setsid()  # an interrupt is for the kernel and its processes alone
    os.chdir(folder)
    np.random.seed()  # all forks have one state; Python's own is drawn anew
    pd.set_option("display.max_columns", 20)  # as outside terminals, which it asks when imported
    sys.argv[1:] = [*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    asyncio.set_event_loop(asyncio.new_event_loop())
    with paths.with_variables(variables):
        try:
            kernelapp.launch_new_instance()
        finally:
            atexit._run_exitfuncs()  # as Python ends: semaphores that it leaves would be told of
            os._exit(0)


class _Child:
    """A forked process, with what jupyter_client asks of a Popen; it waits for one that ended."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def poll(self) -> int | None:
        if self.status is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.status = os.waitstatus_to_exitcode(ended[1])
        return self.status

    wait = poll

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    terminate = kill
