"""What a run reports: plain lines, the live line, metrics.jsonl, MFU."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
from pathlib import Path

import pytest
from rich.console import Console
from torchtitan.distributed import ParallelDims

from titan_npu.metrics import processor as processor_module
from titan_npu.metrics.console import LiveLine, PlainLines, StepReport, build_console, duration
from titan_npu.metrics.jsonl import JsonlWriter
from titan_npu.metrics.processor import NpuMetricsProcessor
from titan_npu.metrics.soc import bf16_peak_flops

REPORT = StepReport(
    step=3,
    total_steps=30,
    loss=7.123456,
    grad_norm=1.5,
    tokens_per_second=12345.6,
    memory_gib=0.5,
    memory_percent=3.1,
    eta_seconds=3725,
    mfu_percent=41.234,
)


class TestConsole:
    def test_plain_line(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, logger="titan_npu"):
            PlainLines().show(REPORT)
        (line,) = caplog.messages
        assert line.startswith("step:  3  loss:  7.12346  grad_norm:  1.5000  tps: 12,346  ")
        assert line.endswith("memory: 0.50GiB(3.1%)  eta: 1:02:05  mfu: 41.23%")

    @pytest.mark.parametrize("mfu", [None, 0.0, 0.004])
    def test_no_mfu_where_it_says_nothing(self, mfu: float | None) -> None:
        assert "mfu" not in dataclasses.replace(REPORT, mfu_percent=mfu).fields()

    def test_live_line(self) -> None:
        screen = io.StringIO()
        line = LiveLine(Console(file=screen, force_terminal=True, width=160))
        line.show(REPORT)
        line.close()
        shown = screen.getvalue()
        assert "step 3/30" in shown and "7.12346" in shown and "12,346" in shown and "1:02:05" in shown

    def test_plain_where_there_is_no_terminal(self) -> None:
        assert isinstance(build_console("auto"), PlainLines)
        assert isinstance(build_console("live"), LiveLine)

    def test_durations(self) -> None:
        assert [duration(s) for s in (0, 59.6, 3599, 360000, -1)] == [
            "0:00:00", "0:01:00", "0:59:59", "100:00:00", "0:00:00",
        ]  # fmt: skip


class TestJsonl:
    def read(self, path: Path) -> list[dict[str, object]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_resumed_run_replaces_later_steps(self, tmp_path: Path) -> None:
        path = tmp_path / "run" / "metrics.jsonl"
        first = JsonlWriter(path)
        for step in range(1, 6):
            first.write({"step": step, "run": 1})
        first.close()
        with path.open("a") as file:
            file.write('{"step": 6, "ru')  # killed while writing
        second = JsonlWriter(path)
        second.write({"step": 4, "run": 2})
        second.write({"step": 5, "run": 2})
        second.close()
        assert self.read(path) == [{"step": s, "run": 1 if s < 4 else 2} for s in range(1, 6)]

    def test_nothing_is_dropped_before_the_first_record(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.jsonl"
        path.write_text('{"step": 1}\n')
        JsonlWriter(path).close()
        assert path.read_text() == '{"step": 1}\n'


class TestPeak:
    def test_of_the_soc_itself(self) -> None:
        """TFLOPS of dense bfloat16 in Huawei's msmodeling (profiles A2_376T, A2_313T, A2_280T)."""
        for soc, tflops in (("Ascend910B2", 353.9), ("Ascend910B3", 294.9), ("Ascend910B4", 245.8)):
            assert bf16_peak_flops(soc) == pytest.approx(tflops * 1e12, rel=1e-3)

    @pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend950", "NVIDIA A100", ""])
    def test_unknown_has_none(self, soc: str) -> None:
        assert bf16_peak_flops(soc) is None


@pytest.mark.usefixtures("one_rank")
class TestProcessor:
    def build(self, folder: Path) -> NpuMetricsProcessor:
        degrees = dict.fromkeys(("dp_replicate", "dp_shard", "cp", "tp", "pp", "ep"), 1)
        made = NpuMetricsProcessor.Config(log_freq=1, progress="plain").build(
            parallel_dims=ParallelDims(**degrees, world_size=1),
            dump_folder=str(folder),
            config_dict={"training": {"steps": 2}},
        )
        made.num_flops_per_token = 1e9
        made.start()
        return made

    def test_records(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        made = self.build(tmp_path)
        with caplog.at_level(logging.INFO, logger="titan_npu"):
            for step in (1, 2):
                made.ntokens_since_last_log += 1000
                made.log(step, 7.0 / step, 7.5 / step, 1.0, {"n_tokens_seen": 1000 * step})
                made.log_validation(6.0, step)
        made.close()
        assert "".join(caplog.messages).count("loss:") == 2
        assert "validation after step 2: 6.00000 nats a token" in caplog.messages
        records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        assert [r["step"] for r in records] == [1, 1, 2, 2]
        trained = records[2]
        assert (trained["loss"], trained["max_loss"], trained["tokens_seen"]) == (3.5, 3.75, 2000)
        assert records[3]["validation_loss"] == 6.0
        # The definition: FLOPs done a second over the SoC's peak.
        peak = bf16_peak_flops(made.soc_name)
        assert peak and trained["mfu_percent"] == pytest.approx(
            100 * 1e9 * trained["tokens_per_second"] / peak
        )
        assert not any("/" in name or "(" in name for record in records for name in record)

    def test_unknown_soc_has_no_mfu(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(processor_module, "bf16_peak_flops", lambda soc: None)
        made = self.build(tmp_path)
        made.ntokens_since_last_log = 1000
        made.log(1, 7.0, 7.0, 1.0)
        made.close()
        (record,) = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
        assert "mfu_percent" not in record
        assert 1e15 / made.gpu_peak_flops == 0  # what TorchTitan works out itself is never a figure
