"""accelerate(fuse=True): what follows a transposed convolution in an nn.Sequential becomes part of it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import tconv3d
from tconv3d import Epilogue
from tconv3d._fusion import Fused, FusedBatchNorm3d

SRC = torch.randn(2, 4, 3, 4, 5)


def up(groups: int = 1) -> nn.ConvTranspose3d:
    return nn.ConvTranspose3d(4, 6, 3, stride=2, groups=groups)


def norm(affine: bool = True) -> nn.BatchNorm3d:
    """With statistics that are not those of the data."""
    module = nn.BatchNorm3d(6, affine=affine)
    for tensor in (module.running_mean, module.running_var, module.weight, module.bias):
        if tensor is not None:
            nn.init.uniform_(tensor, 0.5, 2.0)
    return module


def without_statistics() -> nn.BatchNorm3d:
    return nn.BatchNorm3d(6, track_running_stats=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "activation": (lambda: nn.Sequential(up(), nn.LeakyReLU(0.2)), 1),
    "two activations": (lambda: nn.Sequential(up(), nn.ReLU(inplace=True), nn.Tanh(), nn.Dropout()), 2),
    "in an inner Sequential": (lambda: nn.Sequential(nn.Sequential(nn.Tanh(), up()), nn.Sequential(nn.ReLU())), 1),
    "batch norm": (lambda: nn.Sequential(up(), norm()), 1),
    "batch norm and activation": (lambda: nn.Sequential(up(2), norm(), nn.SiLU(), nn.Sigmoid()), 3),
    "batch norm without parameters": (lambda: nn.Sequential(up(), norm(affine=False), nn.ReLU()), 2),
    "activation and batch norm": (lambda: nn.Sequential(up(), nn.ReLU(), norm()), 1),
    "after an epilogue": (lambda: nn.Sequential(with_epilogue(), norm(), nn.Tanh()), 2),
    "no statistics": (lambda: nn.Sequential(up(), without_statistics(), nn.ReLU()), 0),
    "nothing behind": (lambda: nn.Sequential(up()), 0),
    "another module behind": (lambda: nn.Sequential(up(), nn.PReLU(), nn.ReLU()), 0),
    "twice the same activation": (lambda: nn.Sequential(up(), *2 * (nn.ELU(),), nn.Conv3d(6, 6, 1), nn.ELU()), 2),
}


def all_names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_modules(remove_duplicate=False)]


def with_epilogue() -> nn.Module:
    return tconv3d.ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(torch.randn(6)).relu())


@pytest.mark.parametrize("kind", MODELS)
def test_same_results_in_both_modes(kind: str) -> None:
    """In eval mode, in training mode, and in eval mode again; the statistics are updated as ever."""
    build, count = MODELS[kind]
    plain = build().double().eval()
    plain.apply(lambda module: setattr(module, "p", 0.0) if isinstance(module, nn.Dropout) else None)
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True, always=True)
    assert sum(len(what) for _, what in tconv3d.report(fused).fused) == count
    assert sum(isinstance(module, (Fused, FusedBatchNorm3d)) for module in fused.modules()) == count
    assert all_names(fused) == all_names(plain)
    assert list(fused.state_dict()) == list(plain.state_dict())
    for training in (False, True, False):
        results = []
        for model in (plain, fused):
            model.train(training)
            src = SRC.double().requires_grad_()
            dst = model(src)
            results.append([dst.detach(), *torch.autograd.grad(dst.square().sum(), [src, *model.parameters()])])
        torch.testing.assert_close(*results)
    torch.testing.assert_close(fused.state_dict(), plain.state_dict())


@pytest.mark.parametrize("kind", MODELS)
def test_restore(kind: str) -> None:
    plain = MODELS[kind][0]().eval()
    before, expected = repr(plain), plain(SRC)
    state = {name: set(vars(module)) for name, module in plain.named_modules()}
    tconv3d.restore(tconv3d.accelerate(plain, fuse=True))
    assert repr(plain) == before
    assert {name: set(vars(module)) for name, module in plain.named_modules()} == state
    assert torch.equal(plain(SRC), expected)


def test_a_loaded_state_counts() -> None:
    """Also one that is written behind autograd's back, as averages of weights are."""
    plain, other = (nn.Sequential(up(), norm(), nn.ReLU()).eval() for _ in range(2))
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True)
    fused(SRC)
    fused.load_state_dict(other.state_dict())
    torch.testing.assert_close(fused(SRC), other(SRC))
    for name in ("running_mean", "running_var", "weight", "bias"):
        getattr(fused[1], name).data.mul_(1.5)
        getattr(other[1], name).data.mul_(1.5)
    torch.testing.assert_close(fused(SRC), other(SRC))
    plain.load_state_dict(fused.state_dict())
    torch.testing.assert_close(plain(SRC), fused(SRC))


