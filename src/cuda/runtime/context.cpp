#include "cuda/runtime/context.hpp"

#include <map>
#include <mutex>

#include "core/lasting.hpp"

namespace tconv3d::cuda {
namespace {

Context current_context() {
    Context context = nullptr;
    check(driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    return context;
}

} // namespace

Context primary_context(const Device& device) {
    static std::mutex mutex;
    static Lasting<std::map<int, Context>> contexts;
    const std::lock_guard<std::mutex> lock(mutex);
    Context& context = (*contexts)[device.ordinal];
    if (context == nullptr) {
        DeviceHandle handle = 0;
        check(driver().cuDeviceGet(&handle, device.ordinal), "cuDeviceGet");
        check(driver().cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain");
    }
    return context;
}

ContextScope::ContextScope(Context context) : pushed_(current_context() != context) {
    if (pushed_) check(driver().cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

ContextScope::~ContextScope() {
    Context previous = nullptr;
    if (pushed_) driver().cuCtxPopCurrent(&previous);
}

UnrecordedScope::UnrecordedScope() : mode_(kCaptureModeRelaxed) {
    check(driver().cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

UnrecordedScope::~UnrecordedScope() {
    driver().cuThreadExchangeStreamCaptureMode(&mode_);
}

bool is_capturing(Stream stream) {
    // The default stream cannot be captured, and asking it while another stream is would break that capture.
    if (stream == nullptr) return false;
    int status = kCaptureNone;
    check(driver().cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
    return status != kCaptureNone;
}

} // namespace tconv3d::cuda
