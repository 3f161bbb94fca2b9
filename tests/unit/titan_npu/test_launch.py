"""Several ranks: what is refused before they start, where their logs go, which of them failed first."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torchtitan.config import ParallelismConfig

from titan_npu.config.compose import compose_job
from titan_npu.errors import ConfigError, DataError
from titan_npu.launch import layout, rank
from titan_npu.launch.agent import _log_folder, _reporting_rank, _worker_spec
from titan_npu.launch.config import Launcher
from titan_npu.launch.failure import GRACE, RankFailure, describe, root_cause
from titan_npu.launch.logs import Echo, RankLogs, tail


class TestLauncher:
    def test_groups(self) -> None:
        job = compose_job(["launcher.nproc=4", "parallelism.tensor_parallel_degree=2"])
        assert job.launcher == Launcher(nproc=4)
        assert compose_job(["launcher=local"]).launcher.nproc >= 1
        job = compose_job(
            [
                "launcher=multi_node",
                "launcher.rdzv_endpoint=one:29400",
                "launcher.nproc=2",
                "launcher.nnodes=3",
            ]
        )
        assert job.launcher.world_size == 6

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["launcher.nproc=0"], "nproc is the number of ranks on this machine, at least 1, not 0"),
            (["launcher.nnodes=0"], "nnodes is the number of machines"),
            (["launcher.max_restarts=-1"], "max_restarts is how often"),
            (["launcher=multi_node"], "nnodes=2 needs launcher.rdzv_endpoint=HOST:PORT"),
            (
                ["launcher.nnodes=2", "launcher.rdzv_endpoint=one"],
                "rdzv_endpoint=one is not of the form HOST:PORT",
            ),
            (["launcher.node_rank=1"], "node_rank=1 is no machine of nnodes=1"),
            (
                ["launcher.nnodes=2", "launcher.rdzv_backend=static", "launcher.rdzv_endpoint=one:1"],
                "rdzv_backend=static needs launcher.node_rank",
            ),
            (["launcher.nprocs=2"], "Unknown key launcher.nprocs. Nearest: launcher.nproc"),
            (["launcher=slurm"], "launcher=slurm: there is no such choice; known: local, multi_node, single"),
        ],
    )
    def test_refusals(self, words: list[str], said: str) -> None:
        with pytest.raises(ConfigError) as caught:
            compose_job(words)
        assert said in str(caught.value)

    def test_how_machines_meet(self) -> None:
        """The agent's own rendezvous handler is made without meeting anybody."""
        spec = _worker_spec(
            Launcher(nproc=2, nnodes=2, node_rank=1, rdzv_backend="static", rdzv_endpoint="one:29400"),
            ["train"],
        )
        assert (spec.master_addr, spec.master_port, spec.local_world_size) == ("one", 29400, 2)
        assert spec.rdzv_handler.get_backend() == "static"
        assert spec.args[-3:] == ("-m", "titan_npu", "train")


