"""accelerate, enable and disable."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d


@pytest.fixture(autouse=True)
def put_back() -> object:
    yield
    tconv3d.disable()


def ours_ran(function: object, *arguments: Tensor) -> bool:
    """Whether a call reached torch.ops.tconv3d."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*arguments)  # type: ignore[operator]
    return any(event.key == "tconv3d::fwd" for event in profile.key_averages())


class Special(nn.ConvTranspose3d):
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return super().forward(input, output_size) * 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(4, 6, 3, stride=2)
        self.same = self.up
        self.blocks = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.ConvTranspose3d(6, 6, 2, groups=3, bias=False))])
        self.special = Special(6, 6, 1)
        self.flat = nn.ConvTranspose2d(4, 4, 3)

    def forward(self, src: Tensor) -> Tensor:
        return self.special(self.blocks[0](self.up(src)))


SRC = torch.randn(2, 4, 3, 4, 5)


def test_swaps_every_module_in_place() -> None:
    model = Net()
    expected = model(SRC)
    parameters = {name: (parameter, parameter.data_ptr()) for name, parameter in model.named_parameters()}
    report = tconv3d.accelerate(model)
    assert set(report.swapped) == {"up", "blocks.0.1"}
    assert [name for name, _ in report.left] == ["special"]
    assert type(model.up) is tconv3d.ConvTranspose3d
    assert type(model.blocks[0][1]) is tconv3d.ConvTranspose3d
    assert model.same is model.up
    assert type(model.special) is Special
    assert type(model.flat) is nn.ConvTranspose2d
    for name, parameter in model.named_parameters():
        assert (parameter, parameter.data_ptr()) == (parameters[name][0], parameters[name][1])
    torch.testing.assert_close(model(SRC), expected)
    assert ours_ran(model, SRC)


def test_says_what_it_did() -> None:
    text = str(tconv3d.accelerate(Net()))
    assert "2 swapped, 1 left" in text
    assert "blocks.0.1" in text
    assert "special" in text
    assert "Special" in text


def test_a_second_call_changes_nothing() -> None:
    model = Net()
    tconv3d.accelerate(model)
    report = tconv3d.accelerate(model)
    assert report.swapped == ()
    assert type(model.up) is tconv3d.ConvTranspose3d


def test_the_model_itself() -> None:
    model = nn.ConvTranspose3d(4, 6, 3)
    expected = model(SRC)
    assert tconv3d.accelerate(model).swapped == ("",)
    assert type(model) is tconv3d.ConvTranspose3d
    torch.testing.assert_close(model(SRC), expected)


def test_lazy_modules() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(6, 3))
    tconv3d.accelerate(model)
    model(SRC)
    assert type(model[0]) is tconv3d.ConvTranspose3d


def test_keeps_training_state_hooks_and_optimizers() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(4, 6, 3)).eval()
    calls: list[int] = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD([model[0].bias], lr=1.0)
    tconv3d.accelerate(model)
    assert not model[0].training
    assert not model[0].weight.requires_grad
    before = model[0].bias.detach().clone()
    model(SRC).sum().backward()
    optimizer.step()
    assert calls == [1]
    assert model[0].weight.grad is None
    assert not torch.equal(model[0].bias, before)


def test_parametrized_modules() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.ConvTranspose3d(4, 6, 3), dim=1))
    expected, keys = model(SRC), list(model.state_dict())
    twin = copy.deepcopy(model)
    assert tconv3d.accelerate(model).swapped == ("0",)
    torch.testing.assert_close(model(SRC), expected)
    assert list(model.state_dict()) == keys
    assert ours_ran(model, SRC)
    assert not ours_ran(twin, SRC)


def test_what_accelerate_refuses() -> None:
    with pytest.raises(TypeError, match="Module"):
        tconv3d.accelerate(torch.ones(1))  # type: ignore[arg-type]


def test_enable_and_disable() -> None:
    module = nn.ConvTranspose3d(4, 6, 3)
    expected = module(SRC)
    assert not tconv3d.is_enabled()
    assert not ours_ran(module, SRC)
    tconv3d.enable()
    assert tconv3d.is_enabled()
    assert ours_ran(module, SRC)
    assert ours_ran(F.conv_transpose3d, SRC, module.weight)
    torch.testing.assert_close(module(SRC), expected)
    tconv3d.disable()
    assert not tconv3d.is_enabled()
    assert not ours_ran(module, SRC)


def test_enable_is_a_context_manager_that_nests() -> None:
    with tconv3d.enable():
        assert tconv3d.is_enabled()
        with tconv3d.disable():
            assert not tconv3d.is_enabled()
            with tconv3d.enable():
                assert tconv3d.is_enabled()
            assert not tconv3d.is_enabled()
        assert tconv3d.is_enabled()
    assert not tconv3d.is_enabled()


def test_enabled_inside_a_permanent_enable() -> None:
    tconv3d.enable()
    with tconv3d.enable():
        pass
    assert tconv3d.is_enabled()


def test_an_exception_ends_the_block() -> None:
    with pytest.raises(KeyError), tconv3d.enable():
        raise KeyError
    assert not tconv3d.is_enabled()


def test_other_threads_see_it() -> None:
    seen: list[bool] = []
    with tconv3d.enable():
        thread = threading.Thread(target=lambda: seen.append(tconv3d.is_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_enabled_calls_that_only_pytorch_can_do() -> None:
    """While enabled, F.conv_transpose3d still takes everything that it took before."""
    src, weight = torch.ones(1, 2, 3, 3, 3, dtype=torch.int64), torch.ones(2, 2, 2, 2, 2, dtype=torch.int64)
    expected = F.conv_transpose3d(src, weight)
    with tconv3d.enable():
        assert torch.equal(F.conv_transpose3d(src, weight), expected)


def test_tconv3d_works_while_enabled() -> None:
    """Its own fallback must not run in circles."""
    src, weight = torch.ones(1, 2, 3, 3, 3, dtype=torch.complex64), torch.ones(2, 2, 2, 2, 2, dtype=torch.complex64)
    with tconv3d.enable():
        dst = tconv3d.conv_transpose3d(src, weight)
    assert torch.equal(dst, F.conv_transpose3d(src, weight))


def test_training_while_enabled() -> None:
    module = nn.ConvTranspose3d(4, 6, 3, stride=2).double()
    src = SRC.double()
    expected = torch.autograd.grad(module(src).square().sum(), list(module.parameters()))
    with tconv3d.enable():
        actual = torch.autograd.grad(module(src).square().sum(), list(module.parameters()))
    torch.testing.assert_close(actual, expected)
