"""torch.library.opcheck, torch.compile, FakeTensor and meta tensors."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import problem_file
import tconv3d
from block import Block
from oracle import LAYOUTS, ours_ran
from tconv3d import Epilogue, conv_transpose3d

OPS = torch.ops.tconv3d
SETTINGS = [2, 1, 2], [1, 0, 1], [1, 0, 0], 2, [1, 2, 1]
SRC, WEIGHT, DST = (2, 4, 3, 4, 5), (4, 3, 3, 2, 3), (2, 6, 6, 6, 9)
PROBLEM = "n2 ci4 co6 3x4x5 k3x2x3 s2x1x2 p1x0x1 op1x0x0 g2 d1x2x1"

#: What inductor compiles includes Python's headers, which many systems have in a package of their own.
INDUCTOR = pytest.param(
    "inductor",
    marks=pytest.mark.skipif(
        not Path(sysconfig.get_path("include"), "Python.h").exists(),
        reason="inductor needs Python.h, which is not installed; on Debian: apt-get install python3-dev",
    ),
)


def tensor(shape: tuple[int, ...], requires_grad: bool = True, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=requires_grad)


def test_the_shapes_above_belong_together() -> None:
    assert json.loads(OPS.problem_facts(PROBLEM))["dst"] == list(DST[2:])


@pytest.mark.parametrize("epilogue", ["", "relu", "silu mul(2)", "channel_mul residual_add gelu"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck_fwd(epilogue: str, with_bias: bool, layout: str) -> None:
    operands = [tensor((6,)), tensor(DST)] if "residual" in epilogue else []
    src = tensor(SRC, False).contiguous(memory_format=LAYOUTS[layout]).requires_grad_()
    opcheck(OPS.fwd, src, tensor(WEIGHT), tensor((6,)) if with_bias else None, *SETTINGS, epilogue, operands)


def opcheck(op: torch._ops.OpOverloadPacket, *arguments: Any) -> None:
    """Checks the overload that takes the last argument, the operands, or the one without them."""
    *others, operands = arguments
    torch.library.opcheck(*((op.operands, arguments) if operands else (op.default, tuple(others))))


@pytest.mark.parametrize("epilogue", ["relu", "silu", "channel_mul tanh"])
def test_opcheck_fwd_saved(epilogue: str) -> None:
    operands = [tensor((6,), False)] if "channel" in epilogue else []
    opcheck(OPS.fwd_saved, tensor(SRC, False), tensor(WEIGHT, False), None, *SETTINGS, epilogue, operands)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck_bwd_data(layout: str) -> None:
    grad_dst = tensor(DST, False).contiguous(memory_format=LAYOUTS[layout]).requires_grad_()
    torch.library.opcheck(OPS.bwd_data.default, (grad_dst, tensor(WEIGHT), *SETTINGS))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck_bwd_weight(with_bias: bool, layout: str) -> None:
    src, grad_dst = (tensor(s, False).contiguous(memory_format=LAYOUTS[layout]).requires_grad_() for s in (SRC, DST))
    torch.library.opcheck(OPS.bwd_weight.default, (src, grad_dst, [3, 2, 3], *SETTINGS, with_bias))


@pytest.mark.parametrize("epilogue", ["relu", "silu", "channel_mul gelu residual_mul"])
def test_opcheck_epilogue_bwd(epilogue: str) -> None:
    operands = [tensor((6,), False), tensor(DST, False)] if "residual" in epilogue else []
    opcheck(OPS.epilogue_bwd, tensor(DST, False), tensor(DST, False), epilogue, operands)


@pytest.mark.parametrize(("batch", "channels"), [(2, 1), (0, 3), (2, 3)])
def test_known_strides_are_those_of_the_results(batch: int, channels: int) -> None:
    """With one channel or no image a tensor is in both formats, and its strides say which one is meant."""
    src = torch.randn(batch, 4, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d)
    weight, values = torch.randn(4, channels, 2, 2, 2), torch.randn(channels)
    skip = torch.randn(batch, channels, 1, 5, 1)
    text, sizes = "channel_mul gelu residual_add", ([1] * 3, [0] * 3, [0] * 3, 1, [1] * 3)

    def results(src: Tensor, weight: Tensor, values: Tensor, skip: Tensor) -> list[Tensor]:
        dst, saved = OPS.fwd_saved(src, weight, None, *sizes, text, [values, skip])
        grad, (grad_values, grad_skip), grad_bias = OPS.epilogue_bwd.operands(dst, saved, text, [values, skip], True)
        return [dst, saved, grad, grad_values, grad_skip, grad_bias]

    arguments = (src, weight, values, skip)
    known = results(*(torch.empty_strided(each.shape, each.stride(), device="meta") for each in arguments))
    for ours, meta in zip(results(*arguments), known):
        assert (ours.shape, ours.stride()) == (meta.shape, meta.stride())


def gradients(model: Callable[[Tensor], Tensor], parameters: list[Tensor], src: Tensor) -> list[Tensor]:
    leaf = src.clone().requires_grad_()
    dst = model(leaf)
    return [dst.detach(), *torch.autograd.grad(dst.square().sum(), [leaf, *parameters])]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", INDUCTOR])
@pytest.mark.parametrize("epilogue", [None, Epilogue().relu(), Epilogue().channel_mul(torch.randn(6)).silu()], ids=str)
def test_compile_in_one_graph(backend: str, epilogue: Epilogue | None) -> None:
    torch.compiler.reset()
    model = Block(epilogue)
    parameters, src = list(model.parameters()), torch.randn(2, 4, 3, 4, 5)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    torch.testing.assert_close(
        gradients(compiled, parameters, src), gradients(model, parameters, src), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("backend", ["aot_eager", INDUCTOR])
def test_compile_with_dynamic_shapes(backend: str) -> None:
    """One graph for all extents: no compilation after the first call."""
    torch.compiler.reset()
    model = Block(Epilogue().silu())
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    parameters = list(model.parameters())
    for shape in ((3, 4, 5, 6, 7), (2, 4, 3, 9, 5), (5, 4, 8, 3, 4)):
        src = torch.randn(shape)
        torch.testing.assert_close(
            gradients(compiled, parameters, src), gradients(model, parameters, src), rtol=1e-4, atol=1e-4
        )
    assert counter.frame_count == 1


def test_compile_the_function() -> None:
    torch.compiler.reset()
    src, weight = torch.randn(2, 4, 3, 4, 5), torch.randn(4, 6, 3, 3, 3)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(src: Tensor, weight: Tensor, unbatched: Tensor) -> tuple[Tensor, Tensor]:
        chain = Epilogue().clamp(min=-1.0).div(2.0)
        return conv_transpose3d(src, weight, stride=(1, 2, 1), epilogue=chain), conv_transpose3d(unbatched, weight)

    ours = function(src, weight, src[0])
    theirs = F.conv_transpose3d(src, weight, stride=(1, 2, 1)).clamp(min=-1.0) / 2, F.conv_transpose3d(src[0], weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_compile_the_function_with_dynamic_parameters() -> None:
    """Integers that the compiler knows as symbols alone."""
    torch.compiler.reset()
    weight = torch.randn(4, 6, 3, 3, 3)

    @torch.compile(dynamic=True, backend="aot_eager")
    def function(src: Tensor, stride: Any, padding: Any) -> Tensor:
        return conv_transpose3d(src, weight, stride=stride, padding=padding)

    for stride, padding in ((1, 0), (2, 1), (3, 1), ((1, 2, 3), (0, 1, 1)), ((2, 2, 2), 0)):
        src = torch.randn(2, 4, 3, 4, 5)
        theirs = F.conv_transpose3d(src, weight, stride=stride, padding=padding)
        torch.testing.assert_close(function(src, stride, padding), theirs, rtol=1e-4, atol=1e-4)


def test_compile_under_autocast() -> None:
    torch.compiler.reset()
    model, src = Block(), torch.randn(2, 4, 3, 4, 5)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, eager = compiled(src), model(src)
    assert ours.dtype == eager.dtype
    torch.testing.assert_close(ours, eager, rtol=0.05, atol=0.05)


def test_compile_with_enable() -> None:
    """Around the call of what is compiled it costs no graph break, and what was compiled without is compiled again;
    within, it breaks the graph, and the block is tconv3d's all the same."""
    torch.compiler.reset()
    model, src = nn.ConvTranspose3d(4, 6, 3, stride=2), torch.randn(2, 4, 3, 4, 5)
    expected = model(src)

    def within(src: Tensor) -> Tensor:
        with tconv3d.enable():
            return model(src)

    whole = torch.compile(model, fullgraph=True, backend="aot_eager")
    pieces = torch.compile(within, backend="aot_eager")
    assert not ours_ran(whole, src)
    with tconv3d.enable():
        torch.testing.assert_close(whole(src), expected)
        assert ours_ran(whole, src)
    torch.testing.assert_close(pieces(src), expected)
    assert ours_ran(pieces, src)
    assert not tconv3d.is_enabled()
    assert not ours_ran(whole, src)


