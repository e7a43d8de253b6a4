#include "cuda_stream.hpp"
#include "text.hpp"

#include <cstdint>
#include <type_traits>

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

/// These operators are built without CUDA headers and without PyTorch's CUDA libraries, so that one file serves every
/// PyTorch. What they need of those libraries is looked up in the process, which has them loaded or has no CUDA.
namespace tconv3d::ops {

namespace {

/// Of PyTorch's stable C interface; 0 is success.
using GetCurrentStream = int32_t (*)(int32_t device, void** stream);
/// c10::cuda::CUDAStream::stream() const. A CUDAStream is a c10::Stream and nothing else.
using HandleOf = void* (*)(const c10::Stream* stream);
static_assert(std::is_trivially_copyable_v<c10::Stream>);

/// Null unless the library is loaded and has the symbol.
template <typename Function>
Function loaded_symbol(const char* library, const char* symbol) {
    void* const handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
    return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, symbol));
}

struct Entry {
    GetCurrentStream get_current_stream =
        loaded_symbol<GetCurrentStream>("libtorch_cuda.so", "aoti_torch_get_current_cuda_stream");
    // PyTorch versions before the one that brought the C function.
    HandleOf handle_of = loaded_symbol<HandleOf>("libc10_cuda.so", "_ZNK3c104cuda10CUDAStream6streamEv");
};

const Entry& entry() {
    static const Entry found;
    return found;
}

} // namespace

void* current_stream(int device) {
    if (entry().get_current_stream != nullptr) {
        void* stream = nullptr;
        TORCH_CHECK(entry().get_current_stream(device, &stream) == 0,
                    text("PyTorch has no current stream on CUDA device ", device));
        return stream;
    }
    TORCH_CHECK(entry().handle_of != nullptr, current_stream_failure());
    const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
    const c10::Stream stream = cuda.getStream({c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)});
    return entry().handle_of(&stream);
}

std::string current_stream_failure() {
    if (entry().get_current_stream != nullptr || entry().handle_of != nullptr) return "";
    return "PyTorch has no CUDA: neither libtorch_cuda.so nor libc10_cuda.so is loaded with a function for its current "
           "stream";
}

} // namespace tconv3d::ops
