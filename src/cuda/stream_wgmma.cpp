#include "cuda/stream_wgmma.hpp"

#include <map>
#include <utility>
#include <vector>

namespace tconv3d::cuda {

namespace {

std::string number(int64_t value) {
    return std::to_string(value);
}

/// `{%0, %1, …}`
std::string operands(int64_t count) {
    std::string text = "{";
    for (int64_t i = 0; i < count; ++i) text += (i > 0 ? ", %" : "%") + number(i);
    return text + "}";
}

/// One product of a group: how far its operands are from the descriptors, in units of 16 bytes.
struct Product {
    int64_t cores;
    int64_t weights;
};

/// By the sums that they add to: first accumulator and number of them.
using Products = std::map<std::pair<int64_t, int64_t>, std::vector<Product>>;

/// The products of the runs from group.first_run to end.first_run.
Products products_of(const Problem& problem, const StreamTables& tables, const StreamTile& tile, const TapGroup& group,
                     const TapGroup& end) {
    const int64_t block = tables.slots * tile.dst_channels * 2;
    const int64_t cores_part = 2 * tile.steps * tile.positions;
    const int64_t weights_part = (end.first_use - group.first_use) * block;
    Products products;
    int64_t index = 0, use = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            if (index >= group.first_run && index < end.first_run) {
                std::vector<Product>& list = products[{run.first, run.count}];
                const Product high = {stream_offset(tables, tile, offset), (use - group.first_use) * block};
                list.push_back(high);
                if (stream_parts(problem) == 2) {
                    list.push_back({high.cores, high.weights + weights_part});
                    list.push_back({high.cores + cores_part, high.weights});
                }
            }
            ++index;
            use += run.count;
        }
    }
    return products;
}

/// One statement for all products that add to the same sums: a compiler takes its time for each register of each.
/// `a` are the cores of src, which are the left operand where sums are scattered and the right one where gathered.
std::string statement(const Problem& problem, int64_t n, bool gathered, const std::pair<int64_t, int64_t>& run,
                      const std::vector<Product>& products) {
    const std::string type = stream_operand_type(problem);
    const bool transposable = type != "tf32"; // the instruction then says that its operands are not
    const int64_t sums = run.second * n / 2, begin = run.first * n / 2;
    const std::string wgmma = "wgmma.mma_async.sync.aligned.m64n" + number(run.second * n) + "k" +
                              number(stream_channel_step(problem)) + ".f32." + type + "." + type + " " +
                              operands(sums) + (gathered ? ", b, a" : ", a, b") + ", 1, 1, 1" +
                              (transposable ? ", 0, 0" : "") + ";\\n\"\n";
    std::string text = "        asm volatile(\"{.reg .b64 a, b;\\n\"\n";
    for (const Product& product : products) {
        text += "        \"add.s64 a, %" + number(sums) + ", " + number(product.cores) + "; add.s64 b, %" +
                number(sums + 1) + ", " + number(product.weights) + ";\\n\"\n        \"" + wgmma;
    }
    text += "        \"}\" : ";
    for (int64_t i = 0; i < sums; ++i) text += (i > 0 ? ", \"+f\"(sums[" : "\"+f\"(sums[") + number(begin + i) + "])";
    return text + " : \"l\"(cores), \"l\"(weights));\n";
}

} // namespace

const char* stream_operand_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return "bf16";
    return problem.dtype == DType::f16 ? "f16" : "tf32";
}

std::string stream_wgmmas(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    std::string text = "template <int Group, int Sums>\n__device__ __forceinline__ void wgmmas(float (&sums)[Sums], "
                       "unsigned long long cores, unsigned long long weights) {\n";
    const std::vector<TapGroup> groups = stream_tap_groups(tables, tile.tap_groups);
    for (size_t i = 0; i + 1 < groups.size() && tile.engine == StreamEngine::wgmma; ++i) {
        text += "    if constexpr (Group == " + std::to_string(i) + ") {\n";
        for (const auto& [run, products] : products_of(problem, tables, tile, groups[i], groups[i + 1]))
            text += statement(problem, tile.columns, tables.form == StreamForm::gather, run, products);
        text += "    }\n";
    }
    return text + "}\n";
}

} // namespace tconv3d::cuda
