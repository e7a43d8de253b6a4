"""PyTorch's activation modules and functions in the place of an Epilogue."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d
from tconv3d import Epilogue

MODULES: dict[str, nn.Module] = {
    "ReLU": nn.ReLU(),
    "ReLU in place": nn.ReLU(inplace=True),
    "ReLU6": nn.ReLU6(),
    "Hardtanh": nn.Hardtanh(-0.3, 0.7),
    "LeakyReLU": nn.LeakyReLU(0.3),
    "ELU": nn.ELU(1.7),
    "SiLU": nn.SiLU(),
    "GELU": nn.GELU(),
    "GELU tanh": nn.GELU(approximate="tanh"),
    "Sigmoid": nn.Sigmoid(),
    "Tanh": nn.Tanh(),
    "Hardswish": nn.Hardswish(),
    "Softplus": nn.Softplus(beta=2, threshold=3),
    "Mish": nn.Mish(),
    "Identity": nn.Identity(),
    "Sequential": nn.Sequential(nn.LeakyReLU(0.2), nn.Sequential(nn.Tanh(), nn.Identity()), nn.Hardswish()),
}
FUNCTIONS: dict[str, Any] = {
    "torch.relu": torch.relu,
    "F.relu": F.relu,
    "F.relu6": F.relu6,
    "F.hardtanh": F.hardtanh,
    "F.leaky_relu": F.leaky_relu,
    "F.elu": F.elu,
    "F.silu": F.silu,
    "F.gelu": F.gelu,
    "torch.sigmoid": torch.sigmoid,
    "torch.tanh": torch.tanh,
    "Tensor.tanh": Tensor.tanh,
    "F.hardswish": F.hardswish,
    "F.softplus": F.softplus,
    "F.mish": F.mish,
    "partial leaky_relu": functools.partial(F.leaky_relu, negative_slope=0.4, inplace=False),
    "partial clamp": functools.partial(torch.clamp, min=-0.1, max=0.2),
    "partial gelu": functools.partial(F.gelu, approximate="tanh"),
}
ALL = {**MODULES, **FUNCTIONS}
SRC = torch.randn(2, 4, 3, 4, 5)


@pytest.mark.parametrize("name", ALL)
def test_computes_what_the_activation_does(name: str) -> None:
    """Everywhere that an epilogue is taken: the function, the constructor, the attribute, the lazy module."""
    activation = ALL[name]
    plain = nn.ConvTranspose3d(4, 6, 3, stride=2)
    expected = activation(plain(SRC).detach().clone())
    constructed = tconv3d.ConvTranspose3d(4, 6, 3, stride=2, epilogue=activation)
    assigned = tconv3d.ConvTranspose3d(4, 6, 3, stride=2)
    assigned.epilogue = activation
    lazy = tconv3d.LazyConvTranspose3d(6, 3, stride=2, epilogue=activation)
    lazy(SRC)
    for module in (constructed, assigned, lazy):
        assert list(module.state_dict()) == ["weight", "bias"]
        assert list(module.children()) == []
        module.load_state_dict(plain.state_dict())
        torch.testing.assert_close(module(SRC), expected)
    dst = tconv3d.conv_transpose3d(SRC, plain.weight, plain.bias, stride=2, epilogue=activation)
    torch.testing.assert_close(dst, expected)


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_the_activations(name: str) -> None:
    """Also at 0, where an input of zeros without bias is: the side of the kink is PyTorch's."""
    for values in (torch.randn(1, 1, 2, 3, 4, dtype=torch.float64), torch.zeros(1, 1, 2, 2, 2, dtype=torch.float64)):
        weight, grads = torch.full((1, 1, 1, 1, 1), 2.0, dtype=torch.float64), []
        for fused in (True, False):
            src = values.clone().requires_grad_()
            if fused:
                dst = tconv3d.conv_transpose3d(src, weight, epilogue=ALL[name])
            else:
                dst = ALL[name](F.conv_transpose3d(src, weight))
            grads.append(torch.autograd.grad(dst.sum(), src)[0])
        torch.testing.assert_close(*grads)


def test_then_joins_chains() -> None:
    scale = torch.randn(6)
    chain = Epilogue().channel_mul(scale).then(nn.SiLU()).then(Epilogue().residual_add()).then(torch.tanh)
    assert repr(chain) == "Epilogue().channel_mul(Tensor[6]).silu().residual_add().tanh()"
    assert chain.operands == (scale, None)


class Subclass(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return -input


def hooked() -> nn.Module:
    module = nn.ReLU()
    module.register_forward_hook(lambda *_: None)
    return module


REFUSED: dict[str, tuple[Any, str]] = {
    "PReLU": (nn.PReLU(6), "PReLU learns its slope"),
    "F.prelu": (F.prelu, "PReLU learns its slope"),
    "Dropout": (nn.Dropout(), "Dropout"),
    "BatchNorm3d": (nn.BatchNorm3d(6), "BatchNorm3d"),
    "a subclass": (Subclass(), "Subclass"),
    "a module with hooks": (hooked(), "hooks"),
    "inside of a Sequential": (nn.Sequential(nn.ReLU(), nn.Softmax(1)), "Softmax"),
    "another function": (torch.exp, "exp"),
    "a class": (nn.ReLU, "is the class ReLU: give an instance"),
    "a name": ("relu", "'relu'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name: str) -> None:
    value, says = REFUSED[name]
    module = tconv3d.ConvTranspose3d(4, 6, 3, epilogue=Epilogue().tanh())
    with pytest.raises(TypeError, match=says):
        tconv3d.conv_transpose3d(SRC, module.weight, epilogue=value)
    with pytest.raises(TypeError, match=says):
        tconv3d.ConvTranspose3d(4, 6, 3, epilogue=value)
    with pytest.raises(TypeError, match=says):
        tconv3d.LazyConvTranspose3d(6, 3, epilogue=value)
    with pytest.raises(TypeError, match=says):
        module.epilogue = value
    assert module.epilogue == Epilogue().tanh()
