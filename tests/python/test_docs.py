"""The documentation holds: tables and sentences quote the committed numbers, Python runs, links and commands exist."""

from __future__ import annotations

import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
CODE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPEED_UP = re.compile(r"\d+\.\d+×")
#: Above a block: the packages that it needs, where they may be missing, or the test that runs it in place of this file.
NEEDS = re.compile(r"<!-- needs: (.+) -->\n$")
ELSEWHERE = re.compile(r"<!-- run by (.+) -->\n$")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def load_tool(name: str) -> ModuleType:
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for it
    loader.exec_module(module)
    return module


bench_table = load_tool("bench_table")


def prose(path: Path) -> str:
    """Without code blocks."""
    return CODE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_api_reference_is_made_of_the_docstrings() -> None:
    reference = load_tool("api-reference")
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run tools/api-reference --write"


@pytest.mark.parametrize("form", bench_table.FORMS)
def test_the_table_is_made_of_the_committed_numbers(form: str) -> None:
    text = bench_table.FORMS[form].place.read_text(encoding="utf-8")
    content = bench_table.FORMS[form].content()
    assert bench_table.between_markers(text, form) == content, "run tools/bench_table --write"


def test_without_committed_numbers_there_is_no_table(tmp_path: Path) -> None:
    form = bench_table.FORMS["summary"]
    assert bench_table.Form(form.make, tmp_path / "absent.json", form.place).content() == ""


