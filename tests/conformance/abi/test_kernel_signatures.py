"""Every kernel takes what CANN's prototype hands over, and docs/operators.md says what there is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FACTS = ROOT / "native" / "cann" / "facts"
sys.path.insert(0, str(ROOT / "ci"))

import generate_operator_docs  # noqa: E402

#: The letter of a C type, as native/emulator/kernels/kernel.h documents it.
LETTERS = {
    "aclTensor*": "T",
    "aclScalar*": "S",
    "aclIntArray*": "I",
    "aclBoolArray*": "B",
    "aclFloatArray*": "F",
    "aclTensorList*": "L",
    "aclScalarList*": "l",
    "char*": "s",
    "double": "d",
    "float": "d",
    "bool": "b",
    "aclDataType": "t",
}
INTEGERS = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"int", "size_t"}


#: What torch_npu (op-plugin, aclops/GruKernelNpu.cpp) and torchair (auto_generated_ge_raw_ops.py) send
#: although the operator has no such attribute.
SENT_ANYWAY = {
    "DynamicGRUV2Grad": {"bias_type"},
    "RotaryMulGrad": {"need_backward"},
    "TopKV2": {"sort_policy"},
}
#: Rows without the last optional inputs of the operator: torch_npu never passes them.
SHORTER = {"DynamicRNN", "DynamicRNNGrad", "DynamicRNNV2", "DynamicRNNV2Grad"}


def letter(c_type):
    name = c_type.replace("const", "").replace(" ", "")
    return "i" if name in INTEGERS else LETTERS[name]


@pytest.fixture(scope="module")
def table():
    return generate_operator_docs.operators()


@pytest.fixture(scope="module")
def prototypes():
    return json.loads((FACTS / "aclnn.json").read_text())["ops"]


def test_the_library_has_every_operator_of_the_facts_and_no_other(table, prototypes):
    assert set(table.aclnn) == set(prototypes)
    assert len(prototypes) > 1200


def test_kernels_take_the_parameters_of_cann_s_prototypes(table, prototypes):
    wrong = {}
    for name in table.present:
        expected = "".join(letter(c_type) for c_type, _ in prototypes[name])
        if table.aclnn[name][1] != expected:
            wrong[name] = f"CANN {expected}, kernel {table.aclnn[name][1]}"
    assert not wrong


def test_no_row_has_a_name_that_cann_does_not_know(prototypes):
    """A row under a misspelt name would never be found."""
    library = subprocess.run(
        [sys.executable, "-c", UNKNOWN], capture_output=True, text=True, check=True
    ).stdout.split()
    assert library, "no rows at all"
    assert not set(library) - set(prototypes)


UNKNOWN = """
import ctypes, os, torch
library = ctypes.CDLL(os.path.join(os.environ["ASCEND_HOME_PATH"], "lib64", "libopapi.so"))
library.npu_emulator_rows.restype = ctypes.c_char_p
print(library.npu_emulator_rows().decode())
"""


def test_ge_rows_exist_in_the_graph_engine_with_their_attributes(table):
    operators = {record["name"]: record for record in json.loads((FACTS / "ge_ops.json").read_text())["ops"]}
    wrong = {}
    for name, (_, attributes) in table.ge.items():
        if name not in operators:
            wrong[name] = "no such operator"
            continue
        known = {attribute["name"] for attribute in operators[name]["attrs"]} | SENT_ANYWAY.get(name, set())
        unknown = {text.split("=")[0].rstrip("?") for text in attributes} - known
        if unknown:
            wrong[name] = f"has no attribute {', '.join(sorted(unknown))}"
    assert not wrong


def test_ge_rows_take_every_input_and_attribute_and_give_every_output(table):
    """An attribute that a row does not name is refused, and torchair sends all of them."""
    operators = {record["name"]: record for record in json.loads((FACTS / "ge_ops.json").read_text())["ops"]}
    wrong = {}
    for name, (letters, attributes) in table.ge.items():
        inputs, outputs = operators[name]["inputs"], operators[name]["outputs"]
        named = {text.split("=")[0].rstrip("?") for text in attributes}
        left_out = {attribute["name"] for attribute in operators[name]["attrs"]} - named
        parameters = sum("=" not in text for text in attributes)
        if left_out:
            wrong[name] = f"leaves out the attributes {', '.join(sorted(left_out))}"
        elif name not in SHORTER and len(letters) != len(inputs) + parameters + len(outputs):
            wrong[name] = f"has the parameters {letters}"
        elif name not in SHORTER:
            slots = [*zip(inputs, letters, strict=False), *zip(outputs[::-1], letters[::-1], strict=False)]
            lists = [slot["name"] for slot, letter in slots if (slot["kind"] == "dynamic") != (letter == "L")]
            if lists:
                wrong[name] = f"takes a list for one tensor or one for a list: {', '.join(lists)}"
    assert not wrong


def test_the_documentation_is_up_to_date(table):
    assert generate_operator_docs.OUTPUT.read_text() == generate_operator_docs.document(table)
