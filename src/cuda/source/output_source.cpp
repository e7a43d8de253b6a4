#include "cuda/source/output_source.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/kernels/shared/output.cuh"
#include "cuda/source/epilogue_source.hpp"
#include "cuda/source/prelude.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

const char* storage_type(DType dtype) {
    switch (dtype) {
    case DType::f32:
        return "float";
    case DType::f64:
        return "double";
    case DType::bf16:
        return "Bf16";
    case DType::f16:
        return "F16";
    }
    throw Error("unknown dtype");
}

/// C++ has no arrays of nothing.
int64_t operand_room(const Epilogue& epilogue) {
    return std::max(epilogue.operand_count(), 1);
}

} // namespace

std::string element_types(const Problem& problem) {
    return std::string("#include \"base/storage.cuh\"\nusing Storage = ") + storage_type(problem.dtype) +
           ";\nusing Compute = " + (problem.dtype == DType::f64 ? "double" : "float") + ";\n";
}

std::string output_source(const Problem& problem, const Epilogue& epilogue, const ResultForm& form,
                          int64_t thread_outputs) {
    return Prelude()
        .add("#include \"finish/steps.cuh\"\n")
        .add(element_types(problem))
        .flag("kHasBias", form.has_bias)
        .flag("kSavesPreactivation", form.saves_preactivation)
        .constant("kOperands", epilogue.operand_count())
        .constant("kOperandRoom", operand_room(epilogue))
        .flag("kCallsEpilogue", calls_epilogue(epilogue, thread_outputs))
        .add(epilogue_source(epilogue, problem.dtype))
        .str();
}

std::vector<const void*> output_argument(const Epilogue& epilogue, const Arguments& arguments, void* out) {
    using Tensors = OutputTensors<void, 1>; // without room for operands, these are appended
    const Tensors tensors = {out, arguments.preactivation, arguments.bias, {}};
    std::vector<const void*> pointers(sizeof tensors / sizeof(void*) - 1);
    std::memcpy(static_cast<void*>(pointers.data()), &tensors, pointers.size() * sizeof(void*));
    const size_t room = pointers.size() + static_cast<size_t>(operand_room(epilogue));
    pointers.insert(pointers.end(), arguments.operands.begin(), arguments.operands.end());
    pointers.resize(room);
    return pointers;
}

} // namespace tconv3d::cuda
