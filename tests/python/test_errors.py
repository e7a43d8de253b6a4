"""Bad input: the exception type of PyTorch, and a message that names the values."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d
from tconv3d import Epilogue, conv_transpose3d

SRC, WEIGHT, BIAS = torch.ones(2, 4, 3, 4, 5), torch.ones(4, 6, 3, 3, 3), torch.ones(6)


@dataclass
class Bad:
    """A call that must fail, and what its message must contain."""

    kind: str
    mentions: tuple[str, ...]
    src: Any = SRC
    weight: Any = WEIGHT
    bias: Any = BIAS
    settings: dict[str, Any] | None = None

    def call(self, function: Callable[..., Tensor]) -> Tensor:
        return function(self.src, self.weight, self.bias, **(self.settings or {}))


def settings(kind: str, mentions: str, **values: Any) -> Bad:
    return Bad(kind, tuple(mentions.split()), settings=values)


HUGE = 2**62

TABLE = [
    Bad("src of rank 0", ("[]",), src=torch.tensor(1.0)),
    Bad("src of rank 2", ("[4, 5]",), src=torch.ones(4, 5)),
    Bad("src of rank 3", ("[4, 5, 5]",), src=torch.ones(4, 5, 5)),
    Bad("src of rank 6", ("[1, 2, 4, 3, 4, 5]",), src=SRC[None]),
    Bad("weight of rank 0", ("weight",), weight=torch.tensor(1.0)),
    Bad("weight of rank 4", ("weight", "4"), weight=WEIGHT[0]),
    Bad("weight of rank 6", ("weight", "6"), weight=WEIGHT[None]),
    Bad("channels", ("4", "5", "channels"), src=torch.ones(2, 5, 3, 4, 5)),
    Bad("channels, unbatched", ("4", "5", "channels"), src=torch.ones(5, 3, 4, 5)),
    Bad("weight as (C_out, C_in)", ("4", "6", "channels"), weight=WEIGHT.transpose(0, 1).contiguous()),
    settings("groups do not divide the channels", "groups 3 4", groups=3),
    settings("groups of zero", "groups 0", groups=0),
    settings("groups below zero", "groups -2", groups=-2),
    settings("more groups than channels", "groups 8 4", groups=8),
    Bad("bias too short", ("bias", "5", "6"), bias=torch.ones(5)),
    Bad("bias of rank 0", ("bias", "[]"), bias=torch.tensor(1.0)),
    Bad("bias of rank 2", ("bias", "[1, 6]"), bias=torch.ones(1, 6)),
    Bad("bias without elements", ("bias", "[0]"), bias=torch.ones(0)),
    settings("bias of one group only", "bias 12 6", groups=2),
    settings("stride of zero", "stride 0", stride=0),
    settings("stride of zero in W", "stride 0", stride=(1, 1, 0)),
    settings("stride below zero", "stride -1", stride=(1, -1, 1)),
    settings("dilation of zero", "dilation 0", dilation=0),
    settings("dilation below zero", "dilation -2", dilation=(1, -2, 1)),
    settings("padding below zero", "padding -1", padding=-1),
    settings("padding below zero in W", "padding -2", padding=(0, 0, -2)),
    settings("output_padding below zero", "padding -1", stride=2, output_padding=-1),
    settings("output_padding equal to the stride", "padding 2", stride=2, output_padding=2),
    settings("output_padding without a stride", "padding 1", output_padding=1),
    settings("output_padding too large in W", "padding 3", stride=(2, 2, 3), output_padding=(1, 1, 3)),
    settings("output_padding far too large", "padding 7", stride=2, dilation=3, output_padding=7),
    settings("stride of two values", "stride 1, 2", stride=(1, 2)),
    settings("stride of four values", "stride 1, 2, 1, 1", stride=(1, 2, 1, 1)),
    settings("stride of no values", "stride []", stride=()),
    settings("padding of two values", "padding 1, 2", padding=(1, 2)),
    settings("output_padding of two values", "output_padding 0, 0", output_padding=(0, 0)),
    settings("dilation of two values", "dilation 1, 2", dilation=(1, 2)),
    settings("output extent below zero", "-1", padding=(3, 0, 0)),
    Bad("output extent of zero", ("0",), torch.ones(1, 4, 3, 3, 3), torch.ones(4, 6, 2, 2, 2), None, {"padding": 2}),
    Bad("src without slices", ("[2, 4, 0, 4, 5]",), src=torch.ones(2, 4, 0, 4, 5)),
    Bad("src without columns", ("[2, 4, 3, 4, 0]",), src=torch.ones(2, 4, 3, 4, 0)),
    Bad("no input channels", ("0",), src=torch.ones(2, 0, 3, 4, 5), weight=torch.ones(0, 6, 3, 3, 3)),
    Bad("no output channels", ("0",), weight=torch.ones(4, 0, 3, 3, 3), bias=None),
    Bad("kernel extent of zero", ("0",), weight=torch.ones(4, 6, 0, 3, 3)),
    Bad("src and weight of two dtypes", ("ouble",), weight=WEIGHT.double()),
    Bad("half src, float weight", ("BFloat16",), src=SRC.bfloat16()),
    Bad("bias of another dtype", ("ouble", "bias"), bias=BIAS.double()),
    Bad("integer src, float weight", ("Int",), src=SRC.int()),
    settings("stride that overflows the extents", str(HUGE), stride=HUGE),
    settings("stride too large for any memory", str(2**20), stride=2**20),
    settings("dilation that overflows the extents", str(HUGE), dilation=HUGE),
    settings("padding that overflows the extents", str(HUGE), padding=HUGE),
    settings("stride beyond 64 bits", "64", stride=2**64),
    settings("stride as float", "stride float", stride=2.0),
    settings("stride as text", "stride str", stride="2"),
    settings("padding as text", "padding str", padding="same"),
    settings("padding as None", "padding NoneType", padding=None),
    settings("groups as float", "groups float", groups=2.0),
    settings("unknown keyword", "colour", colour=1),
    Bad("src is None", ("input", "NoneType"), src=None),
    Bad("src is a list", ("input", "list"), src=[1.0, 2.0]),
    Bad("weight is None", ("weight", "NoneType"), weight=None),
    Bad("weight is an array", ("weight", "array"), weight=array("f", [1.0])),
    Bad("bias is a number", ("bias", "float"), bias=1.0),
    Bad("bias is a flag", ("bias", "bool"), bias=True),
]


def error_of(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


def assert_mentions(error: Exception, mentions: tuple[str, ...]) -> None:
    for word in mentions:
        assert word in str(error), f"{word!r} is not in: {error}"


def test_the_table_is_long_enough() -> None:
    assert len({bad.kind for bad in TABLE}) == len(TABLE) >= 25


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.kind)
def test_same_exception_as_pytorch(bad: Bad) -> None:
    theirs, ours = error_of(lambda: bad.call(F.conv_transpose3d)), error_of(lambda: bad.call(conv_transpose3d))
    assert_mentions(ours, bad.mentions)
    if str(theirs) == "Overflow when unpacking long" and isinstance(ours, ValueError):
        pytest.skip(f"PyTorch {torch.__version__} raises RuntimeError, where later versions raise ValueError")
    assert type(ours) is type(theirs), f"{ours!r}, but PyTorch: {theirs!r}"


@pytest.mark.parametrize("which", ["weight", "bias"])
def test_mixed_devices(which: str) -> None:
    """RuntimeError, as PyTorch raises for cpu and cuda. For cpu and meta PyTorch itself answers with garbage."""
    bad = Bad("devices", ("cpu", "meta"), **{which: {"weight": WEIGHT, "bias": BIAS}[which].to("meta")})
    error = error_of(lambda: bad.call(conv_transpose3d))
    assert type(error) is RuntimeError
    assert_mentions(error, bad.mentions)


OURS = re.compile(r"\b(grad_)?(src|dst)")


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.kind)
def test_arguments_have_the_names_that_the_user_gave_them(bad: Bad) -> None:
    """`input` and `output`, where the core says src and dst."""
    text = str(error_of(lambda: bad.call(conv_transpose3d)))
    assert OURS.search(text) is None, text
    if bad.kind.startswith("src ") or bad.kind.startswith("channels"):
        assert "input" in text, text


# Not tensors, or left to PyTorch.
NOT_META = ("src is", "weight is", "bias is", "integer")
META = [bad for bad in TABLE if not bad.kind.startswith(NOT_META)]


@pytest.mark.parametrize("bad", META, ids=lambda bad: bad.kind)
def test_meta_tensors_fail_as_data_does(bad: Bad) -> None:
    """Shapes are checked in one place: what fails with data also fails when torch.compile only looks at shapes."""
    bias = None if bad.bias is None else bad.bias.to("meta")
    meta = Bad(bad.kind, bad.mentions, bad.src.to("meta"), bad.weight.to("meta"), bias, bad.settings)
    error = error_of(lambda: meta.call(conv_transpose3d))
    assert isinstance(error, (RuntimeError, TypeError, ValueError))
    assert_mentions(error, bad.mentions)


MODULES: dict[str, tuple[Callable[[type], Any], tuple[str, ...]]] = {
    "groups do not divide in_channels": (lambda cls: cls(4, 6, 3, groups=3), ("in_channels", "groups")),
    "groups do not divide out_channels": (lambda cls: cls(6, 4, 3, groups=3), ("out_channels", "groups")),
    "groups of zero": (lambda cls: cls(4, 6, 3, groups=0), ("groups",)),
    "padding_mode": (lambda cls: cls(4, 6, 3, padding_mode="reflect"), ("zeros",)),
    "negative channels": (lambda cls: cls(-4, 6, 3), ("-4",)),
    "negative kernel": (lambda cls: cls(4, 6, -3), ("-3",)),
    "kernel_size as text": (lambda cls: cls(4, 6, "3"), ("str",)),
    "no kernel_size": (lambda cls: cls(4, 6), ("kernel_size",)),
    "integer parameters": (lambda cls: cls(4, 6, 3, dtype=torch.int32), ("floating point",)),
    "kernel_size of two values": (lambda cls: cls(4, 6, (3, 3))(SRC), ("weight", "4")),
    "stride of two values": (lambda cls: cls(4, 6, 3, stride=(3, 3))(SRC), ("stride", "[3, 3]")),
    "output_size of two values": (lambda cls: cls(4, 6, 3)(SRC, output_size=(5, 6)), ("output_size", "2")),
    "output_size too large": (lambda cls: cls(4, 6, 3, stride=2)(SRC, output_size=(50, 9, 11)), ("50", "8")),
    "output_size too small": (lambda cls: cls(4, 6, 3, stride=2)(SRC, output_size=(1, 9, 11)), ("1", "7")),
    "input channels": (lambda cls: cls(5, 6, 3)(SRC), ("5", "4", "channels")),
    "input dtype": (lambda cls: cls(4, 6, 3).double()(SRC), ("ouble",)),
    "input rank": (lambda cls: cls(4, 6, 3)(SRC[0, 0]), ("[3, 4, 5]",)),
    "dilation of zero": (lambda cls: cls(4, 6, 3, dilation=0)(SRC), ("dilation", "0")),
    "output_padding": (lambda cls: cls(4, 6, 3, output_padding=1)(SRC), ("padding", "1")),
}


@pytest.mark.parametrize("kind", MODULES)
def test_module_raises_as_pytorchs(kind: str) -> None:
    build, mentions = MODULES[kind]
    theirs, ours = error_of(lambda: build(nn.ConvTranspose3d)), error_of(lambda: build(tconv3d.ConvTranspose3d))
    assert type(ours) is type(theirs), f"{ours!r}, but PyTorch: {theirs!r}"
    assert_mentions(ours, mentions)


def with_epilogue(epilogue: Any) -> Callable[[], Tensor]:
    return lambda: conv_transpose3d(SRC, WEIGHT, BIAS, epilogue=epilogue)


EPILOGUES: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "not an epilogue": (with_epilogue("relu"), TypeError, ("epilogue", "relu")),
    "a function without a step": (with_epilogue(torch.square), TypeError, ("epilogue", "square")),
    "a module without a step": (with_epilogue(nn.Dropout()), TypeError, ("epilogue", "Dropout")),
    "a learned slope": (with_epilogue(nn.PReLU()), TypeError, ("PReLU", "leaky_relu")),
    "division by zero": (lambda: Epilogue().div(0.0), ValueError, ("0.0",)),
    "clamp without bounds": (lambda: Epilogue().clamp(), ValueError, ("min", "max")),
    "gelu of another kind": (lambda: Epilogue().gelu("exact"), ValueError, ("exact",)),
    "constant as text": (lambda: Epilogue().add("1"), TypeError, ("'1'",)),
    "constant as tensor": (lambda: Epilogue().mul(torch.ones(1)), TypeError, ("tensor",)),
    "constant not finite": (lambda: Epilogue().mul(float("inf")), ValueError, ("inf",)),
    "softplus with beta 0": (lambda: Epilogue().softplus(beta=0), ValueError, ("beta",)),
    "operands of a call are no list": (
        lambda: tconv3d.ConvTranspose3d(4, 6, 3, epilogue=Epilogue().residual_add())(SRC, operands=0.5),
        TypeError,
        ("operands must be a list of tensors", "0.5"),
    ),
    "operand is no tensor": (lambda: Epilogue().channel_add([1.0]), TypeError, ("[1.0]",)),
    "channel operand of rank 2": (lambda: Epilogue().channel_mul(torch.ones(6, 1)), ValueError, ("[6, 1]",)),
    "channel operand too short": (with_epilogue(Epilogue().channel_mul(torch.ones(5))), RuntimeError, ("5", "6")),
    "residual of another shape": (
        with_epilogue(Epilogue().residual_add(torch.ones(2, 6, 5, 6, 8))),
        RuntimeError,
        ("[2, 6, 5, 6, 8]", "[2, 6, 5, 6, 7]"),
    ),
    "residual of another dtype": (
        with_epilogue(Epilogue().residual_add(torch.ones(2, 6, 5, 6, 7).double())),
        RuntimeError,
        ("ouble",),
    ),
    "residual on another device": (
        with_epilogue(Epilogue().residual_add(torch.ones(2, 6, 5, 6, 7, device="meta"))),
        RuntimeError,
        ("cpu", "meta"),
    ),
}


@pytest.mark.parametrize("kind", EPILOGUES)
def test_epilogue_errors(kind: str) -> None:
    call, expected, mentions = EPILOGUES[kind]
    error = error_of(call)
    assert type(error) is expected, repr(error)
    assert_mentions(error, mentions)


def op_fwd(epilogue: str, operands: list[Tensor]) -> Callable[[], Tensor]:
    sizes = [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3
    return lambda: torch.ops.tconv3d.fwd(SRC, WEIGHT, BIAS, *sizes, epilogue, operands)


OPS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "unknown step": (op_fwd("blur(2)", []), ("blur",)),
    "unclosed constants": (op_fwd("clamp(min=1", []), ("clamp",)),
    "too many constants": (op_fwd("add(1,2)", []), ("add",)),
    "no constant": (op_fwd("add", []), ("add",)),
    "constant is no number": (op_fwd("add(one)", []), ("one",)),
    "too few operands": (op_fwd("residual_add", []), ("1", "0")),
    "too many operands": (op_fwd("relu", [BIAS]), ("1", "0")),
    "problem without kernel": (lambda: torch.ops.tconv3d.explain("n1 ci1 co1 4x4x4 q3", ""), ("q3",)),
    "problem without output": (lambda: torch.ops.tconv3d.explain("ci1 co1 1x1x1 k1 p1", ""), ("-1",)),
    "problem with two extents": (lambda: torch.ops.tconv3d.explain("ci1 co1 4x4 k1", ""), ("4x4",)),
    "problem beyond 64 bits": (
        lambda: torch.ops.tconv3d.explain(f"n{2**40} ci{2**40} co1 4x4x4 k1", ""),
        (f"{2**40}",),
    ),
    "number beyond 64 bits": (lambda: torch.ops.tconv3d.explain(f"n{2**70} ci1 co1 4x4x4 k1", ""), (f"{2**70}",)),
    "gradient of another shape": (
        lambda: torch.ops.tconv3d.bwd_weight(SRC, SRC, [3] * 3, [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3, False),
        ("3", "5"),
    ),
    "gradient of other channels": (
        lambda: torch.ops.tconv3d.bwd_data(SRC, WEIGHT, [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3),
        ("4", "6"),
    ),
    "gradient shorter than the kernel": (
        lambda: torch.ops.tconv3d.bwd_data(torch.ones(1, 6, 2, 4, 4), WEIGHT, [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3),
        ("2",),
    ),
}


@pytest.mark.parametrize("kind", OPS)
def test_ops_raise_runtime_errors(kind: str) -> None:
    """The ops check for themselves: they may be called without the Python layer above them."""
    call, mentions = OPS[kind]
    error = error_of(call)
    assert isinstance(error, RuntimeError), repr(error)
    assert_mentions(error, mentions)


@pytest.mark.parametrize("name", ["TCONV3D_IMPL", "TCONV3D_ISA"])
def test_unknown_names_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "abacus")
    assert_mentions(error_of(lambda: conv_transpose3d(SRC, WEIGHT)), ("abacus", name))


def parts_of_messages(source: str) -> list[int]:
    """For each TORCH_CHECK of the source, how many arguments follow its condition."""
    counts = []
    for start in re.finditer(r"TORCH_CHECK\w*\(", source):
        text = re.sub(r'"(\\.|[^"\\])*"', '""', source[start.end() :])
        depth, commas = 1, 0
        for character in text:
            depth += (character in "([{") - (character in ")]}")
            commas += depth == 1 and character == ","
            if depth == 0:
                break
        counts.append(commas)
    return counts


def test_messages_are_made_without_streams() -> None:
    """TORCH_CHECK sends several parts through a string stream, which loses them, or crashes, in a library that carries
    its own copy of libstdc++. text() of csrc/text.hpp joins them first."""
    assert parts_of_messages('TORCH_CHECK(f(a, b), "x, y", g(1, 2)); TORCH_CHECK(c, text("(", n))') == [2, 1]
    files = sorted((Path(__file__).resolve().parents[2] / "csrc").glob("*.[ch]pp"))
    assert files
    for file in files:
        assert all(count <= 1 for count in parts_of_messages(file.read_text())), file.name


def test_numbers_are_printed_without_the_locale() -> None:
    """printf, std::to_string and streams write 0,5 where the program has set such a locale: core/number_text.hpp does
    not."""
    root = Path(__file__).resolve().parents[2]
    files = [file for folder in ("src", "csrc") for file in (root / folder).rglob("*.[ch]pp")]
    assert files
    for file in files:
        text = file.read_text()
        assert re.search(r"printf\([^;]*%[-+ #0-9.]*[aefgAEFG]", text) is None, file
        assert re.search(r"\b(ostringstream|stringstream|strtod|strtof|stod|stof)\b", text) is None, file
