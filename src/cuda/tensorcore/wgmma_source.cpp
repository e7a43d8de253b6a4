#include "cuda/tensorcore/wgmma_source.hpp"

#include <map>
#include <utility>
#include <vector>

namespace tconv3d::cuda {

namespace {

std::string number(int64_t value) {
    return std::to_string(value);
}

/// What `item` gives for 0, 1, …, with commas between.
template <typename ItemAt>
std::string list(int64_t count, ItemAt item) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + item(i);
    return text;
}

/// One product of a group: how far its operands are from the descriptors, in units of 16 bytes.
struct Product {
    int64_t cores;
    int64_t weights;
};

/// By the sums that they add to: first accumulator and number of them.
using Products = std::map<std::pair<int64_t, int64_t>, std::vector<Product>>;

/// Adds the product of operands that are so far from their descriptors, or where they are split in parts, three.
void add_products(std::vector<Product>& list, const Problem& problem, int64_t cores, int64_t cores_part,
                  int64_t weights, int64_t weights_part) {
    list.push_back({cores, weights});
    if (stream_parts(problem) == 1) return;
    list.push_back({cores, weights + weights_part});
    list.push_back({cores + cores_part, weights});
}

/// The products of the runs from group.first_run to end.first_run. Where copies turn the weights, those of a run do not
/// lie one behind the other: each use has its own.
Products products_of(const Problem& problem, const StreamTables& tables, const StreamTile& tile, const TapGroup& group,
                     const TapGroup& end) {
    const int64_t eight_rows = 16, block = tile.turned ? eight_rows : tables.slots * tile.dst_channels * 2;
    const int64_t cores_part = 2 * tile.steps * tile.positions;
    const int64_t weights_part = (end.first_use - group.first_use) * block;
    Products products;
    int64_t index = 0, use = -group.first_use;
    for (const StreamOffset& offset : tables.offsets) {
        const int64_t cores = stream_offset(tables, tile, offset) * (tile.position_bytes() / 16);
        for (const StreamRun& run : offset.runs) {
            const int64_t together = tile.turned ? 1 : run.count;
            for (int64_t i = 0; i < run.count && index >= group.first_run && index < end.first_run; i += together)
                add_products(products[{run.first + i, together}], problem, cores, cores_part, (use + i) * block,
                             weights_part);
            ++index;
            use += run.count;
        }
    }
    return products;
}

/// A product of m64 tiles as text: `sums` names its registers, and from operand `first` on are the descriptors. `a` are
/// the cores of src, the left operand where sums are scattered and the right one where they are gathered. `adds` is 1,
/// or the name of a predicate without which the product replaces the sums.
std::string instruction(const Problem& problem, int64_t columns, bool gathered, const std::string& sums, int64_t first,
                        const Product& product, const std::string& adds = "1") {
    const std::string type = stream_operand_type(problem);
    const bool transposable = type != "tf32"; // the instruction then says that its operands are not
    return "        \"add.s64 a, %" + number(first) + ", " + number(product.cores) + "; add.s64 b, %" +
           number(first + 1) + ", " + number(product.weights) + ";\\n\"\n        \"wgmma.mma_async.sync.aligned.m64n" +
           number(columns) + "k" + number(stream_channel_step(problem)) + ".f32." + type + "." + type + " {" + sums +
           "}" + (gathered ? ", b, a, " : ", a, b, ") + adds + ", 1, 1" + (transposable ? ", 0, 0" : "") + ";\\n\"\n";
}

const char* const kBegin = "        asm volatile(\"{.reg .b64 a, b;\\n\"\n";
const char* const kDescriptors = " : \"l\"(cores), \"l\"(weights)";

/// One statement for all products that add to the same sums: a compiler takes its time for each register of each. Where
/// fp32 is split a group has sums of its own, which begin with the first product of the first k step.
std::string scattered_statements(const Problem& problem, const StreamTile& tile, const Products& by_sums) {
    const bool own_sums = stream_parts(problem) == 2;
    std::string text;
    for (const auto& [run, products] : by_sums) {
        const int64_t begin = run.first * tile.columns / 2, sums = run.second * tile.columns / 2;
        const std::string registers = list(sums, [](int64_t i) { return "%" + number(i); });
        text += kBegin;
        if (own_sums) text += "        \".reg .pred p; setp.ne.s32 p, %" + number(sums + 2) + ", 0;\\n\"\n";
        for (size_t i = 0; i < products.size(); ++i)
            text += instruction(problem, run.second * tile.columns, false, registers, sums, products[i],
                                own_sums && i == 0 ? "p" : "1");
        text += "        \"}\" : " +
                list(sums, [first = begin](int64_t i) { return "\"+f\"(sums[" + number(first + i) + "])"; }) +
                kDescriptors + (own_sums ? ", \"r\"(adds)" : "") + ");\n";
    }
    return text;
}

// Where sums are gathered, products name registers of their own, which the compiler does not see but the assembler
// does: there is less to compile, and no sum can be moved or copied while it is multiplied.

std::string sum_name(int64_t tile, int64_t index) {
    return "sum" + number(tile) + "_" + number(index);
}

/// One statement for all products of a group.
std::string gathered_statement(const Problem& problem, const StreamTile& tile, const Products& by_sums) {
    std::string text = kBegin;
    for (int64_t m = 0; m < tile.m_tiles; ++m) {
        const int64_t position = m * (tile.columns / 8) * tile.core_stride() * (tile.position_bytes() / 16);
        for (const auto& [run, products] : by_sums) {
            const int64_t begin = run.first * tile.columns / 2, sums = run.second * tile.columns / 2;
            const std::string registers = list(sums, [m, begin](int64_t i) { return sum_name(m, begin + i); });
            for (const Product& product : products)
                text += instruction(problem, run.second * tile.columns, true, registers, 0,
                                    {product.cores + position, product.weights});
        }
    }
    return text + "        \"}\" :" + kDescriptors + ");\n";
}

/// The statements that declare, clear and read these sums.
std::string named_sums(const StreamTables& tables, const StreamTile& tile) {
    const int64_t sums = stream_sums(tables, tile), each = sums / tile.m_tiles;
    const auto name = [&](int64_t i) { return sum_name(i / each, i % each); };
    const std::string function = "template <typename Sums>\n__device__ __forceinline__ void ";
    std::string clears, moves;
    for (int64_t i = 0; i < sums; ++i) {
        clears += "        \"mov.f32 " + name(i) + ", 0f00000000;\\n\"\n";
        moves += "        \"mov.f32 %" + number(i) + ", " + name(i) + ";\\n\"\n";
    }
    return function + "name_sums(Sums&) {\n    asm volatile(\".reg .f32 " +
           list(tile.m_tiles, [&](int64_t m) { return "sum" + number(m) + "_<" + number(each) + ">"; }) + ";\");\n}\n" +
           function + "clear_sums(Sums& acc) {\n    asm volatile(\n" + clears + "        );\n}\n" + function +
           "read_sums(Sums& acc) {\n    asm volatile(\n" + moves + "        : " +
           list(sums,
                [&](int64_t i) { return "\"=f\"(acc.sums[" + number(i / each) + "][" + number(i % each) + "])"; }) +
           ");\n}\n";
}

} // namespace

const char* stream_operand_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return "bf16";
    return problem.dtype == DType::f16 ? "f16" : "tf32";
}

std::string stream_wgmmas(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const bool gathered = tables.form == StreamForm::gather;
    std::string text = (gathered ? named_sums(tables, tile) : "") +
                       "template <int Group, typename Sums>\n__device__ __forceinline__ void wgmmas(Sums& " +
                       (gathered ? "acc" : "sums") + ", unsigned long long cores, unsigned long long weights" +
                       (gathered ? "" : ", int adds") + ") {\n";
    const std::vector<TapGroup>& groups = tables.tap_groups(tile.tap_groups);
    for (size_t i = 0; i + 1 < groups.size() && tile.engine == StreamEngine::wgmma; ++i) {
        text += "    if constexpr (Group == " + std::to_string(i) + ") {\n";
        const Products by_sums = products_of(problem, tables, tile, groups[i], groups[i + 1]);
        text += gathered ? gathered_statement(problem, tile, by_sums) : scattered_statements(problem, tile, by_sums);
        text += "    }\n";
    }
    return text + "}\n";
}

} // namespace tconv3d::cuda