@pytest.mark.parametrize("way", ["deepcopy", "save"])
def test_copies(way: str) -> None:
    fused = tconv3d.accelerate(nn.Sequential(up(), norm(), nn.ReLU()).eval(), fuse=True)
    if way == "deepcopy":
        other = copy.deepcopy(fused)
    else:
        buffer = io.BytesIO()
        torch.save(fused, buffer)
        buffer.seek(0)
        other = torch.load(buffer, weights_only=False)
    expected = fused(SRC)
    with torch.no_grad():
        fused[1].running_mean.zero_()
    torch.testing.assert_close(other(SRC), expected)
    assert not torch.equal(fused(SRC), expected)
    assert type(tconv3d.restore(other)[2]) is nn.ReLU


def test_copies_of_parts_are_what_the_parts_were() -> None:
    """A copy of a container of all that was fused stays fused; of anything less, each computes for itself."""
    plain = nn.Sequential(nn.Tanh(), nn.Sequential(up(), nn.Sequential(norm(), nn.ReLU())), nn.Conv3d(6, 2, 1)).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True, always=True)
    inputs = {"1": SRC, "1.0": SRC, "1.1": torch.randn(2, 6, 3, 3, 3)}
    inputs["1.1.0"] = inputs["1.1.1"] = inputs["1.1"]
    for name, src in inputs.items():
        part = copy.deepcopy(fused.get_submodule(name))
        torch.testing.assert_close(part(src), plain.get_submodule(name)(src))
    assert copy.deepcopy(fused[1])[0]._tail.applies()
    assert not copy.deepcopy(fused[1][0])._tail.applies()
    torch.testing.assert_close(fused(SRC), plain(SRC))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_moved_to_another_dtype(dtype: torch.dtype) -> None:
    plain = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True).to(dtype)
    dst = fused(SRC.to(dtype))
    assert dst.dtype == dtype
    torch.testing.assert_close(dst.float(), plain(SRC), rtol=0.05, atol=0.05)


def test_under_autocast_and_compile() -> None:
    plain = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(fused(SRC).float(), plain(SRC).float(), rtol=0.05, atol=0.05)
    torch.compiler.reset()
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(SRC), plain(SRC), rtol=1e-4, atol=1e-4)
    program = torch.export.export(fused, (SRC,))
    torch.testing.assert_close(program.module()(SRC), plain(SRC), rtol=1e-4, atol=1e-4)


