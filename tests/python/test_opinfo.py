"""PyTorch's own samples: OpInfo `nn.functional.conv_transpose3d`, ModuleInfo `ConvTranspose3d` and the lazy one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tconv3d

pytest.importorskip("expecttest", reason="PyTorch's sample inputs need expecttest, which is not installed")

from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

[OP] = [op for op in op_db if op.name == "nn.functional.conv_transpose3d"]
MODULES = [info for info in module_db if info.name in ("nn.ConvTranspose3d", "nn.LazyConvTranspose3d")]
DTYPES = sorted(OP.dtypes, key=str)
FLOATING = [dtype for dtype in DTYPES if dtype.is_floating_point]


def samples(dtype: torch.dtype, requires_grad: bool = False, op: OpInfo = OP) -> list[SampleInput]:
    return list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if not (ours.is_floating_point() or ours.is_complex()):
        assert torch.equal(ours, theirs)
        return
    # The halves are rounded once on each side; the others are summed in two orders.
    roundings = 4 if ours.dtype.itemsize == 2 else 32
    tolerance = roundings * torch.finfo(ours.dtype).eps * theirs.abs().max().item()
    assert (ours - theirs).abs().max() <= tolerance


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(dtype: torch.dtype) -> None:
    """Every dtype that PyTorch supports, also those that tconv3d leaves to it."""
    for sample in samples(dtype):
        arguments = (sample.input, *sample.args)
        assert_close(
            tconv3d.conv_transpose3d(*arguments, **sample.kwargs), F.conv_transpose3d(*arguments, **sample.kwargs)
        )


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_gradients(dtype: torch.dtype) -> None:
    for sample in samples(dtype, requires_grad=True):
        arguments = (sample.input, *sample.args)
        leaves = [tensor for tensor in arguments if isinstance(tensor, Tensor)]
        grads = []
        for function in (tconv3d.conv_transpose3d, F.conv_transpose3d):
            dst = function(*arguments, **sample.kwargs)
            grads.append(torch.autograd.grad(dst, leaves, torch.ones_like(dst)))
        for ours, theirs in zip(*grads):
            assert_close(ours, theirs)


@pytest.mark.parametrize("index", range(len(samples(torch.float64))))
def test_gradcheck_and_gradgradcheck(index: int) -> None:
    sample = samples(torch.float64, requires_grad=True)[index]
    tensors = [tensor for tensor in (sample.input, *sample.args) if isinstance(tensor, Tensor)]

    def function(*arguments: Tensor) -> Tensor:
        return tconv3d.conv_transpose3d(*arguments, **sample.kwargs)

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_error_inputs() -> None:
    if OP.error_inputs_func is None:
        pytest.skip("this PyTorch has no error inputs for conv_transpose3d; test_errors.py has a table of its own")
    for error in OP.error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises(error.error_type):
            tconv3d.conv_transpose3d(sample.input, *sample.args, **sample.kwargs)


def module_inputs(info: ModuleInfo, dtype: torch.dtype) -> list[ModuleInput]:
    return list(info.module_inputs_func(info, "cpu", dtype, requires_grad=True, training=True))


def build(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype) -> tuple[Any, Any]:
    arguments, keywords = sample.constructor_input.args, sample.constructor_input.kwargs
    ours = getattr(tconv3d, info.module_cls.__name__)(*arguments, **keywords, dtype=dtype)
    return ours, info.module_cls(*arguments, **keywords, dtype=dtype)


@pytest.mark.parametrize(
    ("info", "dtype"),
    [(info, dtype) for info in MODULES for dtype in info.dtypes if dtype != torch.complex32],
    ids=lambda value: value.name if isinstance(value, ModuleInfo) else str(value),
)
def test_module_samples(info: ModuleInfo, dtype: torch.dtype) -> None:
    """Same outputs and gradients as PyTorch's module with the same parameters."""
    for sample in module_inputs(info, dtype):
        ours, theirs = build(info, sample, dtype)
        arguments, keywords = sample.forward_input.args, sample.forward_input.kwargs
        theirs(*arguments, **keywords)
        ours.load_state_dict(theirs.state_dict())
        outputs = [module(*arguments, **keywords) for module in (ours, theirs)]
        assert_close(*outputs)
        grads = [
            torch.autograd.grad(dst, (*arguments, *module.parameters()), torch.ones_like(dst))
            for dst, module in zip(outputs, (ours, theirs))
        ]
        for mine, reference in zip(*grads):
            assert_close(mine, reference)


def test_there_are_samples() -> None:
    """An empty list of samples would pass every test above."""
    assert len(samples(torch.float32)) >= 8
    assert len(MODULES) == 2
    assert all(module_inputs(info, torch.float32) for info in MODULES)
