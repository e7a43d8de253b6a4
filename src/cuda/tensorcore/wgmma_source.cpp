#include "cuda/tensorcore/wgmma_source.hpp"

#include <map>
#include <utility>
#include <vector>

#include "cuda/tensorcore/shifts.hpp"

namespace tconv3d::cuda::tensorcore {

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

/// How far the operands of a product are from the descriptors, in units of 16 bytes.
struct Operands {
    int64_t row; ///< the descriptor of the input: one for each of the shifted rows
    int64_t in;
    int64_t weights;
};

/// By the accumulators that they add to: the first one and their number.
using OperandsOf = std::map<std::pair<int64_t, int64_t>, std::vector<Operands>>;

/// Adds a product, or where fp32 is split in parts, three: `part` is how far the second parts are behind the first.
void add_products(std::vector<Operands>& list, const Problem& problem, const Operands& first, const Operands& part) {
    list.push_back(first);
    if (parts(problem) == 1) return;
    list.push_back({first.row, first.in, first.weights + part.weights});
    list.push_back({first.row, first.in + part.in, first.weights});
}

/// The products from group.first_product to end.first_product. Where copies rotate the weights, those of a product do
/// not lie one behind the other: each tap has its own.
OperandsOf operands_of(const Problem& problem, const TapTables& tables, const Config& config, const TapGroup& group,
                       const TapGroup& end) {
    const bool rotates = config.weights.packing == Packing::one_rotation;
    const int64_t eight_rows = 16, block = rotates ? eight_rows : tables.depth.slots * config.tile.channels * 2;
    const Operands part = {0, 2 * config.input.steps * config.plane.positions,
                           (end.first_tap - group.first_tap) * block};
    OperandsOf operands;
    int64_t index = 0, tap = -group.first_tap;
    for (const PlaneShift& shift : tables.plane.shifts) {
        const ProductShift shifted = product_shift(tables, config, shift);
        const int64_t in = shifted.positions * (config.position_bytes() / 16);
        for (const Product& product : shift.products) {
            const int64_t together = rotates ? 1 : product.count;
            const bool grouped = index >= group.first_product && index < end.first_product;
            for (int64_t i = 0; i < product.count && grouped; i += together)
                add_products(operands[{product.first + i, together}], problem, {shifted.row, in, (tap + i) * block},
                             part);
            ++index;
            tap += product.count;
        }
    }
    return operands;
}

/// A product of m64 tiles as text: `accumulators` names its registers, and from operand `first` on are the descriptors,
/// that of the weights first. `a` is the input, the left operand in the streamed form and the right one in the gathered
/// form. `adds` is 1, or the name of a predicate without which the product replaces the accumulators.
std::string instruction(const Problem& problem, const Config& config, int64_t columns, const std::string& accumulators,
                        int64_t first, const Operands& operands, const std::string& adds = "1") {
    const std::string type = operand_type(problem);
    const bool transposable = type != "tf32"; // the instruction then says that its operands are not
    return "        \"add.s64 a, %" + number(first + 1 + operands.row) + ", " + number(operands.in) + "; add.s64 b, %" +
           number(first) + ", " + number(operands.weights) + ";\\n\"\n        \"wgmma.mma_async.sync.aligned.m64n" +
           number(columns) + "k" + number(channel_step(problem)) + ".f32." + type + "." + type + " {" + accumulators +
           "}" + (config.gathered() ? ", b, a, " : ", a, b, ") + adds + ", 1, 1" + (transposable ? ", 0, 0" : "") +
           ";\\n\"\n";
}

const char* const kBegin = "        asm volatile(\"{.reg .b64 a, b;\\n\"\n";

std::string descriptors(const TapTables& tables, const Config& config) {
    const auto rows = static_cast<int64_t>(shifted_rows(tables, config).size());
    return " : \"l\"(weights), " + list(rows, [](int64_t i) { return "\"l\"(in.at[" + number(i) + "])"; });
}

/// One statement for all products that add to the same accumulators: a compiler takes its time for each register of
/// each. Where fp32 is split a group has accumulators of its own, which begin with the first product of the first k
/// step.
std::string streamed_statements(const Problem& problem, const TapTables& tables, const Config& config,
                                const OperandsOf& operands_of) {
    const bool own_accumulators = parts(problem) == 2;
    const int64_t columns = config.products.columns;
    std::string text;
    for (const auto& [accumulators, list_of] : operands_of) {
        const int64_t begin = accumulators.first * columns / 2, count = accumulators.second * columns / 2;
        const std::string registers = list(count, [](int64_t i) { return "%" + number(i); });
        text += kBegin;
        const auto adds = count + 1 + static_cast<int64_t>(shifted_rows(tables, config).size());
        if (own_accumulators) text += "        \".reg .pred p; setp.ne.s32 p, %" + number(adds) + ", 0;\\n\"\n";
        for (size_t i = 0; i < list_of.size(); ++i)
            text += instruction(problem, config, accumulators.second * columns, registers, count, list_of[i],
                                own_accumulators && i == 0 ? "p" : "1");
        text += "        \"}\" : " +
                list(count, [begin](int64_t i) { return "\"+f\"(accumulators[" + number(begin + i) + "])"; }) +
                descriptors(tables, config) + (own_accumulators ? ", \"r\"(adds)" : "") + ");\n";
    }
    return text;
}

// In the gathered form, products name registers of their own, which the compiler does not see but the assembler does:
// there is less to compile, and no accumulator can be moved or copied while it is multiplied.

std::string register_name(int64_t tile, int64_t index) {
    return "acc" + number(tile) + "_" + number(index);
}

/// One statement for all products of a group.
std::string gathered_statement(const Problem& problem, const TapTables& tables, const Config& config,
                               const OperandsOf& operands_of) {
    const int64_t columns = config.products.columns;
    std::string text = kBegin;
    for (int64_t m = 0; m < config.products.m_tiles; ++m) {
        const int64_t position = m * (columns / 8) * config.core_stride() * (config.position_bytes() / 16);
        for (const auto& [accumulators, list_of] : operands_of) {
            const int64_t begin = accumulators.first * columns / 2, count = accumulators.second * columns / 2;
            const std::string registers = list(count, [m, begin](int64_t i) { return register_name(m, begin + i); });
            for (const Operands& operands : list_of)
                text += instruction(problem, config, accumulators.second * columns, registers, 0,
                                    {operands.row, operands.in + position, operands.weights});
        }
    }
    return text + "        \"}\" :" + descriptors(tables, config) + ");\n";
}

/// The statements that declare, clear and read these registers.
std::string named_accumulators(const TapTables& tables, const Config& config) {
    const int64_t count = accumulator_registers(tables, config), each = count / config.products.m_tiles;
    const auto name = [&](int64_t i) { return register_name(i / each, i % each); };
    const std::string function = "template <typename Acc>\n__device__ __forceinline__ void ";
    std::string clears, moves;
    for (int64_t i = 0; i < count; ++i) {
        clears += "        \"mov.f32 " + name(i) + ", 0f00000000;\\n\"\n";
        moves += "        \"mov.f32 %" + number(i) + ", " + name(i) + ";\\n\"\n";
    }
    const std::string registers =
        list(config.products.m_tiles, [&](int64_t m) { return "acc" + number(m) + "_<" + number(each) + ">"; });
    const std::string values = list(
        count, [&](int64_t i) { return "\"=f\"(acc.values[" + number(i / each) + "][" + number(i % each) + "])"; });
    return function + "declare_accumulators(Acc&) {\n    asm volatile(\".reg .f32 " + registers + ";\");\n}\n" +
           function + "clear_accumulators(Acc& acc) {\n    asm volatile(\n" + clears + "        );\n}\n" + function +
           "read_accumulators(Acc& acc) {\n    asm volatile(\n" + moves + "        : " + values + ");\n}\n";
}

} // namespace