def example_results() -> dict:
    row = {"name": "up", "problem": "n2 ci8 co4 4x4x4 k2 s2 p0 op0 d1 g1 f32 ncdhw fwd", "dtype": "f32",
           "layout": "ncdhw", "torch_ms": 3.0, "tconv3d_ms": 2.0, "speed_up": 1.5, "gflop": 0.5,
           "floor_ms": 1.0}  # fmt: skip
    return {
        "rows": [{**row, "direction": "fwd"}, {**row, "direction": "bwd_data", "speed_up": 0.25}],
        "geometric_means": {"fwd f32 ncdhw": 1.5, "bwd_data f32 ncdhw": 0.25},
        "ceilings": {"f32": {"matmul_gflops": 100.0, "copy_gbytes": 10.0}},
        "cpu": "Some CPU", "cores": 4, "threads": 2, "isa": "avx2", "torch": "2.13.0", "python": "3.11.7",
        "tconv3d": "0.1.0", "date": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip


def test_tables_of_a_small_run() -> None:
    summary, full = (bench_table.FORMS[form].make(example_results()) for form in ("summary", "full"))
    assert "| fwd f32 ncdhw | 1.50× | 1.50× | 1.50× |" in summary
    assert "| bwd_data f32 ncdhw | 0.25× | 0.25× | 0.25× |" in summary
    assert "| `up` | `n2 ci8 co4 4x4x4 k2 s2` | 3.000 | 2.000 | 1.50× | 250.0 | 2.0× |" in full
    assert "worst 0.25×" in full
    for text in (summary, full):
        assert "Some CPU, 4 cores, 2 threads, avx2; PyTorch 2.13.0, Python 3.11.7, tconv3d 0.1.0; 2026-01-02." in text


def example_cuda_results() -> dict:
    def side(ms: float) -> dict:
        return {"ms": ms, "extra_bytes": 3 << 20}

    sides = {"default": side(8.0), "tuned ncdhw": {"failed": "no engine"}, "tuned ndhwc": side(4.0),
             "tconv3d": {**side(2.0), "calls_us": {"tconv3d": 20.0, "default": 50.0}}}  # fmt: skip
    row = {"name": "up", "problem": "n2 ci8 co4 4x4x4 k2 s2 p0 op0 d1 g1 f32 tf32 ncdhw fwd", "mode": "tf32",
           "layout": "ncdhw", "floor_ms": 1.0, "gflop": 500.0, "mbytes": 3000.0, "sides": sides,
           "best": "tuned ndhwc"}  # fmt: skip
    return {
        "rows": [row, {**row, "name": "net_vnet", "floor_ms": 0.01}],
        "geometric_means": {"tf32 ncdhw, default PyTorch": 4.0, "tf32 ncdhw, best PyTorch": 2.0},
        "ceilings": {"tf32": {"matmul_gflops": 400_000.0, "copy_gbytes": 4_000.0}},
        "gpu": "Some GPU", "torch": "2.11.0", "cuda": "13.0", "cudnn": 91901, "python": "3.11.7", "tconv3d": "0.1.0",
        "date": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip


def test_tables_of_a_small_run_on_a_gpu() -> None:
    """A side that failed counts as endless, and a floor of a launch's length is left out of the mean over floors."""
    summary, full = (bench_table.FORMS[form].make(example_cuda_results()) for form in ("cuda-summary", "cuda-full"))
    assert "| tf32 ncdhw | 4.00× | 2.00× | 2.00× | 4.00× |" in summary
    assert "| V-Net decoder | `n2 ci8 co4 4x4x4 k2 s2` | 8.000 | 4.000 | 2.000 | 4.00× | 2.00× |" in summary
    assert "`up`" not in summary
    measured = "8.000 | inf | 4.000 | 2.000 | 1.000 | 250.0 | 1500 | 2.00× | 4.00× | 3.0 | 20 | 50 |"
    assert f"| `up` | `n2 ci8 co4 4x4x4 k2 s2` | {measured}" in full
    assert "Ceilings, tf32: matmul 400.0 TFLOP/s, copy 4.00 TB/s." in full
    assert "**tf32 ncdhw**, geometric means: 4.00× as fast as default PyTorch, 2.00× as fast as the best" in full
    assert "Over the 1 problems with a floor of at least 0.02 ms tconv3d takes 2.00× the floor" in full
    for text in (summary, full):
        assert "Some GPU; PyTorch 2.11.0, CUDA 13.0, cuDNN 9.19.1, Python 3.11.7, tconv3d 0.1.0; 2026-01-02." in text


def test_tables_of_gradients_on_a_gpu() -> None:
    """A row without a direction is fwd."""
    data = example_cuda_results()
    means = {f"bwd_data {kind}": 3.0 for kind in data["geometric_means"]}
    rows = [{**row, "direction": "bwd_data"} for row in data["rows"]]
    both = {**data, "rows": [*data["rows"], *rows], "geometric_means": {**data["geometric_means"], **means}}
    summary, full = (bench_table.FORMS[form].make(both) for form in ("cuda-summary", "cuda-full"))
    assert "| tf32 ncdhw | 4.00× |" in summary
    assert "| bwd_data tf32 ncdhw | 3.00× |" in summary
    assert summary.count("V-Net decoder") == 1, "of the first kind alone"
    assert "**bwd_data tf32 ncdhw**, geometric means: 3.00× as fast as default PyTorch" in full


def test_table_of_networks() -> None:
    row = {"network": "U-Net", "size": [1, 2], "dtype": "f32", "step": "inference", "torch_ms": 3.0, "tconv3d_ms": 2.0,
           "share": 0.5}  # fmt: skip
    data = {"rows": [row], "machine": "Some CPU", "threads": 2, "torch": "2.13.0", "tconv3d": "0.1.0",
            "date": "2026-01-02T03:04:05+00:00"}  # fmt: skip
    text = bench_table.tables.networks(data)
    assert "| U-Net | 1×2 | f32 | inference | 3.0 | 2.0 | 1.50× | 50% |" in text
    assert "Some CPU, 2 threads; PyTorch 2.13.0, tconv3d 0.1.0; 2026-01-02." in text


def test_table_of_kernelbench() -> None:
    """What was not measured is a dash, and counts for nothing."""
    row = {"problem": "level1_58", "torch_ms": 8.0, "tuned_ms": 3.0, "tconv3d_ms": 2.0}
    more = {"tuned_ndhwc_ms": 2.5, "compiled_ms": 4.0, "tuned_compiled_ms": 1.0, "tconv3d_compiled_ms": 0.5}
    text = bench_table.tables.kernelbench({"results": [row, {**row, "problem": "level2_3", **more}]})
    assert "| level 1, 58 | 8.000 | 3.000 | – | 2.000 | – | 4.00× | 1.50× |" in text
    assert "| level 2, 3 | 8.000 | 2.500 | 1.000 | 2.000 | 0.500 | 4.00× | 2.00× |" in text
    assert "Geometric means over these 2: 4.00× eager, 1.73× the best" in text
    assert "2 of 2 faster than it." in text


def test_pictures_are_drawn_from_the_committed_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib, which is not installed")
    assert all(picture.exists() for picture in bench_table.PLOTS.values())
    drawn = {results: tmp_path / picture.name for results, picture in bench_table.PLOTS.items()}
    monkeypatch.setattr(bench_table, "PLOTS", drawn)
    bench_table.draw_all()
    assert {picture.read_bytes()[1:4] for picture in drawn.values()} == {b"PNG"}


def test_sentences_quote_the_committed_numbers() -> None:
    text, values = bench_table.README.read_text(encoding="utf-8"), bench_table.committed_numbers()
    assert bench_table.NUMBER.findall(text) == [(name, values[name]) for name, _ in bench_table.NUMBER.findall(text)], (
        "run tools/bench_table --write"
    )
    assert {name for name, _ in bench_table.NUMBER.findall(text)} == set(values), "a number that no sentence quotes"


def test_no_speed_up_of_a_sentence_is_typed_by_hand() -> None:
    """Outside of markers only 1.00× is named, where both sides take the same time."""
    text = bench_table.README.read_text(encoding="utf-8")
    for form in (name for name, form in bench_table.FORMS.items() if form.place == bench_table.README):
        text = bench_table.replaced(text, form, "")
    assert set(SPEED_UP.findall(bench_table.NUMBER.sub("", text))) <= {"1.00×"}


def test_no_line_begins_with_the_marker_of_a_number() -> None:
    """Markdown ends a paragraph before a line that begins with a comment."""
    assert not re.search(r"^ *<!-- (number|end -->)", bench_table.README.read_text(encoding="utf-8"), re.MULTILINE)


def test_numbers_of_a_small_run_on_a_gpu() -> None:
    modes = example_cuda_results()
    row = modes["rows"][0]
    halves = [{**row, "name": name, "mode": "bf16", "best": best}
              for name, best in (("wide", "default"), ("narrow", "tuned ndhwc"))]  # fmt: skip
    slow = {**row, "mode": "f32", "sides": {**row["sides"], "tconv3d": {"ms": 5.0, "extra_bytes": 9 << 20}}}
    values = bench_table.tables.numbers({**modes, "rows": [*modes["rows"], *halves]}, {"rows": [slow]})
    assert values == {
        "problems": "4",
        "tf32-over-default": "4.00×",
        "tf32-over-best": "2.00×",
        "slower-than-best": "`up` in f32 ncdhw (0.80×)",
        "least-gain-in-16-bits": "2.00× on `narrow` in bf16 ncdhw",
        "most-packed-weights": "9.0 MiB",
    }
    none_slower = bench_table.tables.numbers({**modes, "rows": halves}, {"rows": []})
    assert none_slower["slower-than-best"] == "none"


def test_rewriting_changes_the_numbers_alone() -> None:
    text = "about <!-- number: gain -->1.00×<!-- end --> as fast; <!-- number: count -->2<!-- end --> problems"
    changed = bench_table.with_numbers(text, {"gain": "3.21×", "count": "23"})
    assert changed == text.replace("1.00×", "3.21×").replace(">2<", ">23<")
    with pytest.raises(KeyError):
        bench_table.with_numbers(text, {"gain": "3.21×"})


@pytest.mark.parametrize("form", bench_table.FORMS)
def test_rewriting_changes_the_table_alone(form: str) -> None:
    text = bench_table.FORMS[form].place.read_text(encoding="utf-8")
    changed = bench_table.replaced(text, form, "| table |")
    assert bench_table.between_markers(changed, form) == "| table |"
    assert bench_table.replaced(changed, form, bench_table.between_markers(text, form)).split() == text.split()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, namespace, missing = path.read_text(encoding="utf-8"), {}, set()
    for block in CODE.finditer(text):
        language, code = block.groups()
        if language != "python" or ELSEWHERE.search(text, 0, block.start()):
            continue
        needs = NEEDS.search(text, 0, block.start())
        absent = {name for name in (needs[1].split() if needs else ()) if find_spec(name) is None}
        missing |= absent
        if not absent:
            exec(compile(code, str(path), "exec"), namespace)
    if missing:
        pytest.skip(f"a block of {path.name} needs {', '.join(sorted(missing))}; all others ran")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(prose(path)):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{path.name} links to {target}#{anchor}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_commands_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets
