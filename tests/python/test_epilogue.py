"""The fused epilogue against the same chain in PyTorch's operators."""

from __future__ import annotations

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import chains
from conftest import FORCED, force
from oracle import DTYPES, LAYOUTS
from tconv3d import ConvTranspose3d, Epilogue, conv_transpose3d

SRC, WEIGHT, BIAS = (2, 5, 3, 4, 17), (5, 7, 3, 2, 3), (7,)
SETTINGS = {"stride": (1, 2, 2), "padding": (1, 0, 1)}
DST = (2, 7, 3, 8, 33)
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e12, -1e12, 88.0, -88.0, 104.0, -104.0, 3.0, -3.0]


def tensors(dtype: torch.dtype) -> list[Tensor]:
    return [(torch.randn(shape, dtype=torch.float64) / 3).to(dtype) for shape in (SRC, WEIGHT, BIAS)]


@pytest.mark.parametrize("name", chains.ALL)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a few roundings of the chain in double precision, for each implementation and layout."""
    arguments, operands = tensors(dtype), chains.operands(DST, dtype)
    exact = chains.ALL[name](*(operand.double() for operand in operands))(
        F.conv_transpose3d(*(argument.double() for argument in arguments), **SETTINGS)
    )
    accumulator = torch.float64 if dtype == torch.float64 else torch.float32
    tolerance = torch.finfo(dtype).eps + 64 * torch.finfo(accumulator).eps
    for forced in FORCED:
        force(monkeypatch, forced)
        for layout, memory_format in LAYOUTS.items():
            src = arguments[0].contiguous(memory_format=memory_format)
            dst = conv_transpose3d(src, *arguments[1:], **SETTINGS, epilogue=chains.ALL[name](*operands))
            assert dst.dtype == dtype
            torch.testing.assert_close(
                dst.double(), exact, rtol=tolerance, atol=tolerance, msg=lambda m, at=(forced, layout): f"{at}: {m}"
            )
        monkeypatch.undo()


@pytest.mark.parametrize("name", chains.ALL)
def test_gradients(name: str) -> None:
    """Each gradient, of the operands too, is PyTorch's; in both layouts."""
    for memory_format in LAYOUTS.values():
        results = []
        for fused in (True, False):
            torch.manual_seed(1)
            arguments, operands = tensors(torch.float64), chains.operands(DST)
            leaves = [tensor.requires_grad_() for tensor in (*arguments, *operands)]
            epilogue = chains.ALL[name](*operands)
            src = arguments[0].contiguous(memory_format=memory_format)
            if fused:
                dst = conv_transpose3d(src, *arguments[1:], **SETTINGS, epilogue=epilogue)
            else:
                dst = epilogue(F.conv_transpose3d(src, *arguments[1:], **SETTINGS))
            results.append(torch.autograd.grad(dst, leaves, torch.randn_like(dst), allow_unused=True))
        torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["relu", "silu", "batch_norm_relu", "all_operands"])
def test_gradients_in_other_dtypes(name: str, dtype: torch.dtype) -> None:
    """The dtype of the leaf, and an error of at most twice PyTorch's and a few roundings."""
    values = [*tensors(dtype), *chains.operands(DST, dtype)]
    exact = gradients(name, values, torch.float64, fused=False)
    ours = gradients(name, values, dtype, fused=True)
    try:
        theirs = gradients(name, values, dtype, fused=False)
    except RuntimeError as error:
        if "not implemented for 'Half'" not in str(error):
            raise
        pytest.skip(f"PyTorch {torch.__version__} has no convolution in fp16 to compare with on the CPU")
    for mine, yours, want in zip(ours, theirs, exact):
        assert (mine is None) == (want is None)
        if mine is not None:
            assert mine.dtype == dtype
            error, allowed = (mine.double() - want).abs().max(), 2 * (yours.double() - want).abs().max()
            assert error <= allowed + 8 * torch.finfo(dtype).eps * want.abs().max()


def gradients(name: str, values: list[Tensor], dtype: torch.dtype, fused: bool) -> tuple[Tensor | None, ...]:
    leaves = [value.detach().to(dtype).requires_grad_() for value in values]
    epilogue = chains.ALL[name](*leaves[3:])
    if fused:
        dst = conv_transpose3d(*leaves[:3], **SETTINGS, epilogue=epilogue)
    else:
        dst = epilogue(F.conv_transpose3d(*leaves[:3], **SETTINGS))
    return torch.autograd.grad(dst, leaves, torch.ones_like(dst), allow_unused=True)


