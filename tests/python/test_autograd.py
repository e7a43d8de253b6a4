"""Gradients of every order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

import chains
import tconv3d
from tconv3d import conv_transpose3d

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 2, 2, 2, 3), (2, 2, 2, 2, 2), {}),
    "stride": ((1, 2, 2, 2, 3), (2, 3, 3, 2, 3), {"stride": 2, "padding": 1}),
    "output_padding": ((1, 2, 2, 2, 2), (2, 1, 2, 2, 2), {"stride": (2, 3, 2), "output_padding": (1, 2, 0)}),
    "dilation": ((1, 2, 2, 2, 3), (2, 2, 2, 2, 2), {"stride": 2, "dilation": (2, 1, 3), "padding": (0, 1, 2)}),
    "groups": ((2, 4, 2, 1, 2), (4, 2, 2, 2, 1), {"groups": 2}),
    "depthwise": ((1, 3, 2, 2, 2), (3, 1, 3, 2, 2), {"groups": 3, "stride": 2}),
    "unbatched": ((2, 2, 2, 2), (2, 2, 2, 2, 2), {"stride": 2}),
    "empty_phases": ((1, 1, 2, 2, 2), (1, 2, 2, 2, 2), {"stride": 2, "dilation": 2}),
}


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def out_channels(weight: tuple[int, ...], settings: dict[str, Any]) -> int:
    return weight[1] * settings.get("groups", 1)


@pytest.mark.parametrize("case", CASES)
def test_gradcheck(case: str) -> None:
    src, weight, settings = CASES[case]
    inputs = leaves(src, weight, (out_channels(weight, settings),))
    assert gradcheck(lambda *tensors: conv_transpose3d(*tensors, **settings), inputs)


@pytest.mark.parametrize("case", CASES)
def test_gradgradcheck(case: str) -> None:
    src, weight, settings = CASES[case]
    inputs = leaves(src, weight, (out_channels(weight, settings),))
    assert gradgradcheck(lambda *tensors: conv_transpose3d(*tensors, **settings), inputs)


@pytest.mark.parametrize("case", ["plain", "groups"])
def test_gradgradcheck_in_channels_last(case: str) -> None:
    src, weight, settings = CASES[case]
    inputs = leaves(src, weight)

    def function(src: Tensor, weight: Tensor) -> Tensor:
        return conv_transpose3d(src.contiguous(memory_format=torch.channels_last_3d), weight, **settings)

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", chains.ALL)
def test_epilogue_gradcheck_and_gradgradcheck(name: str) -> None:
    dst = (1, 2, 3, 2, 3)
    inputs = leaves((1, 2, 2, 1, 2), (2, 2, 2, 2, 2), (2,), (2,), (2,), dst, dst)

    def function(src: Tensor, weight: Tensor, bias: Tensor, *operands: Tensor) -> Tensor:
        return conv_transpose3d(src, weight, bias, epilogue=chains.ALL[name](*operands))

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("wanted", list(itertools.product([True, False], repeat=3))[:-1], ids=str)
@pytest.mark.parametrize("with_epilogue", [False, True])
def test_subsets_of_gradients(wanted: tuple[bool, bool, bool], with_epilogue: bool) -> None:
    """A gradient for each tensor that asks, none for the others; frozen weights and frozen inputs included."""
    epilogue = tconv3d.Epilogue().silu() if with_epilogue else None
    values = [torch.randn(shape, dtype=torch.float64) for shape in ((2, 3, 2, 3, 4), (3, 4, 3, 3, 3), (4,))]
    grads = []
    for fused in (True, False):
        inputs = [value.clone().requires_grad_(want) for value, want in zip(values, wanted)]
        if fused:
            dst = conv_transpose3d(*inputs, stride=2, epilogue=epilogue)
        else:
            dst = F.conv_transpose3d(*inputs, stride=2)
            dst = dst if epilogue is None else epilogue(dst)
        dst.square().sum().backward()
        grads.append([tensor.grad for tensor in inputs])
    assert [grad is not None for grad in grads[0]] == list(wanted)
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


def test_without_bias() -> None:
    src, weight = leaves((1, 2, 2, 2, 3), (2, 3, 2, 2, 2))
    assert gradcheck(lambda *tensors: conv_transpose3d(*tensors, stride=2), (src, weight))
    assert gradgradcheck(lambda *tensors: conv_transpose3d(*tensors, stride=2), (src, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_gradients_have_the_dtype_and_shape_of_their_tensor(dtype: torch.dtype) -> None:
    inputs = [torch.randn(shape, requires_grad=True, dtype=dtype) for shape in ((2, 4, 2, 3, 4), (4, 3, 3, 3, 3), (6,))]
    dst = conv_transpose3d(*inputs, stride=2, groups=2)
    dst.sum().backward()
    assert dst.dtype == dtype
    for tensor in inputs:
        assert tensor.grad is not None
        assert tensor.grad.dtype == dtype
        assert tensor.grad.shape == tensor.shape


def test_gradients_accumulate() -> None:
    src, weight = leaves((1, 2, 2, 2, 3), (2, 3, 2, 2, 2))
    for _ in range(2):
        conv_transpose3d(src, weight).sum().backward()
    once = torch.autograd.grad(conv_transpose3d(src, weight).sum(), weight)[0]
    assert torch.equal(weight.grad, 2 * once)


def test_a_gradient_that_is_expanded() -> None:
    """sum() hands backward a gradient with strides of zero."""
    src, weight = (torch.ones(shape, requires_grad=True) for shape in ((1, 2, 2, 2, 3), (2, 3, 2, 2, 2)))
    conv_transpose3d(src, weight).sum().backward()
    assert torch.equal(src.grad, torch.full_like(src, 24.0))
    assert torch.equal(weight.grad, torch.full_like(weight, 12.0))


def test_retain_graph_and_freed_graph() -> None:
    src, weight = leaves((1, 2, 2, 2, 3), (2, 3, 2, 2, 2))
    dst = conv_transpose3d(src, weight).sum()
    dst.backward(retain_graph=True)
    dst.backward()
    with pytest.raises(RuntimeError, match="second time"):
        dst.backward()


def test_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    src, weight = leaves((1, 2, 2, 2, 3), (2, 3, 2, 2, 2))
    plain = torch.autograd.grad(conv_transpose3d(src, weight).sin().sum(), (src, weight))
    again = checkpoint(conv_transpose3d, src, weight, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.sin().sum(), (src, weight)), plain)


class Decoder(nn.Module):
    """A small U-Net decoder, from whichever transposed convolution."""

    def __init__(self, up: type[nn.ConvTranspose3d]) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            up(4, 6, 2, stride=2), nn.ReLU(), nn.Conv3d(6, 6, 3, padding=1), nn.ReLU(),
            up(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh(), up(4, 1, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, src: Tensor) -> Tensor:
        return self.stages(src)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last_3d], ids=str)
def test_training_equals_pytorchs(memory_format: torch.memory_format) -> None:
    """Five steps of SGD with momentum in double precision end in the same parameters."""
    models = [Decoder(tconv3d.ConvTranspose3d).double(), Decoder(nn.ConvTranspose3d).double()]
    models[1].load_state_dict(models[0].state_dict())
    start = [parameter.detach().clone() for parameter in models[0].parameters()]
    src = torch.randn(2, 4, 3, 3, 4, dtype=torch.float64).contiguous(memory_format=memory_format)
    target = torch.randn(2, 1, 12, 12, 16, dtype=torch.float64)
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            F.mse_loss(model(src), target).backward()
            optimizer.step()
    ours, theirs = (list(model.parameters()) for model in models)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert all(not torch.equal(parameter, before) for parameter, before in zip(ours, start))


def test_gradient_penalty() -> None:
    """A loss on the norm of a gradient (WGAN-GP) trains through the second backward."""
    results = []
    values = [torch.randn(shape, dtype=torch.float64) for shape in ((2, 3, 2, 3, 4), (3, 4, 3, 3, 3))]
    for function in (conv_transpose3d, F.conv_transpose3d):
        src, weight = (value.clone().requires_grad_() for value in values)
        gradient = torch.autograd.grad(function(src, weight, stride=2).tanh().sum(), src, create_graph=True)[0]
        (gradient.norm() - 1).square().backward()
        results.append((src.grad, weight.grad))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("op", ["fwd_saved", "epilogue_bwd"])
def test_parts_without_a_derivative_say_so(op: str) -> None:
    """These two are pieces of fwd's gradient: differentiating one by itself is an error, never a silent zero."""
    src, weight = (torch.ones(shape, requires_grad=True) for shape in ((1, 2, 2, 2, 3), (2, 3, 2, 2, 2)))
    if op == "fwd_saved":
        result = torch.ops.tconv3d.fwd_saved(src, weight, None, [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3, "silu")[0]
    else:
        result = torch.ops.tconv3d.epilogue_bwd(src, src.detach(), "silu")[0]
    with pytest.raises(RuntimeError):
        result.sum().backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gradient_of_the_bias_alone_is_rounded_once(dtype: torch.dtype) -> None:
    bias = torch.zeros(2, dtype=dtype, requires_grad=True)
    dst = tconv3d.conv_transpose3d(
        torch.ones(2, 1, 4, 9, 75, dtype=dtype), torch.ones(1, 2, 1, 1, 1, dtype=dtype), bias
    )
    grad = torch.randint(-3, 4, dst.shape).to(dtype)
    (actual,) = torch.autograd.grad(dst, bias, grad)
    assert torch.equal(actual, grad.double().sum((0, 2, 3, 4)).to(dtype))