def test_compile_an_accelerated_model() -> None:
    torch.compiler.reset()
    model = nn.Sequential(nn.ConvTranspose3d(4, 6, 3, stride=2), nn.ReLU())
    src = torch.randn(2, 4, 3, 4, 5)
    expected = model(src)
    tconv3d.accelerate(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(src), expected, rtol=1e-4, atol=1e-4)


def test_accelerate_and_restore_what_is_compiled() -> None:
    """What was compiled before is compiled again."""
    torch.compiler.reset()
    model, src = nn.Sequential(nn.ConvTranspose3d(4, 6, 3, stride=2), nn.ReLU()), torch.randn(2, 4, 3, 4, 5)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected = compiled(src)
    for _ in range(2):
        tconv3d.accelerate(model, always=True)
        torch.testing.assert_close(compiled(src), expected)
        assert ours_ran(compiled, src)
        tconv3d.restore(compiled)
        torch.testing.assert_close(compiled(src), expected)
        assert not ours_ran(compiled, src)


@pytest.mark.parametrize("kind", ["meta", "fake"])
def test_shapes_without_data(kind: str) -> None:
    """Meta and fake tensors get the shape, dtype and strides of the real result, over the whole problem file."""
    for problem in problem_file.read("correctness.txt"):
        for memory_format in LAYOUTS.values():
            real = torch.empty(problem.src_shape).contiguous(memory_format=memory_format)
            dst = conv_transpose3d(real, torch.empty(problem.weight_shape), None, *problem.settings)
            shape = without_data(kind, real, problem.weight_shape, problem.settings)
            assert (shape.shape, shape.dtype, shape.stride()) == (dst.shape, dst.dtype, dst.stride()), problem.text


