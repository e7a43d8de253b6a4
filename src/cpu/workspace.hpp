#pragma once

#include <cstddef>
#include <cstdint>

namespace tconv3d::cpu {

/// The caller's workspace: one shared part, then one part for each worker, each aligned to cache lines.
class Workspace {
public:
    template <typename T>
    static Workspace of(int64_t shared_elements, int64_t worker_elements, int workers) {
        const int64_t element = static_cast<int64_t>(sizeof(T));
        return Workspace(aligned(shared_elements * element), aligned(worker_elements * element), workers);
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
    static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

    int64_t shared_;
    int64_t worker_;
    int workers_;
};

} // namespace tconv3d::cpu
