#include "tconv3d/executor.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tconv3d/error.hpp"

namespace tconv3d {

namespace {

/// Tasks handed out one by one; the first exception stops the handing out.
class TaskQueue {
public:
    TaskQueue(int64_t tasks, const std::function<void(int64_t, int)>& body) : tasks_(tasks), body_(body) {}

    void work(int worker) noexcept {
        try {
            for (int64_t task; (task = next_.fetch_add(1)) < tasks_;) body_(task, worker);
        } catch (...) {
            next_ = tasks_;
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!exception_) exception_ = std::current_exception();
        }
    }

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

} // namespace

void SerialExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
}

ThreadExecutor::ThreadExecutor(int threads) : threads_(threads) {
    if (threads < 0) throw Error("threads must be 0 or more, got " + std::to_string(threads));
    if (threads == 0) threads_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void ThreadExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    TaskQueue queue(tasks, body);
    std::vector<std::thread> helpers;
    const int needed = static_cast<int>(std::min<int64_t>(threads_, tasks));
    helpers.reserve(static_cast<size_t>(std::max(needed, 0)));
    try {
        for (int worker = 1; worker < needed; ++worker) helpers.emplace_back([&queue, worker] { queue.work(worker); });
    } catch (const std::system_error&) {
        // The system has no more threads to give: those that started, and this one, do all the tasks.
    }
    queue.work(0);
    for (std::thread& helper : helpers) helper.join();
    queue.rethrow();
}

} // namespace tconv3d
