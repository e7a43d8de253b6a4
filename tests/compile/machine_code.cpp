#include "machine_code.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "scratch_folder.hpp"

namespace tconv3d::testing {

namespace {

const char* disassembler() {
    return std::getenv("TCONV3D_NVDISASM");
}

/// The digits from `begin` on.
std::string digits_at(const std::string& text, size_t begin) {
    size_t end = begin;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    return text.substr(begin, end - begin);
}

/// The numbers of the registers that an instruction names, but for uniform ones.
std::vector<int> registers_of(const std::string& instruction) {
    std::vector<int> numbers;
    for (size_t i = 0; i < instruction.size(); ++i) {
        const bool begins = i == 0 || !std::isalnum(static_cast<unsigned char>(instruction[i - 1]));
        const std::string digits = instruction[i] == 'R' && begins ? digits_at(instruction, i + 1) : "";
        if (!digits.empty()) numbers.push_back(std::stoi(digits));
    }
    return numbers;
}

/// Registers from first to end.
struct Sums {
    int first, end;
    bool has(int number) const { return number >= first && number < end; }
};

/// The sums of groups of wgmmas that are under way, the oldest first.
class UnderWay {
public:
    void begin(const Sums& sums, bool closes_group) {
        groups_.back().push_back(sums);
        if (closes_group) groups_.emplace_back();
    }

    void wait_for_all_but(size_t pending) {
        if (groups_.back().empty()) groups_.pop_back();
        while (groups_.size() > pending) groups_.erase(groups_.begin());
        groups_.emplace_back();
    }

    bool has_any_of(const std::vector<int>& numbers) const {
        for (const std::vector<Sums>& group : groups_)
            for (const Sums& sums : group)
                for (const int number : numbers)
                    if (sums.has(number)) return true;
        return false;
    }

private:
    std::vector<std::vector<Sums>> groups_ = {{}};
};

/// What lies between the address of a line and its semicolon; empty where there is no instruction.
std::string instruction_of(const std::string& line) {
    const size_t comment = line.find_first_not_of(" \t"), end = line.find(';');
    if (comment == std::string::npos || line.compare(comment, 2, "/*") != 0 || end == std::string::npos) return "";
    const size_t begin = line.find_first_not_of(" \t", line.find("*/") + 2);
    return begin < end ? line.substr(begin, end - begin) : "";
}

} // namespace

std::string no_disassembler() {
    const char* program = disassembler();
    return program != nullptr && *program != '\0' ? "" : "TCONV3D_NVDISASM names no nvdisasm";
}

std::vector<std::string> disassemble(const std::string& cubin) {
    const ScratchFolder folder;
    std::ofstream(folder / "cubin", std::ios::binary) << cubin;
    const std::string command = std::string(disassembler()) + " -c " + folder / "cubin";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    if (!pipe) throw std::runtime_error("cannot run " + command);
    std::vector<std::string> instructions;
    char line[4096];
    while (std::fgets(line, sizeof line, pipe.get()) != nullptr) {
        std::string instruction = instruction_of(line);
        if (!instruction.empty()) instructions.push_back(std::move(instruction));
    }
    if (instructions.empty()) throw std::runtime_error("no instructions from " + command);
    return instructions;
}

std::string touches_sums_under_way(const std::vector<std::string>& instructions) {
    const std::string product = "HGMMA.64x", wait = "WARPGROUP.DEPBAR.LE gsb0, 0x";
    UnderWay sums;
    for (const std::string& instruction : instructions) {
        const std::vector<int> registers = registers_of(instruction);
        if (const size_t at = instruction.find(product); at != std::string::npos) {
            // A product that nobody needs names no registers.
            const int columns = registers.empty() ? 0 : std::stoi(digits_at(instruction, at + product.size()));
            const int first = registers.empty() ? 0 : registers[0];
            sums.begin({first, first + columns / 2}, instruction.find("gsb0") != std::string::npos);
        } else if (const size_t waits = instruction.find(wait); waits != std::string::npos) {
            sums.wait_for_all_but(std::stoul(instruction.substr(waits + wait.size()), nullptr, 16));
        } else if (sums.has_any_of(registers)) {
            return instruction;
        }
    }
    return "";
}

size_t most_loads_under_way(const std::vector<std::string>& instructions) {
    std::vector<int> under_way;
    size_t most = 0;
    for (const std::string& instruction : instructions) {
        const std::vector<int> registers = registers_of(instruction);
        if (std::find_first_of(under_way.begin(), under_way.end(), registers.begin(), registers.end()) !=
            under_way.end())
            under_way.clear();
        if (instruction.find("LDG.") != std::string::npos && !registers.empty()) under_way.push_back(registers[0]);
        most = std::max(most, under_way.size());
    }
    return most;
}

} // namespace tconv3d::testing
