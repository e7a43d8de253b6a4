#pragma once

#include <cstdint>
#include <string>

#include "cuda/runtime/cache.hpp"

namespace tconv3d::cuda {

/// A kernel, specialised. The text that is compiled is `prelude`, then the embedded source `file`.
struct KernelRequest {
    std::string file;    ///< such as direct_fwd.cuh
    std::string prelude; ///< constants and the epilogue, as source
    std::string entry;   ///< the kernel's extern "C" name
    int64_t dynamic_shared_bytes = 0;
};

struct Compiled {
    std::string cubin;
    int registers;        ///< of a thread
    int64_t spill_bytes;  ///< of a thread, stores and loads together
    int64_t local_bytes;  ///< of a thread, the stack frame
    int64_t shared_bytes; ///< of a block, without the dynamic ones
    std::string log;
};

/// Why this NVRTC does not compile for the compute capability; empty when it does.
std::string reject_architecture(int sm);

/// What NVRTC is told to compile for: sm_80, but sm_90a, whose `a` unlocks the instructions of that one architecture.
/// Throws KernelFailure where reject_architecture() has a reason.
std::string architecture(int sm);

/// Why this NVRTC does not make kernels with wgmma for the compute capability; empty when it does, and where no NVRTC
/// is found that could be asked.
std::string reject_wgmma(int sm);

/// Compiles, past every cache, and reads the assembler's report on the entry. Needs no GPU and no driver.
Compiled compile_for(int sm, const KernelRequest& request);

/// The cubin from the cache, else compiled and stored there. Needs no GPU and no driver.
std::string cubin_for(int sm, const KernelRequest& request, Cache& cache);

} // namespace tconv3d::cuda
