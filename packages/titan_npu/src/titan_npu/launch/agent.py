"""The parent of the ranks: torch's elastic agent, signals, and the last word."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import types
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.elastic.rendezvous.registry as rendezvous
from torch.distributed.elastic.agent.server.api import RunResult, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousParameters
from torchtitan.components.metrics import _get_metrics_rank
from torchtitan.distributed import ParallelDims

from titan_npu.config.compose import Job
from titan_npu.errors import TitanNpuError
from titan_npu.launch.config import Launcher
from titan_npu.launch.failure import RankFailure, describe, root_cause
from titan_npu.launch.logs import RankLogs
from titan_npu.launch.rank import stop_file
from titan_npu.trainer import NpuTrainer, fit_vocabulary, prepare_default_data, read_data_sets

logger = logging.getLogger("titan_npu")

STOP_TIMEOUT = 30
"""Seconds between telling ranks to end because one failed, or the terminal is gone, and killing them."""


def launch(job: Job, arguments: Sequence[str], *, dry_run: bool = False) -> int:
    """Start the ranks of ``job`` on this machine, each ``titan-npu`` with ``arguments``, and wait for them.

    Returns the exit status: 0, 1 after a failure (told on standard error), 128 + the signal after a stop.
    Raises a TitanNpuError for what can be known before a rank starts.
    """
    prepare(job)
    launcher = job.launcher
    _share_cores(launcher.nproc)
    folder = _log_folder(job, dry_run)
    with contextlib.ExitStack() as stack:
        _elastic_log(stack, folder / "launcher.log")
        try:
            status = _Parent(job, arguments, folder).run()
        except (RendezvousError, dist.DistNetworkError, dist.DistStoreError) as error:
            if launcher.nnodes == 1:
                raise
            raise TitanNpuError(
                f"The {launcher.nnodes} machines did not meet at {launcher.rdzv_endpoint} ({error}): check "
                "that launcher.rdzv_endpoint is reachable and that the command runs on all of them."
            ) from error
    if dry_run and status == 0:
        shutil.rmtree(folder)
    return status


def prepare(job: Job) -> None:
    """What all ranks need and only one may make, and what a rank would only find wrong after its start."""
    if isinstance(job.trainer, NpuTrainer.Config):
        prepare_default_data(job.trainer)
        fit_vocabulary(job.trainer)
        read_data_sets(job.trainer)


class _Parent:
    def __init__(self, job: Job, arguments: Sequence[str], folder: Path) -> None:
        self._launcher = job.launcher
        self._max_restarts = job.launcher.max_restarts
        self._logs = RankLogs(folder, _reporting_rank(job), sys.stdout, self._restarting)
        self._stop: signal.Signals | None = None
        # The elastic agent's own handlers would end the ranks where we let them finish a step.
        hang_up = "" if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else "SIGHUP,"
        os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = f"{hang_up}SIGQUIT"
        if job.launcher.max_restarts:
            # The store that the agent holds for the ranks keeps what they wrote, through a restart: the new
            # ones would call the old ones' addresses. Rank 0 of each attempt holds one of its own instead.
            os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        self._spec = _worker_spec(job.launcher, arguments)
        self._agent = LocalElasticAgent(self._spec, self._logs, shutdown_timeout=STOP_TIMEOUT)

    def run(self) -> int:
        launcher = self._launcher
        machines = f" x {launcher.nnodes} machines" if launcher.nnodes > 1 else ""
        ranks = f"{launcher.nproc} rank{'s' if launcher.nproc > 1 else ''}{machines}"
        logger.info("%s; their logs: %s", ranks, self._logs.folder)
        before = {number: signal.getsignal(number) for number in _HANDLED}
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        try:
            return self._conclude(self._agent.run())
        except KeyboardInterrupt:
            assert self._stop is not None
            return self._interrupted()
        except SignalException as ended:  # SIGHUP or SIGQUIT: the agent has ended the ranks
            return 128 + ended.sigval
        finally:
            self._logs.close()
            with contextlib.suppress(Exception):  # nobody is left to meet; the run's own end is what counts
                self._spec.rdzv_handler.shutdown()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _conclude(self, result: RunResult | None) -> int:
        self._logs.close()
        stopped = self._agreed_stop()
        if result is None or not result.is_failed():
            return stopped
        failures = {
            rank: RankFailure.of(rank, failure, self._logs.log(rank))
            for rank, failure in result.failures.items()
        }
        first = root_cause(failures)
        if self._stop is not None and first.stopped:
            return self._interrupted()
        shown, sentence = describe(failures, self._logs.log(first.rank))
        if shown:
            print(shown, file=sys.stderr)
        print(f"titan-npu: {sentence}", file=sys.stderr)
        return 1

    def _agreed_stop(self) -> int:
        """128 + the signal when the ranks left word that they stopped early, else 0."""
        status = 0
        for error_file in self._logs.error_files.values():
            word = stop_file(error_file)
            if word.is_file():
                status = int(word.read_text(encoding="utf-8"))
                word.unlink()
        return status

    def _interrupted(self) -> int:
        assert self._stop is not None
        print("titan-npu: interrupted; the last checkpoint, if there was one, is as it was.", file=sys.stderr)
        return 128 + self._stop

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        del frame
        ranks = [worker.id for worker in self._agent.get_worker_group().workers if worker.id]
        again = self._stop is not None
        self._stop = signal.Signals(number)
        if again or not ranks:
            for rank in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank, signal.SIGKILL)  # each leads a session, with its loading workers
            raise KeyboardInterrupt
        logger.warning("%s: finishing this step, then saving (again to stop at once).", self._stop.name)
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, number)

    def _restarting(self, attempt: int) -> None:
        if self._stop is not None:
            raise KeyboardInterrupt
        logger.warning(
            "A rank failed (%s tells): all start again from the last checkpoint, restart %d of %d.",
            self._logs.folder, attempt, self._max_restarts,
        )  # fmt: skip


_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _worker_spec(launcher: Launcher, arguments: Sequence[str]) -> WorkerSpec:
    """What the agent needs: the command, and how machines meet."""
    configs: dict[str, Any] = {"timeout": 900}
    address, port = None, None
    if launcher.nnodes == 1:
        backend, endpoint, local_addr = "c10d", "localhost:0", "localhost"
    else:
        assert launcher.rdzv_endpoint is not None  # Launcher checks
        backend, endpoint, local_addr = launcher.rdzv_backend, launcher.rdzv_endpoint, None
        if backend == "static":
            host, _, text = endpoint.rpartition(":")
            configs["rank"] = launcher.node_rank
            address, port = host, int(text)
        elif launcher.node_rank is not None:
            configs["is_host"] = launcher.node_rank == 0
    default_id = uuid.uuid4().hex if launcher.nnodes == 1 else "titan-npu"
    handler = rendezvous.get_rendezvous_handler(
        RendezvousParameters(
            backend=backend,
            endpoint=endpoint,
            run_id=launcher.rdzv_id or default_id,
            min_nodes=launcher.nnodes,
            max_nodes=launcher.nnodes,
            local_addr=local_addr,
            **configs,
        )
    )
    # A console script does not look for modules in the working folder, python -m does: the ranks as we.
    path = [] if str(Path.cwd()) in sys.path or "" in sys.path else ["-P"]
    return WorkerSpec(
        role="titan-npu",
        local_world_size=launcher.nproc,
        entrypoint=sys.executable,
        args=(*path, "-m", "titan_npu", *arguments),
        rdzv_handler=handler,
        max_restarts=launcher.max_restarts,
        monitor_interval=0.1,
        master_addr=address,
        master_port=port,
        local_addr=local_addr,
    )


def _reporting_rank(job: Job) -> int:
    """The rank that knows the loss: 0, or one of the last pipeline stage."""
    parallelism = job.trainer.parallelism
    dims = ParallelDims.from_config(parallelism, job.launcher.world_size)
    return int(_get_metrics_rank(parallel_dims=dims, pp_schedule=parallelism.pipeline_parallel_schedule))


def _share_cores(nproc: int) -> None:
    """Threads of a rank: its share of the cores, unless the user says otherwise."""
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // nproc)))


def _log_folder(job: Job, dry_run: bool) -> Path:
    """A new folder, named by the time; a dry run leaves nothing in the dump folder."""
    if dry_run:
        return Path(tempfile.mkdtemp(prefix="titan-npu-"))
    parent = Path(job.launcher.log_folder or Path(job.trainer.dump_folder) / "logs").absolute()
    name = time.strftime("%Y%m%d-%H%M%S")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{count}" for count in range(2, 100))):
            with contextlib.suppress(FileExistsError):
                (parent / f"{name}{suffix}").mkdir()
                return parent / f"{name}{suffix}"
    except OSError as error:
        raise TitanNpuError(
            f"Cannot write logs to {parent} ({error.strerror}): set launcher.log_folder or dump_folder."
        ) from error
    raise TitanNpuError(f"{parent} has a hundred folders of this second: set launcher.log_folder.")


def _elastic_log(stack: contextlib.ExitStack, path: Path) -> None:
    """Send what the elastic agent logs to a file: it warns of every signal that it sends."""
    elastic = logging.getLogger("torch.distributed.elastic")
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    propagate = elastic.propagate
    elastic.addHandler(handler)
    elastic.propagate = False

    def undo() -> None:
        elastic.removeHandler(handler)
        elastic.propagate = propagate
        handler.close()

    stack.callback(undo)
