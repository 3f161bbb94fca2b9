"""The ``titan-npu`` command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
import warnings
from pathlib import Path

from titan_npu.errors import TitanNpuError
from titan_npu.hf import command as hf
from titan_npu.launch import rank

logger = logging.getLogger("titan_npu")

TRAIN_HELP = """\
Words are config groups and TorchTitan's own field names:

  recipe=NAME           {recipes}, or package.module.function of a config registry
  data=NAME             jsonl, parquet, text, hf, stdlib (default: what the recipe says)
  parallelism=NAME      single (default: what the recipe says)
  launcher=NAME         single (default), local (every NPU of this machine), multi_node
  section.field=VALUE   any field of the composed config, which --cfg job prints

examples:
  titan-npu train recipe=llama3_debug training.steps=30 dump_folder=./run
  titan-npu train data=jsonl dataloader.dataset_path=./corpus.jsonl
  titan-npu train launcher.nproc=4 parallelism.tensor_parallel_degree=2
  optimizer.param_groups.0.optimizer_kwargs.lr=1e-3 titan-npu train recipe=llama3_debug --cfg job
"""

RECIPES = "llama3_debug (default), deepseek_v3_debug, llama3_8b"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="titan-npu", description="Train with TorchTitan on Ascend NPUs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train a recipe",
        epilog=TRAIN_HELP.format(recipes=RECIPES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument("words", nargs="*", metavar="key=value", help="config groups and fields")
    train.add_argument("--cfg", choices=["job"], help="print the composed config and stop")
    train.add_argument("--dry-run", action="store_true", help="build everything and train nothing")
    _add_verbose(train)

    data = commands.add_parser("data", help="local data").add_subparsers(
        dest="data", required=True, metavar="COMMAND"
    )
    prepare = data.add_parser(
        "prepare", help="a small corpus and a BPE tokenizer from Python's standard library"
    )
    prepare.add_argument("--out", type=Path, help="folder (default: where the recipe llama3_debug looks)")
    prepare.add_argument(
        "--vocab-size", type=int, default=None, help="tokens in the vocabulary (default: 2048)"
    )
    _add_verbose(prepare)

    for command in hf.add_parsers(commands):
        _add_verbose(command)
    return parser


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", "-v", action="store_true", help="TorchTitan's log too, and tracebacks")


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code (0, 1 for an error told in one sentence, 130 after Ctrl-C, 143
    after SIGTERM)."""
    rank.adopt()
    arguments = _parse(argv)
    verbose = arguments.verbose or os.environ.get("TITAN_NPU_VERBOSE", "0") not in ("", "0")
    _configure_output(verbose)
    try:
        if arguments.command == "train":
            return _train(arguments)
        if arguments.command == "export":
            hf.run_export(arguments)
        elif arguments.command == "import":
            hf.run_import(arguments)
        else:
            _prepare(arguments)
    except TitanNpuError as error:
        rank.record(error, str(error))
        return _fail(str(error), verbose)
    except KeyboardInterrupt:
        print("titan-npu: interrupted; the last checkpoint, if there was one, is as it was.", file=sys.stderr)
        return 130
    except SystemExit as leaving:
        return _leave(leaving)
    except Exception as error:
        rank.record(error, None)
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        return _fail(
            f"unexpected {type(error).__name__}: {first}"
            + ("" if verbose or rank.launched() else " (--verbose shows where)."),
            verbose or rank.launched(),
        )
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if "words" in arguments:  # argparse stops collecting words at the first option
        options = [word for word in rest if word.startswith("-")]
        arguments.words += [word for word in rest if not word.startswith("-")]
        rest = options
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _train(arguments: argparse.Namespace) -> int:
    from titan_npu import preflight

    preflight.check_packages()
    preflight.check_device()
    from titan_npu.config.compose import compose_job

    job = compose_job(arguments.words)
    if arguments.cfg == "job":
        print(job.to_yaml(), end="")
        return 0
    from titan_npu.launch import layout

    layout.check_parallelism(job.trainer.parallelism, layout.world_size(job.launcher))
    if job.launcher.world_size > 1 and not rank.is_rank():
        import torch

        from titan_npu.launch.agent import launch

        layout.check_devices(job.launcher, torch.npu.device_count())
        options = [name for name in ("dry_run", "verbose") if getattr(arguments, name)]
        words = ["train", *arguments.words, *(f"--{name.replace('_', '-')}" for name in options)]
        return launch(job, words, dry_run=arguments.dry_run)
    from titan_npu.run import run

    run(job, dry_run=arguments.dry_run)
    return 0


def _prepare(arguments: argparse.Namespace) -> None:
    from titan_npu.data.prepare import DEFAULT_VOCAB_SIZE, prepare

    size = DEFAULT_VOCAB_SIZE if arguments.vocab_size is None else arguments.vocab_size
    made = prepare(arguments.out, size, report=logger.info)
    for split, count in made.documents.items():
        logger.info("%s: %d documents, %.1f M characters", split, count, made.characters[split] / 1e6)
    logger.info("tokenizer: %d tokens, %s", made.vocab_size, made.tokenizer)


def _configure_output(verbose: bool) -> None:
    """Our lines on standard output; TorchTitan's (it logs to the root logger) only with --verbose."""
    from titan_npu.metrics.console import StdoutHandler

    handler = StdoutHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if verbose else logging.ERROR)
    # Under torchrun all ranks share a console; under our launcher each has a file.
    alone = rank.number() == 0 or rank.launched()
    logger.setLevel(logging.INFO if alone or verbose else logging.WARNING)
    if not verbose:
        warnings.simplefilter("ignore")
        # torch_npu warns at every start of what no user can change; its errors stay visible.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def _leave(leaving: SystemExit) -> int:
    """The exit status of a run that stopped before its end."""
    status = leaving.code if isinstance(leaving.code, int) else 1
    if rank.launched() and status > 128:
        # To the elastic agent a status other than 0 is a failure: it would end, or restart, the other ranks.
        rank.record_stop(status)
        return 0
    return status


def _fail(sentence: str, verbose: bool) -> int:
    if rank.launched():
        print(rank.FAILED.format(rank=rank.number()), flush=True)
    if verbose:
        traceback.print_exc()
    print(f"titan-npu: {sentence}", file=sys.stderr)
    return 1
