"""Any bytes are a model or a GraphError: random ones, and valid models cut off or with bits flipped."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from types import ModuleType

import pytest

from .conftest import ModelBuilder


@pytest.fixture
def valid(build: ModelBuilder) -> bytes:
    build.data("x", 0)
    build.const("axes", 8, (1,), struct.pack("<q", 1))
    build.node("ReduceSum", "sum", ("x:0", "axes:0", "x:-1"), ("x", "axes")).attr["keep_dims"].b = True
    build.node("ConcatV2D", "join", ("sum:0", "sum:0"), ("x0", "x1")).attr["concat_dim"].i = 0
    build.node("PartitionedCall", "call", ("join:0",)).subgraph_name.append("inner")
    build.output("call:0")
    build.add_graph("inner")
    build.data("y", 0)
    softmax = build.node("SoftmaxV2", "softmax", ("y:0",))
    softmax.attr["axes"].list.i.extend([0, -1])
    softmax.attr["_lists"].list_list_int.list_list_i.add().list_i.extend([1, 2])
    build.output("softmax:0")
    return build.bytes()


def random_bytes(valid: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(1000):
        yield chance.randbytes(chance.randrange(200))


def cut_off(valid: bytes, chance: random.Random) -> Iterator[bytes]:
    yield from (valid[:length] for length in range(len(valid)))


def flipped(valid: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(3000):
        content = bytearray(valid)
        for _ in range(chance.randrange(1, 4)):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        yield bytes(content)


def spliced(valid: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(1000):
        begin, end, to = sorted(chance.randrange(len(valid)) for _ in range(3))
        yield valid[:begin] + valid[end:to] + valid[begin:]


@pytest.mark.parametrize("kind", [random_bytes, cut_off, flipped, spliced])
def test_bytes_are_a_model_or_a_graph_error(language: ModuleType, valid: bytes, kind: object) -> None:
    language.verify(valid)
    outcomes = {True: 0, False: 0}
    for content in kind(valid, random.Random(20)):  # type: ignore[operator]
        try:
            language.verify(content)
            outcomes[True] += 1
        except language.GraphError as error:
            assert str(error)
            outcomes[False] += 1
    assert outcomes[False] > 0


def test_a_deeply_nested_graph_attribute_is_not_followed(language: ModuleType, valid: bytes) -> None:
    nested = b""
    for _ in range(3000):  # AttrDef{g: GraphDef{...}}: no reader may recurse here
        nested = b"\x6a" + _varint(len(nested)) + nested
    entry = b"\x0a\x02_g" + b"\x12" + _varint(len(nested)) + nested
    op = b"\x0a\x01x\x12\x04Data\x52" + _varint(len(entry)) + entry
    output = b"\x0a\x01o\x12\x09NetOutput\x2a\x03x:0"
    graph = b"\x32" + _varint(len(op)) + op + b"\x32" + _varint(len(output)) + output
    assert len(language.read_model(graph)["graphs"][0]["nodes"]) == 2


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
