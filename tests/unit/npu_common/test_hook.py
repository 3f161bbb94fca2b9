"""The start-up hook: what it costs, when it acts, and that it never stands in torch's way.

torch is a stand-in of a few lines here (make_torch); the real one runs in tests/e2e.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import _npu_common_hook as hook
from npu_common import versions

Python = Callable[..., "CompletedProcess[str]"]
MakeToolkit = Callable[..., Path]
MODULES = "import sys; print(*sorted(sys.modules))"
MAPPED = "print('mapped', 'libascendcl.so' in open('/proc/self/maps').read())"


def test_a_process_that_imports_no_torch_pays_for_one_small_module(python: Python) -> None:
    with_hook = set(python(MODULES).stdout.split())
    without = set(python(MODULES, NPU_COMMON_HOOK="0").stdout.split())
    extra = with_hook - without
    assert "_npu_common_hook" in extra
    assert extra <= {"_npu_common_hook", "__future__"}


def test_looking_for_torch_loads_nothing(python: Python, make_torch: Callable[..., Path]) -> None:
    look = "import importlib.util, sys; print(importlib.util.find_spec('torch').name, 'torch' in sys.modules)"
    code = f"{look}; {MAPPED}"
    assert python(code, PYTHONPATH=str(make_torch())).stdout.split() == ["torch", "False", "mapped", "False"]


@pytest.mark.parametrize("options", [(), ("-E",), ("-s",), ("-I",)])
def test_the_hook_is_there_whatever_the_options(options: tuple[str, ...], python: Python) -> None:
    assert "_npu_common_hook" in python(MODULES, *options).stdout.split()


def test_zero_switches_it_off(python: Python, make_torch: Callable[..., Path]) -> None:
    done = python(f"import torch; {MAPPED}", PYTHONPATH=str(make_torch()), NPU_COMMON_HOOK="0")
    assert done.stdout.split() == ["autoload", "1", "torch_npu", "sees", "None", "mapped", "False"]


def test_cann_is_loaded_before_the_body_of_torch_runs(
    python: Python, make_torch: Callable[..., Path], make_toolkit: MakeToolkit
) -> None:
    root = make_toolkit()
    done = python(f"import torch; {MAPPED}", PYTHONPATH=str(make_torch()), ASCEND_HOME_PATH=str(root))
    assert done.stdout.splitlines() == ["autoload 1", f"torch_npu sees {root}", "mapped True"]
    assert done.stderr == ""


def test_autoload_switched_off_loads_nothing_until_torch_npu_is_imported(
    python: Python, make_torch: Callable[..., Path], make_toolkit: MakeToolkit
) -> None:
    code = f"import torch; {MAPPED}; import torch_npu; {MAPPED}"
    root = make_toolkit()
    done = python(
        code, PYTHONPATH=str(make_torch()), ASCEND_HOME_PATH=str(root), TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )
    assert done.stdout.splitlines() == ["autoload 0", "mapped False", f"torch_npu sees {root}", "mapped True"]


def test_torch_without_torch_npu_is_left_alone(
    python: Python, make_torch: Callable[..., Path], tmp_path: Path
) -> None:
    # -S keeps this environment's torch_npu out; the hook then comes from a copy of its sources, imported by
    # hand.
    sources = tmp_path / "copy" / "npu_common"
    sources.mkdir(parents=True)
    shutil.copy(hook.__file__, sources.parent)
    for file in Path(versions.__file__).parent.glob("*.py"):
        shutil.copy(file, sources)
    folders = f"{make_torch(torch_npu=None)}:{sources.parent}"
    done = python(f"import _npu_common_hook, torch; {MAPPED}", "-S", PYTHONPATH=folders, NPU_EMULATOR="off")
    assert done.stdout.split() == ["autoload", "1", "mapped", "False"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("torch", "variables", "words"),
    [
        ({}, {"NPU_EMULATOR": "off"}, "NPU_EMULATOR=off allows only CANN"),
        ({}, {"NPU_EMULATOR": "maybe"}, "NPU_EMULATOR=maybe is not a choice"),
        ({"torch_npu": "2.12.0"}, {}, "torch_npu 2.12.0 was built for torch 2.12.0"),
        ({"torch": "2.13.0+cu130", "cuda": "'13.0'"}, {}, "is a build for CUDA 13.0"),
    ],
)
def test_torch_imports_and_one_line_says_why_torch_npu_does_not(
    torch: dict[str, str],
    variables: dict[str, str],
    words: str,
    python: Python,
    make_torch: Callable[..., Path],
) -> None:
    code = "import os, torch; print(os.environ.get('TORCH_DEVICE_BACKEND_AUTOLOAD'))"
    done = python(code, PYTHONPATH=str(make_torch(**torch)), **variables)
    assert done.returncode == 0
    assert done.stdout.split() == ["autoload", "0", "None"]  # off for torch's body, afterwards as it was
    assert words in done.stderr and "npu doctor" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_torch_npu_by_name_explains_its_own_failure(python: Python, make_torch: Callable[..., Path]) -> None:
    code = "import torch_npu"
    done = python(code, PYTHONPATH=str(make_torch()), NPU_EMULATOR="off")
    assert done.returncode == 1
    assert (
        "ImportError: torch_npu cannot be imported: NPU_EMULATOR=off allows only CANN"
        in done.stderr.splitlines()[-1]
    )


def test_a_failure_inside_torch_npu_gets_a_note(
    python: Python, make_torch: Callable[..., Path], make_toolkit: MakeToolkit
) -> None:
    site = make_torch()
    (site / "torch_npu" / "__init__.py").write_text("raise ImportError('undefined symbol: aclFoo')")
    done = python("import torch", PYTHONPATH=str(site), ASCEND_HOME_PATH=str(make_toolkit()))
    assert done.returncode == 1
    assert "undefined symbol: aclFoo" in done.stderr
    assert "npu_common had loaded CANN 8.5.0" in done.stderr and "npu doctor" in done.stderr


def test_a_damaged_package_does_not_take_torch_down(python: Python, make_torch: Callable[..., Path]) -> None:
    damage = "import sys; sys.modules['npu_common._start'] = None"
    code = f"{damage}; import torch; print('torch', 'torch' in sys.modules)"
    done = python(code, PYTHONPATH=str(make_torch(torch_npu=None)), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.split() == ["autoload", "0", "torch", "True"]
    assert "hook is damaged" in done.stderr


def test_other_finders_are_asked(python: Python, make_torch: Callable[..., Path]) -> None:
    code = (
        "import importlib.machinery, sys\n"
        "class Mine:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        f"            return importlib.machinery.PathFinder.find_spec(name, [{str(make_torch())!r}])\n"
        "sys.meta_path.insert(1, Mine())\n"
        "import torch\n"
    )
    assert python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() == ["autoload", "0"]
