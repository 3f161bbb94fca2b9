"""How CANN's functions are found, and what is said when one is not there."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import ModuleType

import pytest

from npu_common import _cann, runtime, toolkit

from .conftest import Spawn, output


def test_a_function_comes_from_the_toolkit_that_was_activated() -> None:
    active = toolkit.activate()
    for part, name in (("runtime", "aclrtMalloc"), ("hccl", "HcclAllReduce"), ("operators", "aclnnAdd")):
        origin = runtime.origin(part, name)
        assert Path(origin.file).resolve().is_relative_to(active.root.resolve())
        assert origin.version == active.version == runtime.version()


def test_a_function_that_is_not_there_is_named_with_what_was_searched() -> None:
    with pytest.raises(runtime.SymbolNotFoundError) as raised:
        runtime.origin("operators", "aclnnNoSuchOperator")
    sentence = str(raised.value)
    assert sentence.startswith("this CANN has no aclnnNoSuchOperator: it is not in ")
    assert f"libopapi.so (CANN {runtime.version()})" in sentence and "npu doctor" in sentence


def test_only_what_is_used_is_bound(spawn: Spawn) -> None:
    code = (
        "import json\nfrom npu_common import _cann, toolkit\ntoolkit.activate()\n"
        "before = len(_cann.bound_symbols())\n_cann.device_count()\n"
        "print(json.dumps([before, [o.symbol for o in _cann.bound_symbols()]]))"
    )
    assert json.loads(output(spawn(code)).split("\n")[-2]) == [0, ["aclInit", "aclrtGetDeviceCount"]]


def test_importing_loads_nothing(spawn: Spawn) -> None:
    code = (
        "import npu_common.runtime, npu_common.collectives\n"
        "print('libascendcl' in open('/proc/self/maps').read(), 'torch' in __import__('sys').modules)"
    )
    assert output(spawn(code)) == "False False\n"


def test_without_a_toolkit_the_sentence_says_what_to_do(spawn: Spawn) -> None:
    code = (
        "import os\nos.environ.pop('ASCEND_HOME_PATH', None)\nfrom npu_common import _cann\n"
        "try:\n    _cann.device_count()\nexcept _cann.SymbolNotFoundError as error:\n    print(error)"
    )
    text = output(spawn(code, NPU_COMMON_HOOK="0"))
    assert text.startswith("CANN's aclInit is needed, and none of libascendcl.so")
    assert "npu_common.toolkit.activate()" in text


def test_the_stubs_have_what_the_module_has() -> None:
    """Both ways: names of the module, methods and properties of its classes."""
    stub = Path(runtime.__file__).parents[1] / "_cann.pyi"
    stated: set[str] = set()
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stated.add(node.target.id)
        elif isinstance(node, ast.FunctionDef):
            stated.add(node.name)
        elif isinstance(node, ast.ClassDef):
            stated |= {
                node.name,
                *(
                    f"{node.name}.{m.name}"
                    for m in node.body
                    if isinstance(m, (ast.FunctionDef, ast.ClassDef))
                ),
            }
    found = {name for name in vars(_cann) if not name.startswith("_")}
    for name in list(found):
        value = getattr(_cann, name)
        # The submodule graph is a class in the stub.
        if isinstance(value, ModuleType) or (isinstance(value, type) and not issubclass(value, Exception)):
            found |= {f"{name}.{member}" for member in vars(value) if not member.startswith("_")}
    assert {name for name in stated if "._" not in name} == found