class TestLayout:
    def test_more_ranks_than_npus(self) -> None:
        layout.check_devices(Launcher(nproc=8), 8)
        with pytest.raises(
            ConfigError, match=r"launcher.nproc=9 is more than the 8 NPUs .*NPU_EMULATOR_DEVICES"
        ):
            layout.check_devices(Launcher(nproc=9), 8)

    @pytest.mark.parametrize(
        ("degrees", "ranks"),
        [
            ({}, 4),
            ({"tensor_parallel_degree": 2}, 4),
            ({"data_parallel_shard_degree": 2, "pipeline_parallel_degree": 2}, 4),
            ({"data_parallel_shard_degree": 1}, 1),
            ({"expert_parallel_degree": 2}, 2),  # experts take ranks that the others count
        ],
    )
    def test_degrees_that_fit(self, degrees: dict[str, int], ranks: int) -> None:
        layout.check_parallelism(ParallelismConfig(spmd_backend="partial_dtensor", **degrees), ranks)

    @pytest.mark.parametrize(
        ("degrees", "ranks", "said"),
        [
            (
                {"tensor_parallel_degree": 3},
                4,
                "The parallel degrees (tensor_parallel_degree 3) multiply to 3, which does not divide the 4 ranks",
            ),
            (
                {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "data_parallel_shard_degree": 2},
                4,
                "(data_parallel_shard_degree 2 x tensor_parallel_degree 2 x pipeline_parallel_degree 2) multiply "
                "to 8, which does not equal the 4 ranks of this run: change one of them, or launcher.nproc",
            ),
            ({"data_parallel_shard_degree": 1}, 2, "(all 1) multiply to 1, which does not equal the 2 ranks"),
            (
                {"context_parallel_degree": 0},
                2,
                "parallelism.context_parallel_degree is 0, and must be at least 1",
            ),
            ({"data_parallel_shard_degree": -2}, 2, "or -1 for all ranks that the others leave"),
        ],
    )
    def test_degrees_that_do_not(self, degrees: dict[str, int], ranks: int, said: str) -> None:
        with pytest.raises(ConfigError) as caught:
            layout.check_parallelism(ParallelismConfig(spmd_backend="partial_dtensor", **degrees), ranks)
        assert said in str(caught.value)

    def test_a_backend_that_this_torch_cannot_shard(self) -> None:
        with pytest.raises(ConfigError, match=r"set parallelism\.spmd_backend=partial_dtensor"):
            layout.check_parallelism(ParallelismConfig(spmd_backend="spmd_types"), 2)
        layout.check_parallelism(ParallelismConfig(spmd_backend="spmd_types"), 1)

    def test_ranks_of_an_outside_launcher_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert layout.world_size(Launcher(nproc=2)) == 2
        monkeypatch.setenv("WORLD_SIZE", "8")
        assert layout.world_size(Launcher(nproc=2)) == 8

    def test_the_rank_that_knows_the_loss(self) -> None:
        assert _reporting_rank(compose_job(["launcher.nproc=4"])) == 0
        job = compose_job(["launcher.nproc=4", "parallelism.pipeline_parallel_degree=2"])
        assert _reporting_rank(job) == 2


def killed(number: int, seconds: float, by: signal.Signals) -> RankFailure:
    return RankFailure(number, -by, seconds)


def raised(number: int, seconds: float, error: str, follows: bool = False) -> RankFailure:
    return RankFailure(number, 1, seconds, error=error, traceback=f"Traceback\n{error}\n", follows=follows)


FOLLOWING = raised(0, 10.2, "RuntimeError: HCCL: lost rank 1", follows=True)


class TestRootCause:
    @pytest.mark.parametrize(
        ("failures", "first"),
        [
            ([raised(0, 10.5, "ValueError: a"), raised(1, 10.1, "ValueError: b")], 1),
            # The agent sees a killed rank after the others have: they tell of it.
            ([FOLLOWING, killed(1, 11.0, signal.SIGKILL)], 1),
            ([FOLLOWING, killed(1, 11.0, signal.SIGSEGV)], 1),
            # An error of communication is the cause where nothing else is.
            ([FOLLOWING, killed(1, 11.0, signal.SIGTERM)], 0),
            ([FOLLOWING, raised(1, 10.4, "RuntimeError: hccl", follows=True)], 0),
            # The agent ends who is left, and kills who does not listen.
            ([raised(1, 10.0, "ValueError: b"), killed(0, 10.3, signal.SIGTERM)], 1),
            ([raised(1, 10.0, "HCCL", follows=True), killed(0, 10.0 + GRACE, signal.SIGKILL)], 1),
            # A follower may crash in its turn.
            ([raised(1, 10.0, "ValueError: b"), killed(0, 11.0, signal.SIGABRT)], 1),
            ([killed(3, 10.0, signal.SIGTERM)], 3),
        ],
    )
    def test_table(self, failures: list[RankFailure], first: int) -> None:
        assert root_cause({failure.rank: failure for failure in failures}).rank == first

    def test_what_is_said_of_an_exception(self, tmp_path: Path) -> None:
        shown, sentence = describe(
            {0: FOLLOWING, 1: raised(1, 10.1, "ValueError: b")}, tmp_path / "rank_1.log"
        )
        assert shown == "Traceback\nValueError: b\n"
        assert sentence == (
            "rank 1 failed with exit status 1 (ValueError: b), and rank 0 with it; its log is "
            f"{tmp_path}/rank_1.log."
        )

    def test_what_is_said_of_a_signal(self, tmp_path: Path) -> None:
        log = tmp_path / "rank_1.log"
        log.write_text("step 1\nFatal Python error\n")
        shown, sentence = describe({1: killed(1, 10.0, signal.SIGSEGV)}, log)
        assert shown == "The end of the log of rank 1:\nstep 1\nFatal Python error\n"
        assert sentence == f"rank 1 was killed by SIGSEGV; its log is {log}."

    def test_what_the_user_can_act_on_is_one_sentence(self, tmp_path: Path) -> None:
        failure = RankFailure(
            1, 1, 10.0, error="DataError: no data", traceback="T", sentence="There is no data."
        )
        shown, sentence = describe({1: failure}, tmp_path / "rank_1.log")
        assert shown == "" and sentence.startswith("There is no data. (Rank 1;")


