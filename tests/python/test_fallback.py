"""What tconv3d does not implement goes to PyTorch's operator: same result, or same exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import tconv3d
from tconv3d import Epilogue, conv_transpose3d, fallback


def whole(*shape: int) -> Tensor:
    return torch.randint(-3, 4, shape).float()


def outcome(function: Callable[..., Tensor], *arguments: Any) -> Tensor | type:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


DTYPES = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.complex128,
          torch.float8_e4m3fn]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_other_dtypes(dtype: torch.dtype) -> None:
    src, weight = whole(1, 2, 3, 3, 3).abs().to(dtype), whole(2, 3, 2, 2, 2).abs().to(dtype)
    ours, theirs = outcome(conv_transpose3d, src, weight), outcome(F.conv_transpose3d, src, weight)
    if isinstance(theirs, Tensor):
        assert isinstance(ours, Tensor)
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    else:
        assert ours is theirs


def test_complex_gradients() -> None:
    values = [torch.randn(shape, dtype=torch.complex128) for shape in ((1, 2, 3, 3, 3), (2, 3, 2, 2, 2), (3,))]
    grads = []
    for function in (conv_transpose3d, F.conv_transpose3d):
        leaves = [value.clone().requires_grad_() for value in values]
        function(*leaves, stride=2).abs().sum().backward()
        grads.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("layout", ["sparse", "mkldnn", "sparse_csr_weight"])
def test_other_layouts(layout: str) -> None:
    src, weight = whole(2, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    if layout == "sparse":
        src = src.to_sparse()
    elif layout == "mkldnn":
        src = src.to_mkldnn()
    else:
        weight = weight.to_sparse()
    ours, theirs = outcome(conv_transpose3d, src, weight), outcome(F.conv_transpose3d, src, weight)
    if isinstance(theirs, Tensor):
        assert isinstance(ours, Tensor)
        assert torch.equal(ours.to_dense(), theirs.to_dense())
    else:
        assert ours is theirs


def test_vmap_over_src_weight_and_both() -> None:
    src, weight = whole(5, 2, 4, 3, 3, 3), whole(5, 4, 6, 2, 2, 2)
    for in_dims in ((0, None), (None, 0), (0, 0)):
        arguments = [tensor if dim == 0 else tensor[0] for tensor, dim in zip((src, weight), in_dims)]
        ours = torch.func.vmap(conv_transpose3d, in_dims)(*arguments)
        theirs = torch.func.vmap(F.conv_transpose3d, in_dims)(*arguments)
        assert torch.equal(ours, theirs)


TRANSFORMS: dict[str, Callable[[Callable[..., Tensor]], Callable[..., Any]]] = {
    "grad": lambda f: torch.func.grad(lambda s, w: f(s, w).square().sum(), argnums=(0, 1)),
    "grad of grad": lambda f: torch.func.grad(
        lambda s, w: torch.func.grad(lambda t: f(t, w).pow(3).sum())(s).square().sum(), argnums=(0, 1)
    ),
    "vjp": lambda f: lambda s, w: torch.func.vjp(f, s, w)[1](f(s, w)),
    "jvp": lambda f: lambda s, w: torch.func.jvp(f, (s, w), (s + 1, w - 1)),
    "jacrev": lambda f: torch.func.jacrev(lambda s, w: f(s, w).sum((2, 3, 4)), argnums=1),
    "jacfwd": lambda f: torch.func.jacfwd(lambda s, w: f(s, w).sum((2, 3, 4)), argnums=1),
    "per-sample gradients": lambda f: torch.func.vmap(
        torch.func.grad(lambda w, s: f(s[None], w).square().sum()), (None, 0)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name: str) -> None:
    src, weight = torch.randn(2, 2, 2, 2, 3, dtype=torch.float64), torch.randn(2, 3, 2, 2, 2, dtype=torch.float64)
    arguments = (weight, src) if name == "per-sample gradients" else (src, weight)
    ours = TRANSFORMS[name](conv_transpose3d)(*arguments)
    torch.testing.assert_close(ours, TRANSFORMS[name](F.conv_transpose3d)(*arguments))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_forward_mode(which: int) -> None:
    """The tangent of src, of weight or of bias arrives in the output's tangent."""
    values = [torch.randn(shape, dtype=torch.float64) for shape in ((2, 2, 2, 2, 3), (2, 3, 2, 2, 2), (3,))]
    tangent = torch.randn_like(values[which])
    results = []
    for function in (conv_transpose3d, F.conv_transpose3d):
        with forward_ad.dual_level():
            arguments = list(values)
            arguments[which] = forward_ad.make_dual(values[which], tangent)
            results.append(tuple(forward_ad.unpack_dual(function(*arguments, stride=2))))
    assert results[0][1] is not None
    torch.testing.assert_close(*results)


