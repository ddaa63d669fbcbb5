"""Writers that begin at the same moment, as threads of this process or as processes of their own."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier

_PROCESSES = multiprocessing.get_context("forkserver")
KINDS = ("threads", "processes")


def race(
    kind: str, writer: Callable[..., int], arguments: Sequence[Sequence[object]]
) -> tuple[list[int], float]:
    """Return each writer's result, and the seconds from the barrier to the end of the last one.

    A writer is called with its arguments and a barrier, at which it waits once it is ready.
    """
    _PROCESSES.set_forkserver_preload([writer.__module__])
    with _PROCESSES.Manager() as manager, _pool(kind, len(arguments)) as pool:
        barrier: Barrier = manager.Barrier(len(arguments) + 1)
        futures = [pool.submit(writer, *own, barrier) for own in arguments]
        barrier.wait(120)
        began = time.perf_counter()
        results = [future.result() for future in futures]
        return results, time.perf_counter() - began


def _pool(kind: str, writers: int) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(writers)
    return ProcessPoolExecutor(writers, mp_context=_PROCESSES)