NO_LOG = Path("/nonexistent/rank.log")


class TestErrorFile:
    def test_an_abort_of_torch_npu_s_watchdog_follows(self, tmp_path: Path) -> None:
        log = tmp_path / "rank_0.log"
        log.write_text(
            "[Rank 0] HCCL watchdog thread terminated with exception:\nFatal Python error: Aborted\n"
        )
        known = ProcessFailure(local_rank=0, pid=1, exitcode=-6, error_file=str(tmp_path / "none"))
        aborted = RankFailure.of(0, known, log)
        assert aborted.follows and not RankFailure.of(0, known, NO_LOG).follows
        later = killed(1, aborted.time + 1.0, signal.SIGKILL)
        assert root_cause({0: aborted, 1: later}) is later

    @pytest.fixture
    def error_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "rank_1.error.json"))
        return tmp_path / "rank_1.error.json"

    def test_what_a_rank_leaves_is_what_the_agent_reads(self, error_file: Path) -> None:
        before = time.time()
        try:
            raise ValueError("a bug")
        except ValueError as error:
            rank.record(error, None)
        rank.record(DataError("a later one"), "a later one")
        known = ProcessFailure(local_rank=1, pid=1, exitcode=1, error_file=str(error_file))
        failure = RankFailure.of(1, known, NO_LOG)
        assert failure.error == "ValueError: a bug" and 'raise ValueError("a bug")' in failure.traceback
        assert before <= failure.time <= time.time()
        assert failure.sentence is None and not failure.follows

    def test_torchtitan_s_own_record_is_replaced(self, error_file: Path) -> None:
        theirs = {"message": "x", "extraInfo": {"py_callstack": "T", "timestamp": "17"}}
        error_file.write_text(json.dumps({"message": theirs}))
        known = ProcessFailure(local_rank=1, pid=1, exitcode=1, error_file=str(error_file))
        assert RankFailure.of(1, known, NO_LOG).time == 17.0
        rank.record(DataError("There is no data."), "There is no data.")
        known = ProcessFailure(local_rank=1, pid=1, exitcode=1, error_file=str(error_file))
        assert RankFailure.of(1, known, NO_LOG).sentence == "There is no data."

    def test_no_file_is_a_signal_or_a_status(self, tmp_path: Path) -> None:
        known = ProcessFailure(local_rank=0, pid=1, exitcode=-9, error_file=str(tmp_path / "none"))
        failure = RankFailure.of(0, known, NO_LOG)
        assert failure.ended() == "was killed by SIGKILL" and failure.traceback == ""

    def test_errors_of_communication(self) -> None:
        assert rank.tells_of_a_lost_peer(RuntimeError("HcclAllReduce lost rank 1"))
        assert rank.tells_of_a_lost_peer(ConnectionResetError())
        outer = RuntimeError("the save failed")
        outer.__cause__ = RuntimeError("[../third_party/gloo] Connection closed by peer")
        assert rank.tells_of_a_lost_peer(outer)
        assert not rank.tells_of_a_lost_peer(ValueError("a bug"))

    def test_without_a_launcher_nothing_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
        monkeypatch.chdir(tmp_path)
        rank.record(ValueError("a bug"), None)
        rank.record_stop(130)
        assert list(tmp_path.iterdir()) == []