def at_one_value(name: str, value: float) -> tuple[float, float]:
    """Value and derivative in double precision, one at a time: PyTorch's vectorised gelu makes NaN of infinity."""
    x = torch.full((1, 1, 1, 1, 1), value, dtype=torch.float64, requires_grad=True)
    dst = chains.STEPS[name](*special_operands(x))(x)
    return dst.item(), torch.autograd.grad(dst, x)[0].item()


def special_operands(like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    channel = torch.tensor([1.5], dtype=like.dtype)
    return channel, channel, torch.full_like(like, 2.0), torch.full_like(like, 3.0)


@pytest.mark.parametrize("name", chains.STEPS)
@pytest.mark.parametrize("forced", FORCED)
def test_nan_infinity_and_large_values(name: str, forced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients are PyTorch's: NaN stays NaN, saturated steps saturate, nothing overflows on the way."""
    if name == "hardswish" and at_one_value(name, 3.0)[1] != 1.0:
        pytest.skip(f"PyTorch {torch.__version__} has another derivative where hardswish bends")
    force(monkeypatch, forced)
    src = torch.tensor(SPECIAL).view(1, 1, 1, 1, -1).requires_grad_()
    dst = conv_transpose3d(src, torch.ones(1, 1, 1, 1, 1), epilogue=chains.STEPS[name](*special_operands(src.detach())))
    gradient = torch.autograd.grad(dst, src, torch.ones_like(dst))[0]
    expected = torch.tensor([at_one_value(name, value) for value in SPECIAL])
    tolerances = {"equal_nan": True, "rtol": 1e-4, "atol": 1e-30}
    torch.testing.assert_close(dst.detach().flatten(), expected[:, 0], **tolerances)
    finite = torch.tensor(SPECIAL).isfinite()
    torch.testing.assert_close(gradient.flatten()[finite], expected[:, 1][finite], **tolerances)


def test_clamp_propagates_nan() -> None:
    src = torch.full((1, 1, 1, 1, 3), float("nan"))
    dst = conv_transpose3d(src, torch.ones(1, 1, 1, 1, 1), epilogue=Epilogue().clamp(-1.0, 1.0).relu())
    assert dst.isnan().all()


def test_the_epilogue_sees_the_bias() -> None:
    """It is applied to accumulator + bias, also where no tap reaches an output."""
    src, weight, bias = torch.zeros(1, 1, 2, 2, 2), torch.ones(1, 2, 1, 1, 1), torch.tensor([-3.0, 4.0])
    dst = conv_transpose3d(src, weight, bias, stride=3, epilogue=Epilogue().relu().add(1.0))
    assert torch.equal(dst[0, 0], torch.full((4, 4, 4), 1.0))
    assert torch.equal(dst[0, 1], torch.full((4, 4, 4), 5.0))


def test_rounded_once() -> None:
    """bf16: the chain runs on the fp32 accumulator; rounding between the steps would lose the small terms."""
    src, weight = torch.full((1, 1, 1, 1, 1), 256.0).bfloat16(), torch.ones(1, 1, 1, 1, 1).bfloat16()
    dst = conv_transpose3d(src, weight, epilogue=Epilogue().add(0.5).add(-256.0))
    assert dst.item() == 0.5


def test_unbatched_with_operands() -> None:
    src, weight = torch.randn(5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2)
    epilogue = Epilogue().channel_mul(torch.randn(7)).residual_add(torch.randn(7, 4, 5, 5)).relu()
    torch.testing.assert_close(
        conv_transpose3d(src, weight, epilogue=epilogue), epilogue(F.conv_transpose3d(src, weight))
    )


@pytest.mark.parametrize("transform", ["expanded", "channels_last", "sliced"])
def test_residuals_that_are_views(transform: str) -> None:
    src, weight = torch.randn(2, 5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2)
    residual = {
        "expanded": torch.randn(1, 7, 1, 5, 1).expand(2, 7, 4, 5, 5),
        "channels_last": torch.randn(2, 7, 4, 5, 5).contiguous(memory_format=torch.channels_last_3d),
        "sliced": torch.randn(2, 14, 4, 5, 10)[:, ::2, ..., 1::2],
    }[transform]
    epilogue = Epilogue().channel_mul(torch.randn(14)[::2]).residual_mul(residual)
    torch.testing.assert_close(
        conv_transpose3d(src, weight, epilogue=epilogue), epilogue(F.conv_transpose3d(src, weight))
    )


def test_operands_under_autocast() -> None:
    src, weight = torch.randn(2, 5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2)
    epilogue = Epilogue().channel_mul(torch.randn(7)).residual_add(torch.randn(2, 7, 4, 5, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dst = conv_transpose3d(src, weight, epilogue=epilogue)
    assert dst.dtype == torch.bfloat16
    torch.testing.assert_close(dst.float(), epilogue(F.conv_transpose3d(src, weight)), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("name", chains.ALL)
def test_text_form_is_what_explain_shows(name: str) -> None:
    """The chain's text goes to the library and comes back unchanged."""
    text = chains.ALL[name](*chains.operands(DST)).text
    assert text in torch.ops.tconv3d.explain("n2 ci5 co7 3x4x5 k3", text)


@pytest.mark.parametrize("value", [0.1, 1e-45, 1e300, -7.0, 1 / 3, 123456789.0, 1e-7])
def test_constants_keep_every_digit(value: float) -> None:
    src, weight = torch.ones(1, 1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, 1, 1, dtype=torch.float64)
    assert conv_transpose3d(src, weight, epilogue=Epilogue().add(value)).item() == value


def test_repr_reads_as_python() -> None:
    epilogue = Epilogue().clamp(min=-1.0).div(2.0).gelu("tanh")
    assert eval(repr(epilogue)) == epilogue
    assert repr(Epilogue().channel_add(torch.ones(3))) == "Epilogue().channel_add(Tensor[3])"


def test_chains_are_values() -> None:
    """Each method returns another chain and leaves the first alone; equal chains are equal."""
    base = Epilogue().relu()
    longer = base.add(1.0)
    assert base.text == "relu"
    assert longer.text == "relu add(1)"
    assert base == Epilogue().relu()
    assert base != longer
    assert hash(base) == hash(Epilogue().relu())
    with pytest.raises(AttributeError):
        base.steps = ()  # type: ignore[misc]


RESIDUALS = {"one value": (), "a row": (33,), "per channel": (7, 1, 1, 1), "per image": (2, 1, 1, 1, 1),
             "a plane": (1, 1, 1, 8, 33), "whole": DST}  # fmt: skip


@pytest.mark.parametrize("step", ["residual_add", "residual_mul"])
@pytest.mark.parametrize("kind", RESIDUALS)
def test_residuals_broadcast(kind: str, step: str) -> None:
    """To the output's shape, with gradients of their own shape, of the first and second order."""
    results = []
    for fused in (True, False):
        torch.manual_seed(2)
        arguments, residual = tensors(torch.float64), torch.randn(RESIDUALS[kind], dtype=torch.float64)
        leaves = [tensor.requires_grad_() for tensor in (*arguments, residual)]
        epilogue = getattr(Epilogue().tanh(), step)(residual).silu()
        if fused:
            dst = conv_transpose3d(*arguments, **SETTINGS, epilogue=epilogue)
        else:
            x = F.conv_transpose3d(*arguments, **SETTINGS).tanh()
            dst = F.silu(x + residual if step == "residual_add" else x * residual)
        grads = torch.autograd.grad(dst.square().sum(), leaves, create_graph=True)
        twice = torch.autograd.grad(sum(grad.square().sum() for grad in grads), leaves, retain_graph=True)
        plain = torch.autograd.grad(dst.sum(), leaves)
        assert plain[-1].shape == residual.shape
        results.append([dst, *grads, *twice, *plain])
    torch.testing.assert_close(*results, rtol=1e-8, atol=1e-8)


def test_unbatched_residuals_broadcast() -> None:
    src, weight = torch.randn(5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2)
    for shape in ((), (5,), (7, 1, 1, 1), (7, 4, 5, 5)):
        epilogue = Epilogue().residual_add(torch.randn(shape))
        torch.testing.assert_close(
            conv_transpose3d(src, weight, epilogue=epilogue), F.conv_transpose3d(src, weight) + epilogue.operands[0]
        )
    with pytest.raises(RuntimeError, match=r"4 dimensions.*\[2, 7, 4, 5, 5\]"):
        conv_transpose3d(src, weight, epilogue=Epilogue().residual_add(torch.randn(2, 7, 4, 5, 5)))


def test_a_residual_never_enlarges_the_output() -> None:
    """Neither in the operator nor in PyTorch's operators, which would broadcast both ways."""
    src, weight = torch.randn(1, 5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2)
    epilogue = Epilogue().residual_add(torch.randn(2, 7, 4, 5, 5))
    with pytest.raises(RuntimeError, match=r"broadcast to size \[1, 7, 4, 5, 5\], but got size \[2, 7, 4, 5, 5\]"):
        conv_transpose3d(src, weight, epilogue=epilogue)
    with pytest.raises(RuntimeError):
        epilogue(F.conv_transpose3d(src, weight))


def test_open_steps_get_their_tensors_at_the_call() -> None:
    """A U-Net's skip connection, in the function and in the module; the other tensors stay the module's."""
    src, weight, skip = torch.randn(2, 5, 3, 4, 4), torch.randn(5, 7, 2, 2, 2), torch.randn(2, 7, 4, 5, 5)
    scale = torch.nn.Parameter(torch.randn(7))
    chain = Epilogue().channel_mul(scale).residual_add().relu()
    assert chain.is_open
    assert eval(repr(Epilogue().residual_add().channel_mul())) == Epilogue().residual_add().channel_mul()
    assert chain != chain.bind(skip)
    expected = (F.conv_transpose3d(src, weight) * scale.view(-1, 1, 1, 1) + skip).relu()
    torch.testing.assert_close(conv_transpose3d(src, weight, epilogue=chain.bind(skip)), expected)

    module = ConvTranspose3d(5, 7, 2, bias=False, epilogue=chain)
    assert list(module.state_dict()) == ["weight", "epilogue_0"]
    module.load_state_dict({"weight": weight, "epilogue_0": scale})
    for operands in ([skip], (skip,), skip):
        torch.testing.assert_close(module(src, operands=operands), expected)
    leaf = skip.clone().requires_grad_()
    module(src, operands=[leaf]).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.any()
    if not torch.__version__.startswith("2.1."):  # its compiler cannot follow the binding
        torch.compiler.reset()
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(src, operands=[skip]), expected)


def test_operands_that_are_missing_or_too_many() -> None:
    src, skip = torch.randn(2, 5, 3, 4, 4), torch.randn(2, 7, 4, 5, 5)
    chain = Epilogue().residual_add().channel_mul()
    module = ConvTranspose3d(5, 7, 2, epilogue=chain)
    for operands, count in (([skip], 1), (None, 0), ([skip, skip[0, :, 0, 0, 0], skip], 3)):
        with pytest.raises(ValueError, match=f"takes 2 tensors at each call, .* but got {count} tensor.*operands="):
            module(src, operands=operands)
    with pytest.raises(ValueError, match="one dimension"):
        module(src, operands=[skip, skip])
    with pytest.raises(TypeError, match="must be a tensor, not 3"):
        module(src, operands=[skip, 3])
    with pytest.raises(ValueError, match=r"takes 0 tensors .* but got 1 tensor "):
        ConvTranspose3d(5, 7, 2)(src, operands=[skip])
    with pytest.raises(ValueError, match=r"residual_add\(\).* without its tensor"):
        conv_transpose3d(src, module.weight, epilogue=chain)


NUMPY = {"float64": 0.5, "float32": 0.5, "float16": 0.5, "int64": 2, "int8": 2}


@pytest.mark.parametrize("kind", NUMPY)
def test_numpy_scalars_are_constants(kind: str) -> None:
    value = getattr(numpy, kind)(NUMPY[kind])
    for chain in (Epilogue().add(value), Epilogue().clamp(max=value), Epilogue().softplus(value, value)):
        assert chain.text == chain.text.replace(repr(value), str(NUMPY[kind]))
        assert all(type(constant) is float for step in chain.steps for _, constant in step.constants)
    with pytest.raises(TypeError, match="must be a number"):
        Epilogue().add(numpy.bool_(True))


def test_infinite_bounds_bound_nothing() -> None:
    infinity = float("inf")
    assert Epilogue().clamp(0.0, infinity) == Epilogue().clamp(min=0.0)
    assert Epilogue().clamp(-infinity, 2.0) == Epilogue().clamp(max=2.0)
    assert Epilogue().relu().clamp(max=infinity) == Epilogue().relu()
    for bounds in ({"min": infinity}, {"max": -infinity}, {"min": float("nan")}):
        with pytest.raises(ValueError, match="finite"):
            Epilogue().clamp(**bounds)
