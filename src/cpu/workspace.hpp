#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/checked.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cpu {

/// The caller's workspace: one shared part, then one part for each worker, each aligned to cache lines. A size that
/// does not fit in 64 bits, which only tensors larger than any memory have, is an Error.
class Workspace {
public:
    template <typename T>
    static Workspace of(Checked shared_elements, Checked worker_elements, int workers) {
        const Checked element = static_cast<int64_t>(sizeof(T));
        const Checked shared = aligned(shared_elements * element), worker = aligned(worker_elements * element);
        if (!(shared + worker * Checked(workers)).fits())
            throw Error("the bytes of the workspace for " + std::to_string(workers) + " workers do not fit in 64 bits");
        return Workspace(shared.value(), worker.value(), workers);
    }

    size_t bytes() const { return static_cast<size_t>(shared_ + worker_ * workers_); }

    template <typename T>
    T* shared(void* workspace) const {
        return static_cast<T*>(workspace);
    }

    template <typename T>
    T* of_worker(void* workspace, int worker) const {
        return reinterpret_cast<T*>(static_cast<char*>(workspace) + shared_ + worker_ * worker);
    }

private:
    Workspace(int64_t shared, int64_t worker, int workers) : shared_(shared), worker_(worker), workers_(workers) {}
    static Checked aligned(Checked bytes) {
        const Checked padded = bytes + 63;
        return padded - padded.value() % 64;
    }

    int64_t shared_;
    int64_t worker_;
    int workers_;
};

} // namespace tconv3d::cpu