class OwnOrder(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return self[1](self[0](input)) + self[0](input)


class TwiceTheSame(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(up(), nn.ReLU())
        self.bare = self.block[0]

    def forward(self, input: Tensor) -> Tensor:
        return self.block(input) + self.bare(input)


class SharedTail(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tail = nn.Sequential(nn.ReLU())
        self.block = nn.Sequential(up(), self.tail)

    def forward(self, input: Tensor) -> Tensor:
        return self.tail(self.block(input) - 1)


def hooked(index: int) -> nn.Module:
    model = nn.Sequential(up(), nn.ReLU())
    model[index].register_forward_hook(lambda module, inputs, output: output + 1)
    return model


def intercept(module: nn.Module) -> None:
    """Sets a forward on the module, as libraries do that keep parameters elsewhere until it is called."""
    before = module.forward
    module.forward = lambda input: before(input) + 1  # type: ignore[method-assign]


def intercepted(index: int) -> nn.Module:
    model = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    intercept(model[index])
    return model


UNTOUCHED: dict[str, Callable[[], nn.Module]] = {
    "a forward of its own": lambda: OwnOrder(up(), nn.ReLU()),
    "a convolution in two places": TwiceTheSame,
    "a tail in two places": SharedTail,
    "a hook on the convolution": lambda: hooked(0),
    "a hook on the activation": lambda: hooked(1),
    "a forward set on the convolution": lambda: intercepted(0),
    "a forward set on the norm": lambda: intercepted(1),
    "in training mode": lambda: nn.Sequential(up(), norm(), nn.ReLU()).train(),
}


@pytest.mark.parametrize("kind", UNTOUCHED)
def test_nothing_is_fused_where_others_see_the_parts(kind: str) -> None:
    model = UNTOUCHED[kind]()
    expected = copy.deepcopy(model)(SRC)
    tconv3d.accelerate(model, fuse=True)
    assert tconv3d.report(model).fused == ()
    torch.testing.assert_close(model(SRC), expected)


def test_an_activation_with_a_forward_of_its_own_is_not_fused() -> None:
    model = intercepted(2)
    expected = model(SRC)
    tconv3d.accelerate(model, fuse=True)
    assert tconv3d.report(model).fused == (("0", ("1 (BatchNorm3d)",)),)
    torch.testing.assert_close(model(SRC), expected)


def test_hooks_on_the_whole_sequential_leave_it_fused() -> None:
    """As those of fully_shard and of logging are."""
    model = nn.Sequential(nn.Sequential(up(), nn.ReLU()))
    model[0].register_forward_hook(lambda module, inputs, output: output + 1)
    expected = copy.deepcopy(model)(SRC)
    tconv3d.accelerate(model, fuse=True)
    assert len(tconv3d.report(model).fused) == 1
    torch.testing.assert_close(model(SRC), expected)


def test_skipped_modules_are_not_fused() -> None:
    model = nn.Sequential(up(), nn.ReLU())
    tconv3d.accelerate(model, fuse=True, skip="0")
    assert repr(model) == repr(nn.Sequential(up(), nn.ReLU()))


def test_the_report_names_what_was_fused() -> None:
    model = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    text = str(tconv3d.report(tconv3d.accelerate(model, fuse=True)))
    assert "fused    0 with 1 (BatchNorm3d), 2 (ReLU)" in text
    assert tconv3d.report(tconv3d.accelerate(model, fuse=True)).fused == (("0", ("1 (BatchNorm3d)", "2 (ReLU)")),)
    assert "fused in eval mode: channel_mul channel_add relu" in repr(model)


def test_the_report_tells_of_a_norm_in_training_mode() -> None:
    """Models are in training mode when they are made, where nothing behind a BatchNorm3d is fused."""
    model = nn.Sequential(up(), norm(), nn.ReLU(), nn.ConvTranspose3d(6, 6, 2), nn.ReLU())
    report = tconv3d.report(tconv3d.accelerate(model, fuse=True))
    assert report.in_training == (("0", "1 (BatchNorm3d)"),)
    assert "apart    0 and 1 (BatchNorm3d), which is in training mode: after model.eval()," in str(report)
    report = tconv3d.report(tconv3d.accelerate(model.eval(), fuse=True))
    assert report.in_training == ()
    assert report.fused == (("3", ("4 (ReLU)",)), ("0", ("1 (BatchNorm3d)", "2 (ReLU)")))
    model = nn.Sequential(up(), without_statistics(), nn.ReLU())
    assert tconv3d.report(tconv3d.accelerate(model, fuse=True)).in_training == ()


def test_torchscript_takes_fused_activations() -> None:
    model = tconv3d.accelerate(nn.Sequential(up(), nn.ReLU()), fuse=True, always=True)
    torch.testing.assert_close(torch.jit.script(model)(SRC), model(SRC))


def test_torchscript_never_forgets_a_fused_norm() -> None:
    """It raises; restored, the model compiles."""
    model = tconv3d.accelerate(nn.Sequential(up(), norm(), nn.ReLU()).eval(), fuse=True)
    expected = model(SRC)
    with pytest.raises(ValueError, match="cannot take a BatchNorm3d that accelerate"):
        torch.jit.script(model)
    torch.testing.assert_close(torch.jit.script(tconv3d.restore(model))(SRC), expected)


def test_torchscript_takes_no_fused_module_that_was_changed() -> None:
    model = tconv3d.accelerate(nn.Sequential(up(), nn.ReLU(), nn.Tanh()), fuse=True)
    model[2] = nn.Sigmoid()
    with pytest.raises(ValueError, match=r"modules, changed since, .* call tconv3d\.restore"):
        torch.jit.script(model)
    expected = model(SRC)
    torch.testing.assert_close(torch.jit.script(tconv3d.restore(model))(SRC), expected)


def test_a_fused_module_may_get_an_epilogue() -> None:
    """What was fused stays behind it, as the module that it stands for did."""
    model = nn.Sequential(up(), nn.ReLU())
    plain = copy.deepcopy(model)
    tconv3d.accelerate(model, fuse=True, always=True)
    for epilogue in (Epilogue().mul(-1.0), nn.Tanh(), None):
        model[0].epilogue = epilogue
        chain = nn.Identity() if epilogue is None else epilogue
        torch.testing.assert_close(model(SRC), torch.relu(chain(plain[0](SRC))))
    model[0].epilogue = nn.Tanh()
    tconv3d.restore(model)
    assert model[0].epilogue == Epilogue().tanh()
    torch.testing.assert_close(model(SRC), torch.relu(torch.tanh(plain[0](SRC))))
