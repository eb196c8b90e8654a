"""Kernels that start loaded: copies of one process that has imported what the pages import.

A page that only reads spends most of its time on importing torch and the package. So the runner's
processes come from multiprocessing's fork server, which imports `headbook.publishing.loaded` once,
and each of them forks its kernel before it starts anything else: a process with threads must not be
forked. jupyter_client gets that copy from a provisioner and sees a process like any other.

On Linux, and for kernels of one thread, which the libraries settle while they are imported; all
other kernels start as usual.
"""

import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from multiprocessing import forkserver, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import ModuleType
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from headbook import paths

LOADED = "headbook.publishing.loaded"
LAUNCHER = [sys.executable, "-m", "ipykernel_launcher"]
"""First words of a kernel's command for which a copy can stand in."""
AT_THE_START = ("PYTHON", "OMP_", "MKL_", "MPL", "OPENBLAS_")
"""Beginnings of the variables that are read when Python and the libraries start."""


def processes(environment: Mapping[str, str]) -> BaseContext:
    """Starter of kernels with this environment: as copies, or anew."""
    if sys.platform != "linux" or environment.get("OMP_NUM_THREADS") != "1":
        # spawned, as a forked copy of a process that has used torch's threads can hang
        return get_context("spawn")
    forkserver.set_forkserver_preload([LOADED])
    with paths.with_variables(environment):
        forkserver.ensure_running()
    return get_context("forkserver")


class Copy:
    """A copy of this process that waits to be a kernel; jupyter_client takes it for a Popen."""

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        self.orders, theirs = get_context("fork").Pipe()
        self.process = get_context("fork").Process(target=_kernel, args=(self.orders, theirs))
        self.process.start()
        theirs.close()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _kernel(theirs: Connection, orders: Connection) -> None:
    """Waits for the orders, and is the kernel until that is shut down."""
    import numpy as np
    import pandas as pd

    os.setsid()  # as jupyter_client has it: an interrupt is for the kernel and its processes alone
    theirs.close()
    try:
        arguments, environment, folder = orders.recv()
    except EOFError:  # no kernel was wanted
        return
    os.chdir(folder)
    np.random.seed()  # all copies have one state; Python's own is drawn anew
    pd.set_option("display.max_columns", 20)  # its default outside terminals, asked when imported
    sys.path[:] = sys.modules[LOADED].PATH
    # ipykernel takes its parent's number from the environment when it is imported, as it is already
    sys.argv[1:] = [*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    with paths.with_variables(environment):
        runpy.run_module(LAUNCHER[-1], run_name="__main__", alter_sys=True)


class Provisioner(LocalProvisioner):
    """Starts the first kernel as the copy made for it, others as usual."""

    copy: Copy | None = None
    loaded: ModuleType

    async def launch_kernel(self, cmd: list[str], **given: Any) -> KernelConnectionInfo:
        copy, Provisioner.copy = Provisioner.copy, None
        same = _at_the_start(given["env"]) == _at_the_start(self.loaded.VARIABLES)
        if copy is None or not same or cmd[: len(LAUNCHER)] != LAUNCHER:
            return await super().launch_kernel(cmd, **given)
        self.cwd = given.get("cwd") or os.getcwd()
        parent = {"JPY_PARENT_PID": str(os.getpid())}
        copy.orders.send((cmd[len(LAUNCHER) :], given["env"] | parent, str(self.cwd)))
        self.process, self.pid, self.pgid = copy, copy.pid, copy.pid
        return self.connection_info


def _at_the_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(AT_THE_START)}


@contextmanager
def start_loaded() -> Iterator[None]:
    """Within, this process's first kernel is a copy of it, where it is loaded itself.

    Enter it before anything starts a thread. The kernel ends with it, and this process with the one
    that started it.
    """
    if LOADED not in sys.modules:
        yield
        return
    copy = Provisioner.copy = Copy()
    Provisioner.loaded = sys.modules[LOADED]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    factory = KernelProvisionerFactory.instance()
    here = EntryPoint("loaded", f"{__name__}:Provisioner", factory.GROUP_NAME)
    factory.provisioners["loaded"] = here
    factory.default_provisioner_name = "loaded"
    try:
        yield
    finally:
        copy.kill()
        copy.wait()


def _end_with_parent() -> None:
    parent_process().join()
    os._exit(1)
