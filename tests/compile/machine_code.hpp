#pragma once

#include <string>
#include <vector>

namespace tconv3d::testing {

/// Why machine code cannot be read here; empty where it can. It takes nvdisasm, which TCONV3D_NVDISASM names.
std::string no_disassembler();

/// The instructions of a cubin, in order.
std::vector<std::string> disassemble(const std::string& cubin);

/// The first instruction that reads or writes the sums of a wgmma before its end has been waited for; empty when there
/// is none. A compiler may put copies of them there: it does not know that the asm statement only begins the product.
std::string touches_sums_under_way(const std::vector<std::string>& instructions);

/// The most loads from global memory that are asked for before an instruction names the register of one of them.
size_t most_loads_under_way(const std::vector<std::string>& instructions);

} // namespace tconv3d::testing
