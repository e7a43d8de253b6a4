"""enable and disable."""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tconv3d
from oracle import ours_ran


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    tconv3d.disable()


SRC = torch.randn(2, 4, 3, 4, 5)


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


BLOCK_ORDERS = [
    order for order in itertools.permutations("ABCabc") if all(order.index(x) < order.index(x.lower()) for x in "ABC")
]


@pytest.mark.parametrize("lasting", [False, True])
def test_blocks_end_in_any_order(lasting: bool) -> None:
    """A, B and C begin and a, b and c end, as blocks of three threads may: at the end it is as before."""
    if lasting:
        tconv3d.enable()
    assert len(BLOCK_ORDERS) == 90
    for order in BLOCK_ORDERS:
        blocks = {}
        for event in order:
            if event.isupper():
                blocks[event.lower()] = tconv3d.enable()
                blocks[event.lower()].__enter__()
            else:
                blocks.pop(event).__exit__(None, None, None)
            assert tconv3d.is_enabled() == (lasting or bool(blocks)), order
    for order in itertools.permutations("abc"):
        switches = {name: tconv3d.enable() for name in "abc"}  # made, but not yet entered
        for name in order:
            switches[name].__enter__()
        for switch in switches.values():
            switch.__exit__(None, None, None)
        assert tconv3d.is_enabled() == lasting, order


def test_overlapping_threads() -> None:
    """Each sees tconv3d in its block; when the last block ends, PyTorch's operator is back."""
    seen, start = [], threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(300):
            with tconv3d.enable():
                seen.append(tconv3d.is_enabled())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 2400
    assert all(seen)
    assert not tconv3d.is_enabled()


def test_a_lasting_call_inside_of_a_block_lasts() -> None:
    with tconv3d.enable():
        tconv3d.disable()
        assert not tconv3d.is_enabled()
    assert not tconv3d.is_enabled()
    with tconv3d.disable():
        tconv3d.enable()
        assert tconv3d.is_enabled()
    assert tconv3d.is_enabled()


def test_one_switch_for_several_blocks() -> None:
    switch = tconv3d.enable()
    for _ in range(2):
        with switch, switch:
            assert tconv3d.is_enabled()
        assert not tconv3d.is_enabled()


def test_as_a_decorator() -> None:
    @tconv3d.enable()
    def countdown(number: int) -> bool:
        """Counts."""
        return tconv3d.is_enabled() and (number == 0 or countdown(number - 1))

    @tconv3d.disable()
    def disabled() -> bool:
        return not tconv3d.is_enabled()

    assert not tconv3d.is_enabled()
    assert countdown(3)
    assert countdown.__doc__ == "Counts."
    assert not tconv3d.is_enabled()
    with tconv3d.enable():
        assert disabled()
        assert tconv3d.is_enabled()


def test_functions_that_run_in_pieces_are_refused() -> None:
    with pytest.raises(TypeError, match=r"pieces.* with block inside"):

        @tconv3d.enable()
        def numbers() -> Iterator[int]:
            yield 1

    assert not tconv3d.is_enabled()

    with pytest.raises(TypeError, match="pieces"):

        @tconv3d.enable()
        async def more_numbers() -> AsyncIterator[int]:
            yield 1

    assert not tconv3d.is_enabled()


def test_classes_are_refused() -> None:
    with pytest.raises(TypeError, match="Up is a class"):

        @tconv3d.enable()
        class Up(torch.nn.Module):
            pass

    assert not tconv3d.is_enabled()
