#pragma once

#include <string>

namespace tconv3d::ops {

/// PyTorch's current stream on the device, as the driver's handle. An error where current_stream_failure() is not
/// empty.
void* current_stream(int device);

/// Why this PyTorch cannot be asked for its stream; empty when it can.
std::string current_stream_failure();

} // namespace tconv3d::ops