const char* operand_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return "bf16";
    return problem.dtype == DType::f16 ? "f16" : "tf32";
}

SumsText sums_text(int64_t count) {
    return {list(count, [](int64_t i) { return "%" + number(i); }),
            list(count, [](int64_t i) { return "\"+f\"(sums[" + number(i) + "])"; })};
}

std::string wgmma_source(const Problem& problem, const TapTables& tables, const Config& config) {
    const bool gathered = config.gathered();
    std::string text = (gathered ? named_accumulators(tables, config) : "") +
                       "template <int Group, typename Acc, typename In>\n__device__ __forceinline__ void wgmmas(Acc& " +
                       (gathered ? "acc" : "accumulators") + ", const In& in, unsigned long long weights" +
                       (gathered ? "" : ", int adds") + ") {\n";
    const std::vector<TapGroup>& groups = tables.plane.tap_groups(config.products.tap_groups);
    for (size_t i = 0; i + 1 < groups.size() && config.engine == Engine::wgmma; ++i) {
        text += "    if constexpr (Group == " + std::to_string(i) + ") {\n";
        const OperandsOf operands = operands_of(problem, tables, config, groups[i], groups[i + 1]);
        text += gathered ? gathered_statement(problem, tables, config, operands)
                         : streamed_statements(problem, tables, config, operands);
        text += "    }\n";
    }
    return text + "}\n";
}

} // namespace tconv3d::cuda::tensorcore