class TestLogs:
    def test_a_file_a_rank_and_one_on_the_console(self, tmp_path: Path) -> None:
        console, restarts = io.StringIO(), list[int]()
        logs = RankLogs(tmp_path, 2, console, restarts.append)
        envs = {local: {"RANK": str(2 + local), "TORCHELASTIC_RESTART_COUNT": "0"} for local in (0, 1)}
        places = logs.reify(envs)
        assert places.stdouts == {0: str(tmp_path / "rank_2.log"), 1: str(tmp_path / "rank_3.log")}
        assert envs[1]["TORCHELASTIC_ERROR_FILE"] == str(tmp_path / "rank_3.error.json")
        (tmp_path / "rank_2.log").write_text("step: 1\nhalf a line")
        (tmp_path / "rank_3.log").write_text("something else\n")
        logs.close()
        assert console.getvalue() == "step: 1\n" and restarts == []
        for env in envs.values():
            env["TORCHELASTIC_RESTART_COUNT"] = "1"
        assert logs.reify(envs).stdouts[0] == str(tmp_path / "rank_2.attempt_1.log")
        logs.close()
        assert restarts == [1] and logs.log(3) == tmp_path / "rank_3.attempt_1.log"

    def test_the_error_of_the_rank_shown_is_left_to_the_launcher(self, tmp_path: Path) -> None:
        console, path = io.StringIO(), tmp_path / "rank_0.log"
        path.write_text(f"step: 1\n{rank.FAILED.format(rank=0)}\nTraceback\n")
        echo = Echo(path, console, rank.FAILED.format(rank=0))
        echo.start()
        echo.close()
        assert console.getvalue() == "step: 1\n"

    def test_tail(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_text("".join(f"line {number}\n" for number in range(9000)) + "x" * 500 + "\n")
        assert tail(log, lines=2) == "line 8999\n" + "x" * 157 + "..."
        assert tail(tmp_path / "none") == ""

    def test_two_runs_of_a_second_have_a_folder_each(self, tmp_path: Path) -> None:
        job = compose_job([f"dump_folder={tmp_path}"])
        folders = {_log_folder(job, dry_run=False) for _ in range(3)}
        assert len(folders) == 3 and all(folder.parent == tmp_path / "logs" for folder in folders)
        job = compose_job([f"dump_folder={tmp_path}", f"launcher.log_folder={tmp_path}/elsewhere"])
        assert _log_folder(job, dry_run=False).parent == tmp_path / "elsewhere"


class TestAdoption:
    """In processes of their own: a rank changes what this one must keep."""

    SCRIPT = """
import os, subprocess, sys
from titan_npu.launch import rank
rank.adopt()
print(rank.launched(), rank.LAUNCHER in os.environ, file=sys.stderr)
code = "from titan_npu.launch import rank; rank.adopt(); print(rank.launched())"
sys.stdout.flush()
subprocess.run([sys.executable, "-c", code], check=True)
"""

    def test_a_rank_has_one_stream_and_what_it_starts_is_no_rank(self) -> None:
        environ = os.environ | {rank.LAUNCHER: str(os.getpid())}
        done = subprocess.run(
            [sys.executable, "-c", self.SCRIPT], env=environ, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == ("True False\nFalse\n", "")

    def test_a_rank_whose_launcher_is_gone_ends(self) -> None:
        environ = os.environ | {rank.LAUNCHER: "1"}  # not this process
        done = subprocess.run(
            [sys.executable, "-c", self.SCRIPT], env=environ, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (1, "")