def without_data(kind: str, src: Tensor, weight_shape: tuple[int, ...], settings: tuple[Any, ...]) -> Tensor:
    if kind == "meta":
        return conv_transpose3d(src.to("meta"), torch.empty(weight_shape, device="meta"), None, *settings)
    with FakeTensorMode() as mode:
        return conv_transpose3d(mode.from_tensor(src), torch.empty(weight_shape), None, *settings)


def test_meta_tensors_beyond_any_memory() -> None:
    """2^31 and more elements: extents are 64-bit everywhere."""
    src = torch.empty(64, 256, 512, 512, 512, device="meta", requires_grad=True)
    weight = torch.empty(256, 256, 2, 2, 2, device="meta", requires_grad=True)
    dst = conv_transpose3d(src, weight, stride=2)
    assert dst.shape == (64, 256, 1024, 1024, 1024)
    dst.sum().backward()
    assert src.grad is not None
    assert src.grad.shape == src.shape


def test_module_on_meta_moves_to_data() -> None:
    module = tconv3d.ConvTranspose3d(4, 6, 3, device="meta")
    assert module(torch.empty(1, 4, 2, 2, 2, device="meta")).device.type == "meta"
    module.to_empty(device="cpu")
    assert module(torch.zeros(1, 4, 2, 2, 2)).shape == (1, 6, 4, 4, 4)
