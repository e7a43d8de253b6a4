#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace tconv3d {

/// Hands out tasks one by one, because their costs differ; the first exception stops the handing out.
class TaskQueue {
public:
    TaskQueue(int64_t tasks, const std::function<void(int64_t, int)>& body) : tasks_(tasks), body_(body) {}

    /// Does tasks as this worker until none is left.
    void work(int worker) noexcept {
        try {
            for (int64_t task; (task = next_.fetch_add(1)) < tasks_;) body_(task, worker);
        } catch (...) {
            next_ = tasks_;
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!exception_) exception_ = std::current_exception();
        }
    }

    /// After all workers have ended.
    void rethrow() const {
        if (exception_) std::rethrow_exception(exception_);
    }

private:
    const int64_t tasks_;
    const std::function<void(int64_t, int)>& body_;
    std::atomic<int64_t> next_{0};
    std::mutex mutex_;
    std::exception_ptr exception_;
};

} // namespace tconv3d
