"""PyTorch's activation modules and functions as steps of an epilogue."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as _module

from .epilogue import Epilogue

#: What is taken wherever an epilogue is: a chain, an activation module, an nn.Sequential of them, or a function.
EpilogueLike = Union[Epilogue, nn.Module, Callable[[Tensor], Tensor]]


def as_epilogue(value: Any, argument: str) -> Epilogue:
    """`value` as a chain. `argument` is how the error names it when no steps stand for it."""
    if isinstance(value, Epilogue):
        return value
    if isinstance(value, nn.Module):
        return _of_module(value, argument)
    keywords: dict[str, Any] = {}
    function = value
    if isinstance(value, functools.partial) and not value.args:
        function, keywords = value.func, {k: v for k, v in value.keywords.items() if k != "inplace"}
    build = _FUNCTIONS.get(function) if callable(function) else None
    if build is not None:
        return build(Epilogue(), **keywords)
    if function is F.prelu:
        raise TypeError(f"{argument}: {_PRELU}")
    if isinstance(value, type) and value in _MODULES:
        raise TypeError(f"{argument} is the class {value.__name__}: give an instance of it, nn.{value.__name__}()")
    raise TypeError(
        f"{argument} must be a tconv3d.Epilogue, an activation module or function of PyTorch that it has a step for "
        f"({_known()}), not {value!r}"
    )


def why_no_steps(module: nn.Module) -> str | None:
    """Why no steps stand for this one module; None when some do."""
    if type(module) is nn.PReLU:
        return _PRELU
    if type(module) not in _MODULES:
        return f"no step computes what {_type_name(module)} does (steps stand for {_known()})"
    if has_hooks(module):
        return f"{_type_name(module)} has hooks or a forward of its own, which would not be called"
    return None


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to the module's calls, by hooks or by a `forward` that was set on the module."""
    forward = module._forward_hooks or module._forward_pre_hooks or has_own_forward(module)
    return bool(forward or module._backward_hooks or module._backward_pre_hooks)


def are_all_heard() -> bool:
    """Whether hooks for all modules listen to the calls of each."""
    forward = _module._global_forward_hooks or _module._global_forward_pre_hooks
    return bool(forward or _module._global_backward_hooks or _module._global_backward_pre_hooks)


def has_own_forward(module: nn.Module) -> bool:
    """Whether a `forward` was set on the module, which hides that of its class and may call it."""
    return "forward" in vars(module)


def _of_module(module: nn.Module, argument: str) -> Epilogue:
    if type(module) is nn.Sequential and not has_hooks(module):
        chain = Epilogue()
        for part in module:
            chain = chain.then(_of_module(part, argument))
        return chain
    why = why_no_steps(module)
    if why is not None:
        raise TypeError(f"{argument}: {why}")
    return _MODULES[type(module)](Epilogue(), module)


def _hardtanh(chain: Epilogue, min_val: float = -1.0, max_val: float = 1.0) -> Epilogue:
    # F.relu6 and F.hardtanh have the gradient 0 at their bounds, clamp has 1. Zero is the bound that outputs hit
    # exactly, so relu, whose gradient there is 0, stands for it.
    return chain.relu().clamp(max=max_val) if min_val == 0 else chain.clamp(min_val, max_val)


def _relu6(chain: Epilogue) -> Epilogue:
    return _hardtanh(chain, 0.0, 6.0)


_MODULES: dict[type, Callable[[Epilogue, Any], Epilogue]] = {
    nn.Identity: lambda chain, module: chain,
    nn.ReLU: lambda chain, module: chain.relu(),
    nn.ReLU6: lambda chain, module: _relu6(chain),
    nn.Hardtanh: lambda chain, module: _hardtanh(chain, module.min_val, module.max_val),
    nn.LeakyReLU: lambda chain, module: chain.leaky_relu(module.negative_slope),
    nn.ELU: lambda chain, module: chain.elu(module.alpha),
    nn.SiLU: lambda chain, module: chain.silu(),
    nn.GELU: lambda chain, module: chain.gelu(module.approximate),
    nn.Sigmoid: lambda chain, module: chain.sigmoid(),
    nn.Tanh: lambda chain, module: chain.tanh(),
    nn.Hardswish: lambda chain, module: chain.hardswish(),
    nn.Softplus: lambda chain, module: chain.softplus(module.beta, module.threshold),
    nn.Mish: lambda chain, module: chain.mish(),
}

#: Functions of one tensor. functools.partial gives them constants, by the names that the function has for them.
_FUNCTIONS: dict[Callable[..., Any], Callable[..., Epilogue]] = {
    **dict.fromkeys((F.relu, torch.relu, Tensor.relu), Epilogue.relu),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, Tensor.sigmoid), Epilogue.sigmoid),
    **dict.fromkeys((torch.tanh, F.tanh, Tensor.tanh), Epilogue.tanh),
    **dict.fromkeys((torch.clamp, Tensor.clamp), Epilogue.clamp),
    F.relu6: _relu6,
    F.hardtanh: _hardtanh,
    F.leaky_relu: Epilogue.leaky_relu,
    F.elu: Epilogue.elu,
    F.silu: Epilogue.silu,
    F.gelu: Epilogue.gelu,
    F.hardswish: Epilogue.hardswish,
    F.softplus: Epilogue.softplus,
    F.mish: Epilogue.mish,
}

_PRELU = (
    "PReLU learns its slope, and an epilogue has no step with a learned slope. Leave it behind the transposed "
    "convolution as a module of its own, or take a slope that stays as it is: Epilogue().leaky_relu(slope)"
)


def _known() -> str:
    return ", ".join(kind.__name__ for kind in _MODULES)


def _type_name(module: nn.Module) -> str:
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("torch.nn.") else f"{kind.__module__}.{kind.__qualname__}"
