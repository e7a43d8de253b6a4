"""tconv3d.ConvTranspose3d is nn.ConvTranspose3d in everything but the time it takes."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import tconv3d
from tconv3d import ConvTranspose3d, Epilogue, LazyConvTranspose3d

CONSTRUCTORS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "plain": ((4, 6, 3), {}),
    "positional": ((4, 6, 3, 2, 1, 1, 2, False, 1), {}),
    "keywords": ((4, 6), {"kernel_size": (1, 2, 3), "stride": (3, 2, 1), "padding": (0, 1, 1), "dilation": (1, 2, 2)}),
    "no_bias": ((4, 6, 3), {"bias": False}),
    "dtype": ((4, 6, 3), {"dtype": torch.float64}),
    "zeros": ((4, 6, 3), {"padding_mode": "zeros", "output_padding": 1, "stride": 2}),
}


def pair(case: str) -> tuple[ConvTranspose3d, nn.ConvTranspose3d]:
    """Ours and PyTorch's, each from the same state of the random generator."""
    arguments, keywords = CONSTRUCTORS[case]
    torch.manual_seed(7)
    ours = ConvTranspose3d(*arguments, **keywords)
    torch.manual_seed(7)
    return ours, nn.ConvTranspose3d(*arguments, **keywords)


@pytest.mark.parametrize("case", CONSTRUCTORS)
def test_same_parameters_state_and_repr(case: str) -> None:
    ours, theirs = pair(case)
    assert isinstance(ours, nn.ConvTranspose3d)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, parameter in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter)


@pytest.mark.parametrize("case", CONSTRUCTORS)
def test_same_output(case: str) -> None:
    ours, theirs = pair(case)
    src = torch.randn(2, 4, 3, 4, 5, dtype=ours.weight.dtype)
    torch.testing.assert_close(ours(src), theirs(src))
    torch.testing.assert_close(ours(src[0]), theirs(src[0]))


@pytest.mark.parametrize("stride", [2, (2, 3, 4)])
def test_output_size(stride: int | tuple[int, int, int]) -> None:
    ours, theirs = ConvTranspose3d(4, 6, 3, stride=stride), nn.ConvTranspose3d(4, 6, 3, stride=stride)
    theirs.load_state_dict(ours.state_dict())
    src = torch.randn(2, 4, 3, 4, 5)
    smallest = ours(src).shape[2:]
    for extra in ((0, 0, 0), (1, 0, 1), (1, 1, 0)):
        size = [extent + more for extent, more in zip(smallest, extra)]
        for given in (size, tuple(size), [2, 6, *size]):
            dst = ours(src, output_size=given)
            assert list(dst.shape[2:]) == size
            torch.testing.assert_close(dst, theirs(src, output_size=given))
    unbatched = ours(src[0], output_size=list(smallest))
    assert unbatched.shape[1:] == smallest


def test_the_constructor_is_pytorchs() -> None:
    """Every parameter of nn.ConvTranspose3d is accepted by name; `epilogue` is the one more."""
    names = list(inspect.signature(nn.ConvTranspose3d.__init__).parameters)[1:]
    values = {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1,
              "groups": 2, "bias": True, "dilation": 1, "padding_mode": "zeros", "device": "cpu",
              "dtype": torch.float32}  # fmt: skip
    assert set(names) == set(values)
    module = ConvTranspose3d(**values, epilogue=Epilogue().relu())
    assert (module(torch.randn(1, 4, 3, 3, 3)) >= 0).all()


def test_state_dicts_are_interchangeable() -> None:
    ours, theirs = pair("plain")
    with torch.no_grad():
        theirs.weight.add_(1)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours.weight, theirs.weight)


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "save"])
def test_copies(way: str) -> None:
    module = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(torch.randn(6)).relu())
    if way == "deepcopy":
        other = copy.deepcopy(module)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(module))
    else:
        buffer = io.BytesIO()
        torch.save(module, buffer)
        buffer.seek(0)
        other = torch.load(buffer, weights_only=False)
    src = torch.randn(1, 4, 3, 3, 3)
    assert torch.equal(other(src), module(src))
    assert other.weight is not module.weight


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_to_dtype(dtype: torch.dtype) -> None:
    module = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_add(torch.randn(6))).to(dtype)
    assert module(torch.randn(1, 4, 3, 3, 3, dtype=dtype)).dtype == dtype


def test_to_channels_last() -> None:
    module = ConvTranspose3d(4, 6, 3).to(memory_format=torch.channels_last_3d)
    dst = module(torch.randn(2, 4, 3, 4, 5))
    assert dst.is_contiguous(memory_format=torch.channels_last_3d)


def test_epilogue_parameters_train_and_are_saved() -> None:
    scale = nn.Parameter(torch.randn(6))
    shift = torch.randn(6)
    module = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(scale).channel_add(shift))
    assert set(dict(module.named_parameters())) == {"weight", "bias", "epilogue_0"}
    assert set(dict(module.named_buffers())) == {"epilogue_1"}
    module(torch.randn(1, 4, 3, 3, 3)).sum().backward()
    assert scale.grad is not None
    assert scale.grad.abs().sum() > 0
    other = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(torch.zeros(6)).channel_add(torch.zeros(6)))
    other.load_state_dict(module.state_dict())
    src = torch.randn(1, 4, 3, 3, 3)
    assert torch.equal(other(src), module(src))


def test_epilogue_can_be_changed() -> None:
    module = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(torch.zeros(6)))
    src = torch.randn(1, 4, 3, 3, 3)
    assert torch.equal(module(src), torch.zeros(1, 6, 5, 5, 5))
    module.epilogue = Epilogue().relu()
    assert list(module.state_dict()) == ["weight", "bias"]
    assert torch.equal(module(src), tconv3d.conv_transpose3d(src, module.weight, module.bias).relu())
    module.epilogue = None
    assert "epilogue" not in repr(module)


def test_repr_shows_the_epilogue() -> None:
    module = ConvTranspose3d(4, 6, 3, epilogue=Epilogue().clamp(min=-1.0).div(2.0))
    assert "epilogue=Epilogue().clamp(min=-1.0).div(2.0)" in repr(module)


def test_lazy() -> None:
    module = LazyConvTranspose3d(6, 3, stride=2)
    assert isinstance(module, nn.LazyConvTranspose3d)
    src = torch.randn(2, 4, 3, 3, 3)
    dst = module(src)
    assert type(module) is ConvTranspose3d
    assert module.in_channels == 4
    torch.testing.assert_close(dst, nn.functional.conv_transpose3d(src, module.weight, module.bias, stride=2))


def test_parametrizations_and_hooks() -> None:
    module = nn.utils.parametrizations.weight_norm(ConvTranspose3d(4, 6, 3), dim=1)
    calls: list[str] = []
    module.register_forward_hook(lambda *_: calls.append("hook"))
    src = torch.randn(1, 4, 3, 3, 3)
    torch.testing.assert_close(module(src), nn.functional.conv_transpose3d(src, module.weight, module.bias))
    assert calls == ["hook"]


def test_functional_call() -> None:
    module = ConvTranspose3d(4, 6, 3)
    zeros = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    assert torch.func.functional_call(module, zeros, (torch.randn(1, 4, 3, 3, 3),)).abs().sum() == 0


def test_version() -> None:
    assert tconv3d.__version__.count(".") == 2