def test_forward_mode_of_an_epilogue() -> None:
    src, weight = torch.randn(1, 2, 2, 2, 3, dtype=torch.float64), torch.randn(2, 3, 2, 2, 2, dtype=torch.float64)
    epilogue = Epilogue().silu().mul(2.0)
    ours = torch.func.jvp(lambda s: conv_transpose3d(s, weight, epilogue=epilogue), (src,), (src,))
    theirs = torch.func.jvp(lambda s: 2 * F.silu(F.conv_transpose3d(s, weight)), (src,), (src,))
    torch.testing.assert_close(ours, theirs)


def test_the_epilogue_follows_the_fallback() -> None:
    src, weight = whole(1, 2, 3, 3, 3).long(), whole(2, 3, 2, 2, 2).long()
    dst = conv_transpose3d(src, weight, epilogue=Epilogue().relu().add(1.0))
    assert torch.equal(dst, F.conv_transpose3d(src, weight).relu() + 1.0)


class Named(Tensor):
    """A subclass with PyTorch's default behaviour: results of its operators keep the class."""


class Logging(Tensor):
    """A subclass with __torch_function__ of its own."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapper(Tensor):
    """A subclass that holds another tensor and knows PyTorch's operators through __torch_dispatch__."""

    inner: Tensor
    seen: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        wrapper = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(function))
        args, kwargs = tree_map(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
        return tree_map(lambda x: cls(x) if isinstance(x, Tensor) else x, function(*args, **kwargs))


def test_plain_subclass() -> None:
    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    dst = conv_transpose3d(src.as_subclass(Named), weight)
    assert type(dst) is type(F.conv_transpose3d(src.as_subclass(Named), weight)) is Named
    assert torch.equal(dst.as_subclass(Tensor), F.conv_transpose3d(src, weight))


def test_torch_function_subclass() -> None:
    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    Logging.seen.clear()
    dst = conv_transpose3d(src.as_subclass(Logging), weight)
    assert "conv_transpose3d" in Logging.seen
    assert torch.equal(dst.as_subclass(Tensor), F.conv_transpose3d(src, weight))


@pytest.mark.parametrize("which", [0, 1])
def test_torch_dispatch_subclass(which: int) -> None:
    """Its __torch_dispatch__ sees PyTorch's convolution, an operator that it knows."""
    arguments = [whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)]
    expected = F.conv_transpose3d(*arguments)
    arguments[which] = Wrapper(arguments[which])
    Wrapper.seen.clear()
    dst = conv_transpose3d(*arguments)
    assert isinstance(dst, Wrapper)
    assert torch.equal(dst.inner, expected)
    assert any("convolution" in name or "conv_transpose3d" in name for name in Wrapper.seen)


def test_parameters_are_ours() -> None:
    weight, bias = nn.Parameter(whole(2, 3, 2, 2, 2)), nn.Parameter(whole(3))
    assert fallback.reason(whole(1, 2, 3, 3, 3), weight, bias) is None


@pytest.mark.skipif(not hasattr(nn, "Buffer"), reason="this PyTorch has no nn.Buffer")
def test_buffers_are_ours() -> None:
    assert fallback.reason(whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2), nn.Buffer(whole(3))) is None


def test_modes_see_the_call() -> None:
    functions: list[Any] = []
    operators: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(function)
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators.append(str(function))
            return function(*args, **(kwargs or {}))

    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    expected = F.conv_transpose3d(src, weight)
    with Functions():
        assert torch.equal(conv_transpose3d(src, weight), expected)
    with Operators():
        assert torch.equal(conv_transpose3d(src, weight), expected)
    assert conv_transpose3d in functions
    assert "tconv3d.fwd.default" in operators


def test_module_under_vmap_of_an_ensemble() -> None:
    """torch.func's model ensembling, with our module."""
    models = [tconv3d.ConvTranspose3d(2, 3, 2) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    src = torch.randn(1, 2, 3, 3, 3)
    together = torch.func.vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (src,)))(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([model(src) for model in models]))


REASONS: dict[str, tuple[Callable[[], str | None], str]] = {
    "integer": (lambda: fallback.reason(whole(1, 2, 3, 3, 3).long(), whole(2, 3, 2, 2, 2)), "int64"),
    "complex": (lambda: fallback.reason(whole(1, 2, 3, 3, 3) + 1j, whole(2, 3, 2, 2, 2)), "complex64"),
    "sparse": (lambda: fallback.reason(whole(1, 2, 3, 3, 3).to_sparse(), whole(2, 3, 2, 2, 2)), "sparse"),
    "subclass": (lambda: fallback.reason(Wrapper(whole(1, 2, 3, 3, 3)), whole(2, 3, 2, 2, 2)), "Wrapper"),
}


@pytest.mark.parametrize("kind", REASONS)
def test_each_fallback_has_a_reason(kind: str) -> None:
    call, word = REASONS[kind]
    reason = call()
    assert reason is not None
    assert word in reason


def test_nothing_to_fall_back_for() -> None:
    assert fallback.reason(whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2), whole(3)) is None
